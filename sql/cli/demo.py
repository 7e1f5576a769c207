"""The verb `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[
        Path, typer.Option("--out", help="Folder for traces, warehouse and pages.")
    ] = Path("demo"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Capture again.")] = False,
) -> None:
    """Capture, ingest, query and report, on this machine.

    At the end the TPU's own compiler compiles one decode step of Qwen3-32B, where it is installed. Steps
    that are done already are skipped.

    \b
    Examples:
      xlahouse demo
      xlahouse demo --out /tmp/demo
    """
    from xlahouse.sql.cli.demo_steps import run_demo

    run_demo(out, fresh)
