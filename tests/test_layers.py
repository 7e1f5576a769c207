"""Which of the long tests run for a commit."""

from __future__ import annotations

from tests import layers


def test_one_long_test_in_four_has_its_turn_and_with_all_each(monkeypatch):
    names = [f"tests/test_a.py::test_{number}" for number in range(1000)]
    monkeypatch.delenv(layers.ALL, raising=False)
    turns = [name for name in names if layers.has_its_turn(name)]
    # 250 on average, with a standard deviation of 13.7.
    assert 180 < len(turns) < 320
    assert turns == [name for name in names if layers.has_its_turn(name)]
    monkeypatch.setenv(layers.ALL, "1")
    assert all(map(layers.has_its_turn, names))
