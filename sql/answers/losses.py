"""What a step's time is spent on: how each part is called, the lever that makes it smaller, its proof."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Loss:
    """A part of the time of a step that is not compute, in words."""

    called: str  # as in "41 % of a step is …"
    lever: str  # what makes it less
    view: str  # that shows it in detail
    page: str  # of a report, with the chart that shows it
    panel: str  # the chart's place on the page


COMPUTE = "compute"
CIRCUITS = "circuits"  # of a run predicted over optical circuits
HOST = "host"  # of a prefill: from its marker to a device's first op
LOSSES = {
    "exposed": Loss(
        "exposed communication",
        "overlap it with compute (latency-hiding scheduler, collective matmul), or shard so that this "
        "axis moves fewer bytes",
        "exposed_collective",
        "communication",
        "exposed",
    ),
    "exposed_copy": Loss(
        "exposed copies",
        "start transfers earlier, or keep what they move in the memory of the device",
        "op_profile",
        "efficiency",
        "kernels",
    ),
    "sync_wait": Loss(
        "waits in barriers for other devices",
        "find the device that comes late, and even out its work",
        "straggler",
        "time",
        "stragglers",
    ),
    CIRCUITS: Loss(
        "waits for optical circuits",
        "change them earlier, where the window is long enough, or never: compare the policies in "
        "the table reconfiguration_plan of the measured run",
        "circuit_waits",
        "overview",
        "predicted",
    ),
    "idle": Loss(
        "idle time within steps",
        "see its causes, then the ops beside the gaps",
        "idle_gap",
        "time",
        "bubbles",
    ),
    "between_steps": Loss(
        "idle time between steps",
        "keep the host ahead of the devices: dispatch without waiting, run several steps in one "
        "program, or give each step more work",
        "launch_overhead",
        "scheduling",
        "launches",
    ),
    "outside": Loss(
        "ops that belong to no step",
        "see which programs run between the steps, and move their work into them",
        "module_breakdown",
        "efficiency",
        "programs",
    ),
    "unsplit": Loss(
        "compute and communication of kernels that do both",
        "the trace does not divide it; compare with a run whose kernels do one of them",
        "op_profile",
        "efficiency",
        "kernels",
    ),
    HOST: Loss(
        "time before the device's first op",
        "prepare and enqueue the prefill sooner: look for input transfers, tracing and compiles on the host",
        "host_gap",
        "scheduling",
        "host-gaps",
    ),
}
COMPUTE_LEVER = "see which ops take it, and how near they are to the peaks"
COMPUTE_VIEW = "roofline"
