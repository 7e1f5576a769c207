"""Items that are made one ahead of their use."""

from __future__ import annotations

import threading

import pytest

from xlahouse.ingest.ahead import one_ahead


def test_items_come_in_order_even_empty_ones():
    assert list(one_ahead(iter([1, 0, None, 2]))) == [1, 0, None, 2]
    assert list(one_ahead(iter([]))) == []


def test_the_next_is_made_while_one_is_used_and_no_more():
    made = []
    second = threading.Event()

    def items():
        for number in range(4):
            made.append(number)
            if number == 1:
                second.set()
            yield number

    ahead = one_ahead(items())
    assert next(ahead) == 0
    assert second.wait(10)
    assert made == [0, 1]
    assert list(ahead) == [1, 2, 3]


def test_an_error_comes_where_its_item_would():
    def items():
        yield 1
        raise ValueError("no more")

    ahead = one_ahead(items())
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="no more"):
        next(ahead)
