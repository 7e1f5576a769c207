"""Items that are made ahead of their use."""

from __future__ import annotations

import threading

import pytest

from xlahouse.ingest.events.ahead import made_ahead


def test_items_come_in_order_even_empty_ones():
    assert list(made_ahead(lambda item: item, [1, 0, None, 2])) == [1, 0, None, 2]
    assert list(made_ahead(lambda item: item, [])) == []


def test_two_are_made_at_a_time():
    both = threading.Barrier(2, timeout=10)  # which one alone would not get past

    def make(number: int) -> int:
        both.wait()
        return number

    assert list(made_ahead(make, range(4))) == [0, 1, 2, 3]


def test_no_more_are_made_than_asked_for():
    made = []
    third = threading.Event()

    def make(number: int) -> int:
        made.append(number)
        if number == 2:
            third.set()
        return number

    ahead = made_ahead(make, range(6))
    assert next(ahead) == 0
    assert sorted(made) in ([0], [0, 1])
    assert next(ahead) == 1
    assert third.wait(10)
    assert 3 not in made
    assert list(ahead) == [2, 3, 4, 5]


def test_an_error_comes_where_its_item_would():
    def make(number: int) -> int:
        if number == 1:
            raise ValueError("no more")
        return number

    ahead = made_ahead(make, [0, 1, 2])
    assert next(ahead) == 0
    with pytest.raises(ValueError, match="no more"):
        next(ahead)
