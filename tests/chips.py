"""A slice of v6e-64 as libtpu lists it: 64 chips, two by two of a host after the other."""

from __future__ import annotations

SIDE = 8
# [device id] -> coordinates of its chip: ids go along x first.
COORDS = [[number % SIDE, number // SIDE, 0] for number in range(SIDE * SIDE)]
# Ids in the order of the list, which begins 0, 1, 8, 9, 2, 3, 10, 11.
LISTED = [
    SIDE * (y + down) + x + along
    for y in range(0, SIDE, 2)
    for x in range(0, SIDE, 2)
    for down in (0, 1)
    for along in (0, 1)
]
