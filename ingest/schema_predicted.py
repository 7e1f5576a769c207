"""Tables of predictions: what a replay rests on, what is worth doing, and what circuits would cost."""

from __future__ import annotations

from xlahouse.ingest.table import Table, columns_of

PREDICTED = (
    Table(
        "transfer_costs",
        "axis, kind, strategy and group size of a predicted run's transfers, and what their times rest on",
        columns_of("""
run_id str predicted run
fabric str ici or dcn
axis str mesh axes joined by +, or none, mixed or unclassified
kind str kind of the collective
strategy str way of the data, as the TPU's compiler states it; NULL where it states none
group_size int members of a group
source str fitted (to this warehouse's transfers), fitted_to_other_groups, peaks or unknown
latency_ps float of one step of a ring; NULL where it is not fitted
bytes_per_s float that a member sends; NULL where it is not fitted
sizes int different sizes that were fitted
samples int measured transfers that were fitted
error_ratio float median distance of these transfers from the fit, over their time; NULL without a fit
transfers int transfers of the run that it counts for
"""),
    ),
    Table(
        "advice",
        "lever and phase of a measured run: its steps replayed with one thing changed",
        columns_of("""
run_id str run
lever str what is changed, such as no skew
phase str phase of the steps; NULL outside every marker
rank int 1 is the lever that wins most time over the run; NULL where it cannot be replayed
steps int steps of the phase
step_ps int measured: mean time from the end of the previous step to a step's end, on the slowest device
replayed_step_ps int predicted: the same of the replay; NULL where it cannot be replayed
won_ps int step_ps less replayed_step_ps
won_ratio float won_ps over step_ps
rests_on str what the changed times rest on
reason str why it cannot be replayed; NULL where it was
"""),
    ),
    Table(
        "predicted_split",
        "phase of a predicted run and part of a step's period: its mean on a device, measured and predicted",
        columns_of("""
run_id str predicted run
phase str phase of the steps; NULL outside every marker
part str compute, exposed communication, exposed copy, sync wait, circuit wait, idle, or before the step
steps int steps of devices that the means are over
measured_ps int of the run that was replayed; NULL where the part is not known
predicted_ps int of the replay; NULL where the part is not known
"""),
    ),
    Table(
        "circuit_waits",
        "device, step and collective of a run predicted over optical circuits: its waits for them",
        columns_of("""
run_id str predicted run
device_id int device
request int number of the request; NULL without a marker
step int forward pass within the request; in a run without markers the launch instance
phase str phase of the step
program_id uint program of the collective
op str name of the collective
group_index int which of its replica groups
exposed_ps int predicted: of its exposed time, from its last member's arrival until its circuits were ready
sync_wait_ps int predicted: the same of the sync wait in its barriers
"""),
    ),
    Table(
        "reconfiguration_plan",
        "policy, delay, circuits of a device, scope, change and phase of a measured run: its steps replayed "
        "over optical circuits, a port of a device for one axis at a time",
        columns_of("""
run_id str run
policy str when ports change: never, every (transition), fits (where nothing waits) or prefetch
delay_ps int time that a change takes
circuits int ports of a device: axes that it can be connected along at once
scope str axes (all transfers between devices need circuits) or rails (those between hosts do)
change str what else is changed in the replay, such as ici=2x; NULL for nothing
phase str phase of the steps; NULL outside every marker
steps int steps of the phase
step_ps int as advice has it; predicted where something else is changed
replayed_step_ps int predicted: the same over circuits
added_ps int replayed_step_ps less step_ps
added_ratio float added_ps over step_ps
changes_per_step float changes of a device's ports a step, mean over the devices with ports
step_hidden_ps float time of these changes that no transfer waits for, a step, mean over the devices
step_exposed_ps float time for which transfers wait for these changes, a step, mean over the devices
shared_changes_per_step float of changes_per_step, those between transfers that overlap without circuits
ports int most ports that a device uses, of circuits
circuit_bytes_ratio float share of the bytes sent that circuits carry; NULL where they are not known
"""),
    ),
    Table(
        "forecast",
        "phase of a compiled run and change: its step, which never ran, as an interval; no host, no skew",
        columns_of("""
run_id str compiled run
change str what was changed, such as ici=2x; NULL of the run as it is
phase str prefill or decode
metric str ttft (of a prefill) or tpot (of a decode step), on the devices alone
optimistic_ps int predicted at best: peaks of math, HBM and links, all overlap that the schedule allows
pessimistic_ps int predicted at worst: the compiler's cycles, transfers as measured here or over one link
optimistic_compute_ps int of optimistic_ps, instructions that compute or copy in line
pessimistic_compute_ps int of pessimistic_ps, the same
optimistic_exposed_ps int of optimistic_ps, transfers between devices that nothing hides
pessimistic_exposed_ps int of pessimistic_ps, the same
optimistic_copy_ps int of optimistic_ps, copies within a device that nothing hides
pessimistic_copy_ps int of pessimistic_ps, the same
math_floor_ps int all matrix products at the peak, except those of branches: no step is shorter
hbm_floor_ps int all bytes to and from HBM at the peak, except those of branches: no step is shorter
flops_per_s float peak of a device
hbm_bytes_per_s float peak of a device
ici_bytes_per_s float peak of a link, one way
clock_hz float clock that turns the compiler's cycles into times
clock_source str where the clock comes from
"""),
    ),
    Table(
        "forecast_costs",
        "phase, change, part and origin: what a forecast step's costs rest on, before any overlap",
        columns_of("""
run_id str compiled run
change str what was changed, as in forecast
phase str prefill or decode
part str compute, copy, or axis and kind of transfers between devices
origin str of its cost at worst: cycles, peaks (their sum), fitted, fitted_to_other_groups, one link, stated
instructions int instructions of the program
executions int of these in one step; branches of conditionals are not counted
optimistic_ps int sum at best
pessimistic_ps int sum at worst
"""),
    ),
)
