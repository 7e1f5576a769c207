"""Many clients at once while runs come and go: no error but limits, equal results, bounded memory."""

from __future__ import annotations

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.command import run_command
from tests.ingest.traces import tpu_trace
from tests.layers import takes_all
from tests.sql.serve.conftest import serving

pytestmark = [pytest.mark.verify, pytest.mark.xdist_group("served")]
CLIENTS = 20
SECONDS = 60 if takes_all() else 15
SQL = "select count(*) as n, sum(ops.duration_ps) as ps from ops join runs using (run_id) where name = 'kept'"
GREEDY = "select length(repeat('x', 2000000000))"


def resident_bytes(children_of: int) -> int:
    """Memory of a process and all below it, by Linux."""
    found, waiting = 0, [children_of]
    while waiting:
        pid = waiting.pop()
        try:
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            threads = list(Path(f"/proc/{pid}/task").iterdir())
            children = [(thread / "children").read_text().split() for thread in threads]
        except OSError:  # it ended meanwhile
            continue
        found += pages * os.sysconf("SC_PAGE_SIZE")
        waiting += [int(child) for some in children for child in some]
    return found


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory from /proc")
def test_twenty_clients_while_an_ingest_and_a_drop_run(tmp_path, monkeypatch, capsys):
    root = tmp_path / "w"
    for name in ("kept", "passing"):
        (tmp_path / f"{name}.xplane.pb").write_bytes(
            tpu_trace() + (b"" if name == "kept" else b"\n\x00")
        )
    kept, passing = (str(tmp_path / f"{name}.xplane.pb") for name in ("kept", "passing"))
    assert run_command(monkeypatch, "ingest", kept, "-w", root, "--run", "kept") == 0
    limits = ("--timeout", "20", "--memory", "300MB", "--workers", "2")
    with serving(root, *limits) as server:
        expected = server.ask(SQL)
        assert expected[0] == 200
        until = time.monotonic() + SECONDS
        most = 0

        def client(number: int) -> Counter[str]:
            seen: Counter[str] = Counter()
            while time.monotonic() < until:
                if number % 7 == 6:
                    status, found = server.ask(GREEDY)
                    limited = status == 400 and "not enough memory" in found["error"]
                    busy = status == 503
                    seen["limited" if limited or busy else str((status, found))] += 1
                    continue
                answer = server.ask(SQL)
                seen[
                    "right" if answer == expected else "busy" if answer[0] == 503 else str(answer)
                ] += 1
            return seen

        with ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(client, number) for number in range(CLIENTS)]
            while time.monotonic() < until:
                for words in (("ingest", passing, "--run", "passing"), ("drop", "passing", "-y")):
                    assert run_command(monkeypatch, *words, "-w", root) == 0, capsys.readouterr()
                most = max(most, resident_bytes(server.pid))
            seen = sum((future.result() for future in clients), Counter())
    assert set(seen) <= {"right", "limited", "busy"}, seen
    assert seen["right"] > CLIENTS
    # Two workers, each with its limit, what the limit does not count (as much again), and itself.
    assert most < 2 * (2 * 300_000_000 + 400_000_000) + 400_000_000
