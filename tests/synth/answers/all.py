"""All closed forms of a run, by view."""

from __future__ import annotations

from tests.synth.answers.ccl import ccl_bench
from tests.synth.answers.efficiency import efficiency
from tests.synth.answers.expected import expected_traffic, planned_traffic, step_load
from tests.synth.answers.exposed import exposed_collective
from tests.synth.answers.host import host_gap
from tests.synth.answers.idle import idleness
from tests.synth.answers.link_use import link_use
from tests.synth.answers.links import link_traffic
from tests.synth.answers.model import utilization
from tests.synth.answers.networks import networks
from tests.synth.answers.profile import profile
from tests.synth.answers.profiles import traffic_profile
from tests.synth.answers.sizes import sizes
from tests.synth.answers.time import times
from tests.synth.answers.traffic import traffic
from tests.synth.describe import Run
from tests.synth.periods import timed
from tests.synth.summaries import comm_compute, run_summary, step_latency
from tests.synth.times import latency, row_counts
from tests.synth.traffic import (
    ALGORITHMS,
    Row,
    collective_axis,
    collective_bandwidth,
    traffic_matrix,
    traffic_volume,
)


def answers(run: Run) -> dict[str, list[Row]]:
    """View -> its rows, from the description alone; `row_counts` counts rows of tables."""
    return {
        "collective_axis": collective_axis(run),
        "traffic_volume": traffic_volume(run),
        "traffic_matrix": [row for name in ALGORITHMS for row in traffic_matrix(run, name)],
        "collective_bandwidth": collective_bandwidth(run),
        "device_time": timed(run),
        "exposed_collective": exposed_collective(run),
        "traffic_profile": traffic_profile(run),
        "latency": latency(run),
        "comm_compute": comm_compute(run),
        "step_latency": step_latency(run),
        "run_summary": run_summary(run),
        "row_counts": row_counts(run),
        "host_gap": host_gap(run),
        "compile": [],  # nothing is compiled while the profiler runs
        # No allocator writes, and no compiler says where values lie; one slice needs no network.
        **{name: [] for name in ("memory_timeline", "program_memory", "memory_at_peak")},
        **{name: [] for name in ("dcn_transfer", "dcn_summary")},
        "expected_traffic": expected_traffic(run),
        "planned_traffic": planned_traffic(run),
        "step_load": step_load(run),
        # No TPU's compiler states costs, and nothing was compiled without running.
        **{name: [] for name in ("compiler_cost", "compiler_roofline", "program_fit")},
        "link_traffic": link_traffic(run),
        "link_use": link_use(run),
        "ccl_bench": ccl_bench(run),
        **efficiency(run),
        **times(run),
        **idleness(run),
        **traffic(run),
        **sizes(run),
        **networks(run),
        **utilization(run),
        **profile(run),
    }
