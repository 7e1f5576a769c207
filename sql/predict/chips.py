"""Which chip a run's devices are: traces, compilers and users spell a kind of device in several ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlahouse.sql.warehouse import Warehouse

_SQL = """
    select p.run_id, min(coalesce(c.generation, lower(replace(p.device_kind, ' ', '')))) as chip
    from hardware_peaks_v1 p
    left join _chip_peaks_v1 c on c.kind_name = lower(replace(p.device_kind, ' ', ''))
    group by p.run_id
"""


def chips_of(warehouse: Warehouse) -> dict[str, str | None]:
    """Run -> its generation of chips, such as v6e; of kinds that are not in the table of peaks, the kind."""
    return dict(warehouse.query(_SQL).rows)
