"""The demo: capture, ingest, query and report on this machine, skipping steps that are done."""

from __future__ import annotations

import platform
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path

from xlahouse.capture.errors import XlahouseError
from xlahouse.sql.cli.progress import Say, progress

# A title and a query each: the README's session.
DEMO_QUERIES = (
    (
        "How much traffic does each parallelism cause?",
        """select name, axis, kind, phase, sum(collectives) as collectives,
       sum(wire_bytes) as wire_bytes
from traffic_volume join runs using (run_id)
group by all order by all""",
    ),
    (
        "How much of it is hidden, and where do devices sit idle?",
        """select name, phase, comm_compute_ratio, exposed_ratio, idle_ratio
from comm_compute join runs using (run_id)
order by all""",
    ),
    (
        "What do TTFT and TPOT become when the sharding changes?",
        """select name, parallelism, requests, ttft_s, tpot_s, output_tokens_per_s
from run_summary
order by name""",
    ),
)

VIRTUAL_NOTE = (
    "Virtual devices: the structure (programs, collectives, groups, bytes) is valid, "
    "the times are not an accelerator's."
)

# The last step: the program that the TPU's own compiler makes of a real model's decode step.
COMPILER = ("jax", "libtpu")
TITLE = "What would a TPU run? One decode step of Qwen3-32B under tp8, compiled for a v6e-8"

# A token is one of a sequence of the batch: a decode step makes batch_size of them.
COMPILED_QUERIES = (
    """select axis, kind, count(distinct device_id) as devices,
       sum(collectives) // count(distinct device_id) as collectives,
       cast(sum(wire_bytes) / any_value(batch_size) as bigint) as bytes_per_token
from traffic_volume join runs using (run_id)
group by all order by all""",
    """select weight_bytes, cache_bytes, temporary_bytes, code_bytes, needed_bytes, device_bytes, fits
from program_fit""",
)


def run_demo(out: Path, fresh: bool = False) -> None:
    """Run the demo; traces, warehouse and site land in `out`, and in `out`/tpu those of a compiled run.

    Raises:
        XlahouseError: torch_xla is not installed, or a step failed.
    """
    traces, warehouse, site = out / "traces", out / "warehouse", out / "site"
    with progress("capture") as say:
        capture_demo(traces, fresh, say)
    with progress("ingest") as say:
        _ingest(traces, warehouse, say)
    _show_session(warehouse)
    with progress("report") as say:
        pages = _report(warehouse, site, say)
    print(f"\nOpen {pages[0].resolve().as_uri()}\nQuery with: xlahouse query -w {warehouse} SQL")
    compile_demo(out / "tpu")


def capture_demo(traces: Path, fresh: bool, say: Say) -> None:
    """Capture the demo's plan; traces that exist are kept unless `fresh`."""
    from xlahouse.capture.run.runner import run_plan

    with as_file(files("xlahouse.capture") / "plans" / "demo.yaml") as plan:
        run_plan(
            plan,
            traces,
            fresh=fresh,
            on_event=lambda event: say(
                f"{event.experiment}: {event.kind}: {event.message}",
                passing=event.kind == "progress",
            ),
        )


def _ingest(traces: Path, warehouse: Path, say: Say) -> None:
    from xlahouse.ingest.run import ingest_paths

    ingest_paths([str(traces)], str(warehouse), on_event=say)


def _show_session(warehouse: Path) -> None:
    from xlahouse.sql.formats import write_result
    from xlahouse.sql.warehouse import Warehouse

    with Warehouse(warehouse) as opened:
        for title, sql in DEMO_QUERIES:
            print(f"\n{title}\n\n{sql}\n", flush=True)
            write_result(opened.query(sql), "table")
        if opened.query("select 1 from run_summary where inferred limit 1").rows:
            print(f"\n{VIRTUAL_NOTE}", flush=True)


def _report(warehouse: Path, site: Path, say: Say) -> list[Path]:
    from xlahouse.reports.site import render_site
    from xlahouse.sql.warehouse import Warehouse

    with Warehouse(warehouse, threads=1) as opened:
        return render_site(opened, site, on_event=lambda message: say(message, passing=True)).pages


def compile_demo(out: Path) -> None:
    """Compile, ingest, query and report it in the folder `out`, or say what is missing."""
    missing = [name for name in COMPILER if find_spec(name) is None]
    if missing or (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        print(
            "\nxlahouse compile shows what a TPU would run, on Linux (x86-64): "
            "pip install 'xlahouse[compile]'"
        )
        return
    print(f"\n{TITLE}\n", flush=True)
    warehouse = out / "warehouse"
    try:
        with progress("compile") as say:
            _compile_decode(out / "traces", warehouse, say)
        _show_compiled(warehouse, out / "site")
    except XlahouseError as error:
        print(f"xlahouse: warning: the TPU's program is left out: {error}")


def _compile_decode(traces: Path, warehouse: Path, say: Say) -> None:
    from xlahouse.capture.compile.plan import compile_plan
    from xlahouse.ingest.run import ingest_paths

    with as_file(files("xlahouse.capture") / "plans" / "demo_tpu.yaml") as plan:
        folders = compile_plan(
            plan,
            traces,
            on_event=lambda event: say(
                f"{event.experiment}: {event.message}", passing=not event.ended
            ),
            programs=("decode",),
        )
    ingest_paths([str(folder) for folder in folders], str(warehouse), on_event=say)


def _show_compiled(warehouse: Path, site: Path) -> None:
    from xlahouse.reports.site import render_site
    from xlahouse.sql.formats import write_result
    from xlahouse.sql.warehouse import Warehouse

    with Warehouse(warehouse, threads=1) as opened:
        for sql in COMPILED_QUERIES:
            print(f"{sql}\n", flush=True)
            write_result(opened.query(sql), "table")
            print(flush=True)
        pages = render_site(opened, site, pages=["overview", "communication", "program"]).pages
    (program,) = (page for page in pages if page.name.endswith(".program.html"))
    print(f"Open {program.resolve().as_uri()}\nQuery with: xlahouse query -w {warehouse} SQL")
