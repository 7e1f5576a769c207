"""The command line: `main` is the console script, a file holds each verb or family of verbs."""

from __future__ import annotations


def main() -> None:
    """Run the command line of this process. Exit codes: see `xlahouse.sql.cli.app.main`."""
    from xlahouse.sql.cli.app import main as run

    run()
