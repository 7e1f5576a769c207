"""What METRICS says of terms that many views share: percentiles, the mesh, axes, wire bytes."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.views.oracle.drawn import Row

MARKED = ("prefill", "decode", "mixed")
UNCOUNTED = ("warmup", "compile")


def rank(values: Iterable[Any], share: float) -> Any:
    """The value of row ceil(p n) in order; None without values."""
    ordered = sorted(values)
    return ordered[max(1, math.ceil(share * len(ordered) - 1e-9)) - 1] if ordered else None


def middle(values: Iterable[int]) -> int | None:
    """The median: the mean of the two middle values, rounded down, where their number is even."""
    ordered = sorted(values)
    n = len(ordered)
    return (ordered[(n - 1) // 2] + ordered[n // 2]) // 2 if ordered else None


def median(values: Iterable[Any]) -> Any:
    """The middle value, of an even number half way between the two; None without values."""
    ordered = sorted(values)
    return statistics.median(ordered) if ordered else None


def mean(values: Sequence[Any]) -> Any:
    """The mean; None without values."""
    return sum(values) / len(values) if values else None


def ratio(part: Any, whole: Any) -> Any:
    """A quotient; None where a side is unknown or the divisor 0."""
    return None if part is None or not whole else part / whole


def total(values: Iterable[Any]) -> Any:
    """A sum; None where a part is unknown."""
    listed = list(values)
    return None if None in listed or not listed else sum(listed)


def bucket(payload: int | None) -> int | None:
    """The largest power of two that is not above S."""
    return payload if not payload else 1 << (payload.bit_length() - 1)


def grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of columns."""
    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(row[name] for name in names)].append(row)
    return dict(found)


@dataclass(frozen=True)
class Run:
    """A run's tables, with what follows from them."""

    run_id: str
    tables: dict[str, list[Row]]

    def rows(self, table: str) -> list[Row]:
        """Rows of a table."""
        return self.tables.get(table, [])

    @cached_property
    def facts(self) -> Row:
        """The row of the run; what is not known is None."""
        return defaultdict(lambda: None, self.rows("runs")[0])

    @cached_property
    def devices(self) -> dict[int, Row]:
        """Devices by number; what is not known of one is None."""
        return {row["device_id"]: defaultdict(lambda: None, row) for row in self.rows("devices")}

    def is_sparse(self, device: int) -> bool:
        """Whether it is a SparseCore."""
        return self.devices[device]["core"] == "sparsecore"

    @cached_property
    def axes(self) -> list[tuple[str, int]]:
        """Axes of the mesh, major to minor; none where it does not hold the run's devices."""
        mesh, _ = self._chosen_mesh
        sizes = [(axis["axis"], axis["size"]) for axis in mesh]
        cores = [device for device in self.devices if not self.is_sparse(device)]
        return sizes if math.prod(size for _, size in sizes) == len(cores) and sizes else []

    @cached_property
    def _chosen_mesh(self) -> tuple[list[Row], bool]:
        settings = self.rows("run_settings")
        if settings and "mesh" in settings[0]:
            return settings[0]["mesh"], True
        return self.facts["mesh"] or [], False

    @cached_property
    def places(self) -> dict[int, dict[str, int]]:
        """Device -> axis -> coordinate; empty without a mesh."""
        if not self.axes:
            return {}
        order = None if self._chosen_mesh[1] else self.facts["mesh_device_ids"]
        if order is None:
            cores = [device for device in self.devices if not self.is_sparse(device)]
            named = {device: self.devices[device] for device in cores}
            order = sorted(cores, key=lambda d: (named[d]["world"], named[d]["logical_id"]))
        found: dict[int, dict[str, int]] = {}
        for place, device in enumerate(order):
            left, found[device] = place, {}
            for axis, size in reversed(self.axes):
                found[device][axis] = left % size
                left //= size
        return found

    @cached_property
    def groups(self) -> dict[tuple[Any, ...], list[int | None]]:
        """(world, program, op, group) -> members in their order."""
        ordered = sorted(self.rows("replica_groups"), key=lambda row: row["position"])
        key = ("world", "program_id", "op", "group_index")
        return {k: [r["device_id"] for r in rows] for k, rows in grouped(ordered, *key).items()}

    @cached_property
    def pairs(self) -> dict[tuple[Any, ...], list[tuple[int, int]]]:
        """(world, program, op) -> pairs of a permute or send."""
        key = ("world", "program_id", "op")
        found = grouped(self.rows("permute_pairs"), *key)
        return {
            k: [(r["source_device_id"], r["target_device_id"]) for r in rows]
            for k, rows in found.items()
        }

    def along(self, members: Iterable[int | None]) -> tuple[str, ...] | None:
        """Axes along which members differ; None where one is not in the mesh."""
        listed = list(members)
        if any(member not in self.places for member in listed):
            return None
        seen = [self.places[member] for member in listed if member is not None]
        return tuple(a for a, _ in self.axes if len({place[a] for place in seen}) > 1)

    @cached_property
    def group_axes(self) -> dict[tuple[Any, ...], str]:
        """(world, program, op, group) -> axis of that group alone."""
        return {key: self._group_axis(key) for key in self.groups}

    def _group_axis(self, key: tuple[Any, ...]) -> str:
        members = self.groups[key]
        if key[:3] in self.pairs:  # a permute's groups share its one axis
            return self._union([p for p in self.pairs[key[:3]] if p[0] != p[1]])
        return "none" if len(members) == 1 else _name(self, self.along(members))

    def _union(self, pairs: list[tuple[int, int]]) -> str:
        found: set[str] = set()
        for pair in pairs:
            axes = self.along(pair)
            if axes is None:
                return "unclassified"
            found |= set(axes)
        return _name(self, tuple(found))

    @cached_property
    def op_axes(self) -> dict[tuple[Any, ...], str]:
        """(world, program, op) -> axis of the instruction."""
        found = {}
        for key in {key[:3] for key in self.groups}:
            named = {axis for k, axis in self.group_axes.items() if k[:3] == key}
            if "unclassified" in named:
                found[key] = "unclassified"
            else:
                found[key] = named.pop() if len(named) == 1 else "mixed"
        return found

    def op_key(self, row: Row) -> tuple[Any, ...]:
        """(world, program, op) of a collective."""
        return self.devices[row["device_id"]]["world"], row["program_id"], row["op"]

    @cached_property
    def collectives(self) -> list[Row]:
        """The table, each row with its axis, wire bytes, size bucket and end."""
        return [self._collective(row) for row in self.rows("collectives")]

    def _collective(self, row: Row) -> Row:
        axis = self.op_axes.get(self.op_key(row), "unclassified")
        more = {"axis": axis, "wire": self._wire(row), "bucket": bucket(row["payload_bytes"])}
        filled: Row = defaultdict(lambda: None, {**row, **more})
        filled["end_ps"] = row["start_ps"] + row["duration_ps"]
        return filled

    def _wire(self, row: Row) -> float | None:
        kind, n, size = row["kind"], row["group_size"], row["payload_bytes"]
        if kind in ("collective-permute", "send-recv"):
            if size != 0 and n is None and self.op_key(row) not in self.pairs:
                return None
            return 0 if n == 1 else size
        if n == 1:
            return 0
        if kind == "collective-broadcast" and n is not None:
            members = self.groups[(*self.op_key(row), row["group_index"])]
            return 0 if members[-1] == row["device_id"] else size
        if n is None or size is None or kind == "ragged-all-to-all":
            return None
        if kind == "all-reduce":
            return 2 * (n - 1) / n * size
        return (n - 1) / n * size


def _name(run: Run, axes: tuple[str, ...] | None) -> str:
    if axes is None:
        return "unclassified"
    return "+".join(axis for axis, _ in run.axes if axis in axes) or "none"


def steps_launched(run: Run, phase: str | None) -> int | None:
    """Steps of a phase that have launches, on any device; one of a compiled run; None without one."""
    if any((row["source"], row["phase"]) == ("compiled", phase) for row in run.rows("programs")):
        return 1
    launches = [row for row in run.rows("launches") if row["phase"] == phase]
    return len({(r["request"], r["step"]) for r in launches if r["step"] is not None}) or None
