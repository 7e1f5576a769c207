"""Times of each op of synthetic TPU traces, beside xprof, which must accept them and give the same."""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from tests.bench.peers import PYTHON, WHY_NOT, has
from tests.bench.registry import Benchmark, register
from tests.synth.cases import CASES
from tests.synth.write import write_run
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.warehouse import Warehouse

OPS = """
select run_id, program_id, op, count(*) as occurrences, sum(self_ps) as self_ps
from ops where line = 'XLA Ops' group by run_id, program_id, op
"""
NEAR_US = 1e-6  # a picosecond: xprof gives microseconds as doubles

_HLO_STATS = """
import json, os, sys
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # its logs
from xprof.convert.raw_to_tool_data import xspace_to_tool_data
tables = {}
for name, paths in json.load(sys.stdin).items():
    raw, _ = xspace_to_tool_data(paths, "hlo_stats", {})
    tables[name] = raw if isinstance(raw, str) else raw.decode()
json.dump(tables, out)
"""

OpTimes = dict[tuple[int, str], tuple[int, float]]  # (program, op) -> occurrences, self time in us


@dataclass(frozen=True)
class Traces:
    """The files of each synthetic run."""

    folder: Path
    paths: dict[str, list[Path]]


def write_traces() -> Traces | str:
    """Every named run, after a check that both give the same times; or why this cannot run."""
    if not has("xprof"):
        return WHY_NOT
    folder = Path(mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    written = {name: write_run(run, folder / "traces" / name) for name, run in CASES.items()}
    traces = Traces(folder, written)
    theirs = op_stats(traces)
    for name, ours in op_times(traces).items():
        different = disagreements(ours, theirs[name])
        assert not different, f"{name}: ours and xprof's differ: {different}"
    return traces


def disagreements(ours: OpTimes, theirs: OpTimes) -> dict[tuple[int, str], object]:
    """Ops that only one of them has, or whose count or self time differs."""
    return {
        op: (ours.get(op), theirs.get(op))
        for op in ours.keys() | theirs.keys()
        if op not in ours
        or op not in theirs
        or ours[op][0] != theirs[op][0]
        or abs(ours[op][1] - theirs[op][1]) > NEAR_US * ours[op][0]
    }


def op_times(traces: Traces) -> dict[str, OpTimes]:
    """Ours: ingest all runs into a new warehouse, then query once."""
    root = mkdtemp(dir=traces.folder)
    results = ingest_paths([str(traces.folder / "traces")], root)
    with Warehouse(root) as warehouse:
        rows = warehouse.query(OPS).dicts()
    shutil.rmtree(root)
    names = {result.run_id: result.name for result in results}
    found: dict[str, OpTimes] = {name: {} for name in traces.paths}
    for row in rows:
        time = row["occurrences"], row["self_ps"] / 1e6
        found[names[row["run_id"]]][row["program_id"], row["op"]] = time
    return found


def op_stats(traces: Traces) -> dict[str, OpTimes]:
    """xprof's table of HLO ops."""
    sessions = {}
    for name, paths in traces.paths.items():
        session = Path(mkdtemp(dir=traces.folder))  # it keeps results beside the files
        sessions[name] = [str(shutil.copy(path, session)) for path in paths]
    raw = subprocess.run(
        [str(PYTHON), "-c", _HLO_STATS],
        input=json.dumps(sessions),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for paths in sessions.values():
        shutil.rmtree(Path(paths[0]).parent)
    return {name: _op_times(json.loads(table)) for name, table in json.loads(raw).items()}


def _op_times(table: dict) -> OpTimes:
    names = [column["id"] for column in table["cols"]]
    occurrences, times = Counter(), Counter()
    for row in table["rows"]:
        cells = dict(zip(names, (cell["v"] for cell in row["c"]), strict=True))
        op = int(cells["program_id"]), cells["hlo_op_name"]
        occurrences[op] += int(cells["occurrences"])
        times[op] += cells["total_self_time"]
    return {op: (occurrences[op], times[op]) for op in occurrences}


register(Benchmark("op times", write_traces, op_times, {"xprof": op_stats}))
