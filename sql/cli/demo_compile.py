"""The demo's last step: the program that the TPU's own compiler makes of a real model's decode step."""

from __future__ import annotations

import platform
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path

from xlahouse.capture.errors import XlahouseError
from xlahouse.sql.cli.progress import Say, progress

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
            _compile(out / "traces", warehouse, say)
        _show(warehouse, out / "site")
    except XlahouseError as error:
        print(f"xlahouse: warning: the TPU's program is left out: {error}")


def _compile(traces: Path, warehouse: Path, say: Say) -> None:
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


def _show(warehouse: Path, site: Path) -> None:
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
