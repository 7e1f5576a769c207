"""The answer about a run that was compiled and did not run: what its programs need and send."""

from __future__ import annotations

from typing import Any

from xlahouse.sql.answers.source import Source
from xlahouse.sql.answers.words import amount

NOTHING_RAN = "its programs were compiled and did not run"
_SQL = """
select
    f.phase, f.needed_bytes, f.device_bytes, f.fits,
    max(l.value) filter (where l.metric = 'collectives') as collectives,
    max(l.value) filter (where l.metric = 'wire_bytes') as wire_bytes
from program_fit_v1 as f
left join step_load_v1 as l on l.run_id = f.run_id and l.phase = f.phase
where f.run_id = $run
group by f.phase, f.needed_bytes, f.device_bytes, f.fits
order by f.phase
"""


def compiled_verdict(source: Source, row: dict[str, Any], why: str | None) -> str:
    """The verdict on a run without times: of a compiled one, what each program needs and sends.

    Args:
        source: what answers about it.
        row: its row of run_summary, and its source.
        why: why it has no times.
    """
    programs = []
    if row["source"] == "compiled":
        programs = source.query(_SQL, {"run": row["run_id"]}).dicts()
    if not programs:
        return f"No verdict: {why}."
    return f"Compiled, nothing ran. {' '.join(map(_needs, programs))}"


def _needs(program: dict[str, Any]) -> str:
    """A sentence on a program's memory and on what it sends."""
    phase, of = program["phase"], program["device_bytes"]
    text = f"The {phase} needs {amount(program['needed_bytes'])} of a device"
    if of is not None:
        fits = "fits" if program["fits"] else "does not fit"
        text += f"'s {amount(of)} of HBM: it {fits}"
    collectives, sent = program["collectives"], program["wire_bytes"]
    if collectives is None or sent is None:
        return f"{text}."
    return f"{text}; a device sends {amount(sent)} in {collectives:,.0f} collectives."
