"""The most of a device's memory that a run took: of its allocators or of its compiled programs."""

from __future__ import annotations

from dataclasses import dataclass

from xlahouse.sql.answers.source import Source
from xlahouse.sql.answers.words import amount, percent

NO_MEMORY = "the trace has no allocator's counters, and no program with its buffers"
_SQL = """
with found as (
    select 'allocator' as source, allocator as name, peak_bytes as bytes
    from memory_timeline_v2
    where run_id = $run and source = 'allocator'
    union all
    select 'program', module, total_bytes
    from program_memory_v1
    where run_id = $run and memory = 'HBM'
)
select f.source, f.name, cast(f.bytes as bigint) as bytes, c.device_bytes
from found as f
left join hbm_capacity_v1 as c on c.run_id = $run
where f.bytes is not null
order by f.bytes desc, f.source, f.name
limit 1
"""


@dataclass(frozen=True)
class Memory:
    """The largest allocator or compiled program of a run."""

    source: str  # allocator: measured; program: by the compiler's assignment
    name: str  # allocator, or module of the program
    bytes: int  # the most that it held on a device
    device_bytes: int | None  # HBM of a device; None: its kind is not in the shipped table


def most_memory(source: Source, run_id: str) -> Memory | None:
    """The allocator or program of a run that held the most; None where the trace has neither."""
    rows = source.query(_SQL, {"run": run_id}).dicts()
    return Memory(**rows[0]) if rows else None


def memory_text(memory: Memory) -> str:
    """Such as `TPU_3_hbm held 25.8 GB, 75 % of a device's HBM; 8.59 GB are free`."""
    verb = "held" if memory.source == "allocator" else "needs"
    said = f"{memory.name} {verb} {amount(memory.bytes)}"
    if memory.device_bytes is None:
        return f"{said}; the HBM of this kind of device is not in the shipped table"
    over = memory.bytes - memory.device_bytes
    left = f"{amount(abs(over))} {'too much' if over > 0 else 'are free'}"
    return f"{said}, {percent(memory.bytes / memory.device_bytes)} of a device's HBM; {left}"
