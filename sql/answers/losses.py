"""What a step's time is spent on: how each part is called, and the lever that makes it smaller."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Loss:
    """A part of the time of a step that is not compute, in words."""

    called: str  # as in "41 % of a step is …"
    lever: str
    view: str  # that shows it in detail


COMPUTE = "compute"
LOSSES = {
    "exposed": Loss(
        "exposed communication",
        "overlap it with compute (latency-hiding scheduler, collective matmul), or shard so that this "
        "axis moves fewer bytes",
        "exposed_collective",
    ),
    "exposed_copy": Loss(
        "exposed copies",
        "start transfers earlier, or keep what they move in the memory of the device",
        "op_profile",
    ),
    "sync_wait": Loss(
        "waits in barriers for other devices",
        "find the device that comes late, and even out its work",
        "straggler",
    ),
    "idle": Loss(
        "idle time within steps", "see its causes, then the ops beside the gaps", "idle_gap"
    ),
    "between_steps": Loss(
        "idle time between steps",
        "keep the host ahead of the devices: dispatch without waiting, run several steps in one "
        "program, or give each step more work",
        "launch_overhead",
    ),
    "outside": Loss(
        "ops that belong to no step",
        "see which programs run between the steps, and move their work into them",
        "module_breakdown",
    ),
    "unsplit": Loss(
        "compute and communication of kernels that do both",
        "the trace does not divide it; compare with a run whose kernels do one of them",
        "op_profile",
    ),
}
COMPUTE_LEVER = "see which ops take it, and how near they are to the peaks"
COMPUTE_VIEW = "roofline"
