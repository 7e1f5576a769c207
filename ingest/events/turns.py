"""Executions in turn: the k-th of a key on each device, where all its devices have as many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.events.spans import starts_of_runs


@dataclass(frozen=True)
class Turns:
    """Executions by key, device and time. Arrays over rows are in the order of the rows given."""

    turn: Integers  # which execution of its key on its device a row is, from 0
    key: Integers  # of a row, its key's place in the arrays over keys
    most: Integers  # executions of a key on the device that has most
    alike: Mask  # whether all devices of a key have as many

    def numbers(self, chosen: Mask) -> Integers:
        """One number for each key and turn, from 0, of the chosen keys; of other rows no number counts."""
        counts = np.where(chosen, self.most, 0)
        first: Integers = np.cumsum(counts) - counts
        return first[self.key] + self.turn

    def lag_little(self, start: Integers) -> Mask:
        """Keys of which each device's k-th execution starts within half a period of the earliest one's.

        However late a device is, these executions are one instance (METRICS, Instances). A key that each
        device has once has no period.
        """
        keys = len(self.most)
        count = np.where(self.alike, self.most, 0)
        place = self.numbers(self.alike)
        rows = self.alike[self.key]
        first = np.full(int(count.sum()), np.iinfo(np.int64).max)
        last = np.full(len(first), np.iinfo(np.int64).min)
        np.minimum.at(first, place[rows], start[rows])
        np.maximum.at(last, place[rows], start[rows])
        key = np.repeat(np.arange(keys), count)
        period = np.full(len(first), np.iinfo(np.int64).max)
        same = key[1:] == key[:-1]
        passed = np.diff(first)
        period[:-1][same] = passed[same]
        period[1:][same] = np.minimum(period[1:][same], passed[same])
        late = 2 * (last - first) >= period
        little: Mask = self.alike & (self.most > 1)
        little[key[late]] = False
        return little


def find_turns(key: Integers, device: Integers, start: Integers, end: Integers) -> Turns:
    """The turn of each execution. key: of any size; the other arrays as in instances.py."""
    order = np.lexsort((end, start, device, key))
    keys, devices = key[order], device[order]
    of_key, of_lane = starts_of_runs(keys), starts_of_runs(keys, devices)
    lengths = np.diff(of_lane, append=len(order))
    turn, number = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    turn[order] = np.arange(len(order)) - np.repeat(of_lane, lengths)
    number[order] = np.repeat(np.arange(len(of_key)), np.diff(of_key, append=len(order)))
    lanes = np.searchsorted(of_lane, of_key)
    most, least = (
        each.reduceat(lengths, lanes) if len(lanes) else lengths
        for each in (np.maximum, np.minimum)
    )
    return Turns(turn, number, most, most == least)
