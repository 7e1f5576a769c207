"""Forecasts of compiled runs: a real program by hand, what they rest on, and what refuses them."""

from __future__ import annotations

import gzip
import io
import json
from contextlib import redirect_stderr, redirect_stdout

import pytest

from tests.command import run_command
from tests.ingest.build import ModuleBuilder, shape
from tests.ingest.compiled.test_buffers import COMPILED
from tests.ingest.compiled_build import write_compiled
from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.events.proto import message_class
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.predict.clocks import clock_of, parse_clock
from xlahouse.sql.predict.costs import Chip
from xlahouse.sql.predict.fits import Fits, Line
from xlahouse.sql.predict.program_costs import Ground, read_program
from xlahouse.sql.warehouse import Warehouse

V6E = Chip(9.18e14, 1.6e12, 9e10)
US = 1e6
# The scan's bytes to and from HBM, of bf16 [64, 1024] activations of 131,072 bytes: a copy of them in, six
# rounds that read two layers of [1024, 1024], either branch writes activations, a cache's entry is read and
# written, the last sum reads none (gathered values lie in VMEM) and writes them. Scalars: 8 of a copy, 9 a
# test of the loop, 4 and 12 a round, 4 of a sum, a test and a conversion each, 2 of the last sum.
A = 2 * 64 * 1024
BYTES = 6 * (2 * 2 * 1024 * 1024) + 5 * A + 8 + 7 * 9 + 6 * 16 + 3 * 4 + 2
FLOPS = 6 * 2 * (2 * 64 * 1024 * 1024)
# On a 2 x 2 without links around, two links leave each chip: eight in all. An all-reduce of A among four
# sends 3/2 A, the all-gather of 4 A sends 3 A.
RING = 6 * 1.5 * A + 3 * A


def scan():
    return gzip.decompress((COMPILED / "scan_tp4_v6e.libtpu0.0.42.1.hlo.pb.gz").read_bytes())


def fsdp():
    raw = gzip.decompress(
        (COMPILED / "fsdp4_decode_v6e.libtpu0.0.21.hlo_module.pb.gz").read_bytes()
    )
    whole = message_class("HloProto")()
    whole.hlo_module.ParseFromString(raw)
    return whole.SerializeToString()


def scheduled(opcode, **fields):
    """A program of one instruction, and its schedule."""
    built = ModuleBuilder("IrToHlo.1", devices=[[0], [1], [2], [3]])
    entry = built.computation("main")
    x = built.add(entry, "x", "parameter", shape("f32", 64))
    built.add(entry, "it", opcode, shape("f32", 64), x, **fields)
    sequence = built.module.schedule.sequences.add(key=entry.id)
    sequence.value.instruction_ids.extend(each.id for each in entry.instructions)
    built.module.entry_computation_id = entry.id
    return built.serialize()


@pytest.fixture(scope="module")
def wh(tmp_path_factory):
    """Compiled runs: two real programs, one without a schedule, one with a kernel."""
    root = tmp_path_factory.mktemp("forecast")
    write_compiled(root / "t" / "a", {"prefill": scan(), "decode": fsdp()})
    write_compiled(root / "t" / "b", stamp="2", name="unscheduled")
    kernel = scheduled("custom-call", custom_call_target=b"tpu_custom_call")
    write_compiled(root / "t" / "c", {"decode": kernel}, stamp="3", name="kernel")
    ingest_paths([str(root / "t")], str(root / "wh"), workers=1)
    return str(root / "wh")


@pytest.fixture(scope="module")
def printed(wh):
    """(rows, what they rest on) of the first run's forecast, as the verb prints them."""
    out, err = io.StringIO(), io.StringIO()
    words = ("predict", "made.compiled", "--format", "json", "-w", wh)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        assert run_command(patch, *words) == 0
    return {row["phase"]: row for row in json.loads(out.getvalue())}, err.getvalue()


def test_a_real_scan_takes_what_its_shapes_say(printed):
    row = printed[0]["prefill"]
    # At best HBM decides each instruction (a layer's products take 0.29 us, its weights 2.6), and all links
    # carry a transfer. At worst products follow bytes (no cycles are stated), and one link carries it.
    memory, math = BYTES / 1.6e12 * 1e12, FLOPS / 9.18e14 * 1e12
    best, worst = RING * 4 / (8 * 9e10) * 1e12, RING / 9e10 * 1e12
    assert row["metric"] == "ttft"
    branch = A / 1.6e12 * 1e12  # of a conditional: nothing says that it runs
    assert row["hbm_floor_ps"] == pytest.approx(memory - branch, abs=1)
    assert row["math_floor_ps"] == pytest.approx(math, abs=1)
    assert row["optimistic_compute_ps"] == pytest.approx(memory, abs=1)
    assert row["pessimistic_compute_ps"] == pytest.approx(memory + math, abs=1)
    assert row["optimistic_exposed_ps"] == pytest.approx(best, abs=1)
    assert row["pessimistic_exposed_ps"] == pytest.approx(worst, abs=1)
    assert row["optimistic_ps"] == pytest.approx(memory + best, abs=1)
    assert row["pessimistic_ps"] == pytest.approx(memory + math + worst, abs=1)


def test_cycles_over_the_clock_are_the_worst_that_compute_takes(printed, wh):
    row = printed[0]["decode"]
    # All costs but those of scalars that the compiler does not state; each line of the program runs once.
    sql = """
        select sum(estimated_cycles), count(*), min(executions), max(executions) from instructions
        join runs using (run_id) where name = 'made.compiled' and schedule_index is not null
        and estimated_cycles is not null and program_id = (
            select program_id from programs p where p.run_id = runs.run_id and p.phase = 'decode'
        )
    """
    with Warehouse(wh) as warehouse:
        cycles, count, *often = warehouse.query(sql).rows[0]
        costs = warehouse.query(
            "select part, origin, instructions, pessimistic_ps from forecast_costs "
            "where phase = 'decode' and change is null"
        ).rows
    assert often == [1, 1]
    stated = [each for each in costs if each[1] == "cycles"]
    assert sum(each[2] for each in stated) == count > 100
    # A cycle of 1.75 GHz is 4/7 ns; rounded once a part.
    assert sum(each[3] for each in stated) == pytest.approx(cycles * 4000 / 7, abs=2)
    assert row["metric"] == "tpot"
    assert row["clock_hz"] == 1.75e9
    assert row["optimistic_ps"] < row["pessimistic_ps"]


def test_it_says_what_it_rests_on_and_that_it_is_predicted(printed):
    said = printed[1]
    assert "clock 1.75 GHz: cycles and times of one public trace" in said
    assert "peaks of a device: 918 TFLOP/s, HBM 1600 GB/s, a link 90 GB/s" in said
    assert "at worst by the compiler's cycles" in said
    assert "at worst by the peak of one link, without latency" in said


def test_the_tables_keep_the_last_forecast(printed, wh, monkeypatch, capsys):
    words = ("predict", "made.compiled", "--clock", "3.5GHz", "-w", wh)
    assert run_command(monkeypatch, *words) == 0
    assert "no hardware has validated these times" in capsys.readouterr().err
    with Warehouse(wh) as warehouse:
        rows = warehouse.query(
            "select phase, clock_hz, clock_source, pessimistic_ps from forecast "
            "where change is null order by phase"
        ).rows
    assert [row[:3] for row in rows] == [
        (phase, 3.5e9, "stated by the user") for phase in ("decode", "prefill")
    ]
    # Twice the clock shortens what cycles decide, and no other time.
    before = printed[0]
    assert rows[0][3] < before["decode"]["pessimistic_ps"]
    assert rows[1][3] == before["prefill"]["pessimistic_ps"]


def exposed(wh, monkeypatch, capsys, *words):
    """(at best, at worst) of the transfers that the prefill of the first run does not hide."""
    words = ("predict", "made.compiled", *words, "--format", "json", "-w", wh)
    assert run_command(monkeypatch, *words) == 0
    rows = {row["phase"]: row for row in json.loads(capsys.readouterr().out)}
    return [rows["prefill"][f"{side}_exposed_ps"] for side in ("optimistic", "pessimistic")]


def test_links_of_a_forecast_are_changed_by_hand(wh, monkeypatch, capsys):
    # Six all-reduces of four take six steps of a ring, the all-gather three: 39 in all.
    best, worst = RING * 4 / (8 * 9e10) * 1e12, RING / 9e10 * 1e12
    for words, expected in (
        (("--ici", "2x"), (best / 2, worst / 2)),
        (("--ici", "100GB/s"), (RING / 1e11 * 1e12,) * 2),
        (("--latency", "1us"), (best + 39 * US, worst + 39 * US)),
        (("--ici", "0.5x", "--latency", "+1us"), (2 * best + 39 * US, 2 * worst + 39 * US)),
    ):
        assert exposed(wh, monkeypatch, capsys, *words) == pytest.approx(expected, abs=1)


def test_forecasts_with_other_changes_stay(wh, monkeypatch, capsys):
    for words in ((), ("--ici", "2x"), ("--ici", "4x"), ("--ici", "2x")):
        exposed(wh, monkeypatch, capsys, *words)
    sql = """
        select f.change, f.ici_bytes_per_s, p.predicted from forecast f left join (
            select run_id, phase, count(*) as predicted from predicted_step_v1 group by all
        ) p using (run_id, phase)
        where phase = 'decode' and (f.change is null or f.change like 'ici=_x') order by all
    """
    with Warehouse(wh) as warehouse:
        found = warehouse.query(sql).rows
    # Only the run as it is may be compared with what was measured.
    assert found == [("ici=2x", 1.8e11, 1), ("ici=4x", 3.6e11, 1), (None, 9e10, 1)]


def test_measured_transfers_decide_what_a_transfer_takes_at_worst(wh):
    # An all-reduce of four takes 6 steps of a ring: 6 x 2 us, and 3/2 A bytes at 1 ps each.
    line = Line(2 * US, 1.0, 3, 9, 0.0)
    fits = Fits({("dp+tp", "all-reduce", None, 4): line})
    with Warehouse(wh) as warehouse:
        run, number = warehouse.query(
            "select p.run_id, p.program_id from programs p join runs r using (run_id) "
            "where r.name = 'made.compiled' and p.phase = 'prefill'"
        ).rows[0]
        ground = Ground("made", V6E, parse_clock("1GHz"), fits)
        program = read_program(warehouse, run, number, ground)
    found = program.ranges["psum.9"]
    assert found.origin == "fitted"
    assert found.most.line_ps == pytest.approx(12 * US + 1.5 * A)
    assert found.least.line_ps == pytest.approx(1.5 * A * 4 / (8 * 9e10) * 1e12)
    assert program.ranges["all_gather.10"].origin == "one link"


@pytest.mark.parametrize(
    ("run", "words", "why"),
    [
        ("unscheduled.compiled", (), "its program states no schedule"),
        ("kernel.compiled", (), "neither the compiler nor the HLO says what 1 of its instructions"),
        (
            "made.compiled",
            ("--chip", "v5p"),
            "compile it for that chip (`xlahouse compile PLAN.yaml",
        ),
        ("made.compiled", ("--dcn", "2x"), "its program is of one slice"),
        ("made.compiled", ("--host", "0"), "no host is in a forecast"),
        ("made.compiled", ("--no-skew",), "no skew is in a forecast"),
        ("made.compiled", ("--perfect-overlap",), "its better end has all overlap"),
        ("made.compiled", ("--reconfigure", "1ms"), "nothing to replay"),
        ("made.compiled", ("--advice",), "nothing to replay"),
        ("made.compiled", ("--as", "name"), "nothing to replay"),
        ("made.compiled", ("--clock", "fast"), "'fast' is not a clock frequency; write 1.75GHz"),
    ],
)
def test_a_missing_fact_is_said_in_one_line(wh, run, words, why, monkeypatch, capsys):
    assert run_command(monkeypatch, "predict", run, *words, "-w", wh) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert why in line


def test_a_chip_without_a_public_clock_needs_one():
    with pytest.raises(
        WarehouseError, match=r"r: the clock of TPU7x is not known.*--clock 1.75GHz"
    ):
        clock_of("7x", None, "r", "TPU7x")
    assert clock_of("7x", "2 GHz", "r", "TPU7x").hz == 2e9
    assert clock_of("v4", None, "r", "TPU v4").hz == 1.05e9


def test_a_measured_run_has_no_clock_to_state(predicting, monkeypatch, capsys):
    assert run_command(monkeypatch, "predict", "tp4", "--clock", "1GHz", "-w", predicting) == 1
    assert "only a forecast of a compiled run takes --clock" in capsys.readouterr().err
