"""YAML of any shape is values or one line, for plans and cards alike: never a hang, never a traceback."""

from __future__ import annotations

import pytest

from tests.ingest.mutants.texts import bomb
from tests.ingest.test_card import CARD
from tests.ingest.traces import tpu_trace, write
from xlahouse.capture.card_file import read_card
from xlahouse.capture.errors import ManifestError
from xlahouse.capture.plan import read_plan
from xlahouse.capture.yaml_values import YamlFault, yaml_values
from xlahouse.ingest.run import ingest_paths

FAULTS = {
    "9^9 values in 500 bytes": (bomb(10), "more than 1,048,576 values"),
    "a list in itself": ("x: &a [*a]\n", "contains itself"),
    "a mapping in itself": ("x: &a {b: *a}\n", "contains itself"),
    "depth": ("x: " + "[" * 600 + "]" * 600 + "\n", "nested too deeply"),
    "no time": ("x: !!timestamp never\n", "put text into quotes"),
    "no truth": ("x: !!bool maybe\n", "put text into quotes"),
    "no number": ("x: !!int ''\n", "put text into quotes"),
    "no date": ("x: 2024-13-45\n", "put text into quotes"),
    "a number of 5,000 digits": (f"x: {'1' * 5000}\n", "put text into quotes"),
    "length": ("x: " + "y" * (1 << 20) + "\n", "more than 1,048,576 characters"),
    "an object": ("x: !!python/object/apply:os.getpid []\n", "not YAML"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line(fault, tmp_path):
    text, said = FAULTS[fault]
    with pytest.raises(YamlFault, match=said):
        yaml_values(text)
    with pytest.raises(ManifestError, match=rf"card\.yaml.*{said}") as caught:
        read_card(f"workload: {{}}\n{text}", "card.yaml")
    assert len(str(caught.value).splitlines()) == 1
    (tmp_path / "plan.yaml").write_text(f"name: a\n{text}")
    with pytest.raises(ManifestError, match=rf"plan\.yaml.*{said}"):
        read_plan(tmp_path / "plan.yaml")


def test_values_that_aliases_name_often_are_counted_once_in_time():
    """2^60 values: to visit each would not end."""
    with pytest.raises(YamlFault):
        yaml_values(bomb(60, 2))
    assert yaml_values("a: &a [1, 2]\nb: [*a, *a]\n") == {"a": [1, 2], "b": [[1, 2], [1, 2]]}


def test_a_bomb_beside_a_trace_is_an_unreadable_card(tmp_path):
    write(tmp_path / "row" / "h.xplane.pb", tpu_trace())
    (tmp_path / "row" / "card.yaml").write_text(CARD + bomb(10))
    (result,) = ingest_paths([str(tmp_path / "row")], str(tmp_path / "w"))
    assert result.issues["warning"] >= 1


def test_a_card_of_thousands_of_wrong_fields_is_parsed_once(monkeypatch):
    """To parse it for the line of each fault would take hours."""
    import yaml

    calls, compose = [], yaml.compose
    monkeypatch.setattr(yaml, "compose", lambda *a, **k: calls.append(1) or compose(*a, **k))
    fields = "".join(f"  wrong{number}: 1\n" for number in range(100))
    _, problems = read_card(f"workload:\n{fields}", "card.yaml")
    assert [problem.line for problem in problems] == list(range(2, 102))
    assert len(calls) == 1
