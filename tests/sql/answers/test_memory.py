"""The most of a device's memory that a run took, in bytes worked out by hand."""

from __future__ import annotations

import pytest

from tests.reports.run_pages.test_memory import PROGRAMS, USED, store_of
from xlahouse.sql.answers.memory import Memory, memory_text, most_memory

GB = 10**9
V6E = 32 * 1024**3


def test_the_largest_allocator_or_program_answers():
    # 24 GiB of an allocator; 4 GiB of a program in HBM, its 9 GiB of VMEM do not count.
    both = store_of(memory_timeline_v2=USED, program_memory_v1=PROGRAMS)
    assert most_memory(both, "r") == Memory("allocator", "TPU_3_hbm", 24 * 1024**3, V6E)
    compiled = store_of(memory_timeline_v2=[], program_memory_v1=PROGRAMS)
    assert most_memory(compiled, "r") == Memory("program", "step", 4 * 1024**3, V6E)
    other_kind = store_of("GPU", memory_timeline_v2=[], program_memory_v1=PROGRAMS)
    assert most_memory(other_kind, "r") == Memory("program", "step", 4 * 1024**3, None)
    assert most_memory(store_of(memory_timeline_v2=[], program_memory_v1=[]), "r") is None


@pytest.mark.parametrize(
    ("memory", "text"),
    [
        (
            Memory("allocator", "TPU_0", 12 * GB, 16 * GB),
            "TPU_0 held 12 GB, 75 % of a device's HBM; 4 GB are free",
        ),
        (
            Memory("program", "step", 20 * GB, 16 * GB),
            "step needs 20 GB, 125 % of a device's HBM; 4 GB too much",
        ),
        (
            Memory("program", "step", 999, None),
            "step needs 999 B; the HBM of this kind of device is not in the shipped table",
        ),
    ],
)
def test_memory_in_words(memory, text):
    assert memory_text(memory) == text
