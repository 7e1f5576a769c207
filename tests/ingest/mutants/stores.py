"""Mutants of what lies in a warehouse, and of plans: a reader gives an answer or one line, and no other run's
answer changes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.ingest.damage import damage
from tests.ingest.mutants import readers
from tests.ingest.mutants.json_tree import mutated_json
from tests.ingest.mutants.kinds import KINDS
from tests.ingest.mutants.packed import mutated_parquet
from tests.ingest.mutants.texts import mutated_lines, mutated_yaml
from tests.ingest.mutants.trial import good_trace, trace_of, unforeseen, write
from tests.test_rooms import ROOT
from xlahouse.capture.errors import XlahouseError
from xlahouse.capture.manifest import MeshAxis
from xlahouse.capture.plan import read_plan
from xlahouse.ingest.run import IngestError, ingest_paths
from xlahouse.sql.check.check import check_warehouse
from xlahouse.sql.damage import changed_files
from xlahouse.sql.warehouse import Warehouse

FEW_RELATIONS = 1
VIEW = """-- one row per run
-- Counts collectives.
with counted as (
    -- of each run
    select run_id, kind, count(*) as n from collectives group by all
)
select
    -- run
    c.run_id,
    -- collectives of it
    sum(c.n) as collectives
from counted as c
join run_summary_v2 as r on r.run_id = c.run_id
group by c.run_id
"""
_base = TemporaryDirectory(prefix="mutants-")


@dataclass(frozen=True)
class Base:
    """A warehouse of a good run and one that is to be damaged."""

    root: Path
    run_id: str  # of the latter
    trace: Path  # of the latter


@cache
def base() -> Base:
    """The warehouse that mutants are copies of."""
    folder = Path(_base.name)
    trace = next(s for s in KINDS["bytes of xplanes"].sources() if s.name == "moe")
    write(folder, {"in/m.xplane.pb": trace.raw, "good.xplane.pb": good_trace()})
    root = folder / "w"
    ingest_paths([str(folder / "good.xplane.pb")], str(root), name="good")
    (result,) = ingest_paths([str(folder / "in")], str(root), mesh=[MeshAxis("ep", 4)])
    write(root, {"user_views/counted.sql": VIEW.encode()})
    return Base(root, result.run_id, folder / "in" / "m.xplane.pb")


def _parquet(root: Path, draw: random.Random) -> Path:
    """Change a file of the run's tables."""
    files = sorted(root.glob(f"tables/*/run_id={base().run_id}/*.parquet"))
    path = draw.choice(files)
    path.write_bytes(mutated_parquet(path.read_bytes(), draw.choice(files).read_bytes(), draw))
    return path


def _row(root: Path, draw: random.Random) -> Path:
    """Change the run's own row, or the index of all rows."""
    rows = [root / "tables" / "runs" / f"{base().run_id}.parquet", *root.glob("index/*")]
    path = draw.choice(rows)
    path.write_bytes(mutated_parquet(path.read_bytes(), b"x" * 99, draw))
    return path


def _view(root: Path, draw: random.Random) -> Path:
    path = root / "user_views" / "counted.sql"
    path.write_bytes(
        mutated_lines(VIEW, draw) if draw.random() < 0.8 else damage(VIEW.encode(), draw)
    )
    return path


def _json(root: Path, draw: random.Random) -> Path:
    """Change a setting, or the warehouse's description."""
    path = draw.choice(sorted([*root.glob("settings/*.json"), root / "warehouse.json"]))
    raw = path.read_bytes()
    path.write_bytes(mutated_json(raw, draw) if draw.random() < 0.7 else damage(raw, draw))
    return path


STORED: dict[str, tuple[int, Callable[[Path, random.Random], Path]]] = {
    "Parquet": (400, _parquet),
    "rows of runs": (100, _row),
    "own views": (300, _view),
    "settings": (150, _json),
}
PLANS = 350  # of ten thousand mutants


def kind_of(draw: random.Random) -> str:
    """One of all kinds, by their weights."""
    weights = {name: kind.weight for name, kind in KINDS.items()}
    weights |= {name: weight for name, (weight, _) in STORED.items()} | {"plans": PLANS}
    return draw.choices([*weights], [*weights.values()])[0]


def faults(kind: str, place: Path, draw: random.Random) -> list[str]:
    """What is wrong with what becomes of a damaged warehouse or plan."""
    return plan_faults(place, draw) if kind == "plans" else store_faults(kind, place, draw)


def store_faults(kind: str, place: Path, draw: random.Random) -> list[str]:
    """Damage a file of a warehouse, and say what is wrong with what readers make of it."""
    shutil.rmtree(place, ignore_errors=True)
    root = place / "w"
    shutil.copytree(base().root, root)
    path = STORED[kind][1](root, draw)
    name = str(path.relative_to(root))
    table = name.split("/")[1] if kind == "Parquet" else ""
    asked = [table] if table else ["runs", "counted"]
    if kind != "own views":
        asked += readers.chosen(draw, FEW_RELATIONS)
    faults = [fault for relation in asked for fault in _ask(root, relation, table)]
    if kind in ("Parquet", "rows of runs"):
        faults += _good_rows(root, [relation for relation in asked if relation != "counted"])
    if draw.random() < 0.05:
        faults += _check(root)
    if kind == "Parquet" and draw.random() < 0.15:
        faults += _again(root)
    return [f"{name}: {fault}" for fault in faults]


def _ask(root: Path, relation: str, table: str) -> list[str]:
    said: list[str] = []
    try:
        with Warehouse(str(root), said.append) as warehouse:
            found = warehouse.query(f"from {relation}").rows
    except XlahouseError as error:
        text = str(error)
        if unforeseen(text):
            return [f"{relation}: unforeseen: {text}"]
        if table and base().run_id not in text:
            return [f"{relation}: does not name the file: {type(error).__name__}: {text}"]
        return []
    except BaseException as error:
        return [f"{relation}: traceback: {trace_of(error)}"]
    if (
        relation == table
        and not said
        and len(found) != _rows_before(relation)
        and not _check_tells(root)
    ):
        return [
            f"{relation}: {len(found)} rows of {_rows_before(relation)}, and check says nothing"
        ]
    return []


@cache
def _rows_before(relation: str) -> int:
    with Warehouse(str(base().root)) as warehouse:
        return len(warehouse.query(f"from {relation}").rows)


def _check_tells(root: Path) -> bool:
    try:
        with Warehouse(str(root)) as warehouse:
            return bool(changed_files(warehouse))
    except XlahouseError:
        return True


def _good_rows(root: Path, relations: list[str]) -> list[str]:
    """A good run's rows are asked for by its id: what lies beside it does not matter."""
    faults = []
    for relation in relations:
        if relation in readers.ACROSS_RUNS:
            continue
        try:
            with Warehouse(str(root)) as warehouse:
                found = readers.good_rows(warehouse, relation)
            if found != readers.rows_alone(relation):
                faults.append(f"{relation}: the good run has other rows")
        except Exception as error:
            faults.append(f"{relation}: the good run cannot be asked: {error}")
    return faults


def _check(root: Path) -> list[str]:
    try:
        with Warehouse(str(root)) as warehouse:
            lines = check_warehouse(warehouse).lines
    except XlahouseError as error:
        lines = (str(error),)
    except BaseException as error:
        return [f"check: traceback: {trace_of(error)}"]
    return [f"check: unforeseen: {line}" for line in lines if unforeseen(line)]


def _again(root: Path) -> list[str]:
    """Another ingest of the trace gives a line or the run."""
    try:
        ingest_paths([str(base().trace)], str(root))
    except IngestError as error:
        return [f"ingest again: {text}" for text in error.problems if unforeseen(text)]
    except XlahouseError:
        return []
    except BaseException as error:
        return [f"ingest again: traceback: {trace_of(error)}"]
    return []


@cache
def _plans() -> list[str]:
    names = ("demo", "core", "serving_demo", "quota")
    texts = [(ROOT / "capture" / "plans" / f"{name}.yaml").read_text("utf-8") for name in names]
    return [
        *texts,
        (ROOT / "tests" / "cases" / "faults" / "huge_mesh_plan.yaml").read_text("utf-8"),
    ]


def plan_faults(place: Path, draw: random.Random) -> list[str]:
    """Read a plan that was changed."""
    write(place, {"plan.yaml": mutated_yaml(draw.choice(_plans()), draw)})
    try:
        read_plan(place / "plan.yaml")
    except XlahouseError as error:
        return [f"unforeseen: {error}"] if unforeseen(str(error)) else []
    except BaseException as error:
        return [f"traceback: {trace_of(error)}"]
    return []
