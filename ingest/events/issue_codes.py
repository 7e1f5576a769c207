"""What each code in the table `issues` means and costs: what `xlahouse check --codes` prints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Code:
    """A kind of finding. cost: what is missing or uncertain because of it."""

    code: str
    meaning: str
    cost: str


# A line a code: `code | what was found | what it costs`.
_TEXT = """
async_unpaired | a start or done of a collective lacks its partner: profiling began or ended between | that transfer is left out
bad_replica_groups | groups of a collective cannot be read, or contradict themselves or the device assignment | its group, axis and wire bytes are NULL
bad_time | events with an impossible time: negative, not finite, beyond 26 days, or none as they stand for several | those events are rejected, and counted in coverage
card_contradicts | a workload card says other than the trace or the manifest | these count, and the card's value is left out
card_field | a workload card has a wrong value, or a field that cards do not have | that field is left out
card_filled | facts that the trace lacks were taken from a workload card | they are as right as the card; the order of several mesh axes is assumed
card_unreadable | a workload card beside the trace is none, or there are several | what it would say is NULL
category_inferred | no HLO says what an op is; its name or instruction text does | its category may be wrong, its payload is NULL where the text has none
clocks_unknown | a file does not say when its profile started | times of different files cannot be compared: arrivals are NULL, and instances are right as far as profiles began at one time
collective_kind_unknown | an NCCL kernel of no kind that HLO has, such as a reduce to one rank, or whose name tells none: one that sends and receives may be part of any | its kind is NULL
collective_unseen | a program that ran holds a collective that no timeline shows | its traffic is missing
collective_without_group | a collective's group is unknown | it has no axis, no wire bytes and no instance
collective_without_payload | a collective's size is unknown | it has no bytes and no bandwidth
damaged_event | Chrome events that are damaged beyond use | those events are rejected
damaged_header | what stands around a Chrome trace's events, such as the time that they count from, is damaged | clock, ranks and groups may be unknown; whole events may be missing beside it
damaged_hlo | a program's HLO, or a part of it, cannot be read | what it would say of its ops is NULL
damaged_plane | a plane of the trace cannot be decoded | all its events are missing
derived_lines | lines that a profiler derived from others | nothing: their events are in host_events, and counted once
device_ambiguous | programs on virtual CPU devices started late, on a device chosen among those left over | their device may be another one of these
device_assignment_unknown | HLO does not say which device runs which partition | groups take the numbers of partitions for those of devices
device_collision | two planes of a file claim the same device | the later one's events are rejected
device_conflict | a collective ran on a deduced device that is not in its rendezvous group | the deduced devices of that program may be wrong
device_inferred | virtual CPU devices, whose identity is deduced | utilization, MFU, MBU and stragglers are NULL
device_number_assumed | a plane does not say which number replica groups give its device | the number within the host is taken: wrong on later hosts
device_unknown | ops of virtual CPU devices that lead to no execution | they are in host_events, not in ops
devices_missing | programs name devices that the trace lacks | their side of each transfer is unknown; the run is partial
devices_repeated | files number their devices, or ranks, as others of the run do: two processes that both begin with 0, or one captured twice | each is a world of devices of its own, which add up; no transfer between them is one instance
duplicate_file | a file has the bytes of another one of the run | nothing: it is read once
end_unseen | an xplane lacks what profilers write last, and is whole otherwise | planes may be missing, if it was cut off between two
events_capped | a Chrome export that reached its exporter's limit of events | later events are missing
hlo_dump_ambiguous | dumps bear a program's name, and neither an id nor the names and shapes of its ops tell that one of them is its own | none of these dumps is used for it
hlo_dump_unused | where --hlo-dump points there is no dump, or none of a program that ran | none of them is used
hosts_missing | the manifest names more hosts than left a trace | their devices and transfers are missing
kernel_without_op | GPU kernels that name no HLO op | they are ops by their own name, without layer and source
kind_inferred | no HLO says what a collective is: a GPU kernel's name does, or name and shapes of what wraps it | kind by name and shapes; a kernel has no payload; no group
launch_unknown | calls that launched GPU kernels lie in no execution that can be told from others | those kernels have no launch and no step
marker_incomplete | step markers without request or step number | their requests have no latency
marker_repeated | step markers with the request and step number of an earlier one on their host | both are one step, which lasts from the first to the last
markers_cross | step markers of one process that overlap, without one being within the other | a launch of that time is of the one that began last
mended_event | Chrome events with a damaged name or argument, whose times can be trusted | they are kept; damaged text may be wrong
no_hlo | programs whose HLO neither the trace nor a dump holds | only what the names of ops say is known; fusions are opaque
one_rank | the files of PyTorch's profiler are of fewer ranks than took part | the other ranks' side of each transfer is unknown
op_outside_launch | ops that no launch spans | they have no step and no phase
other_container | a trace of a kind that is not read lies beside the run's | what only it says is missing
program_conflict | files of a run call different programs by one id, as processes do that number them by themselves | they are worlds of their own: no transfer between them is one instance
size_unknown | shapes in HLO with a dimension that has no size, written ? | their bytes are NULL, and so is the payload of what moves them
sparsecore_ops | ops of SparseCores | they are in ops alone: no launch, no step, no part in the time split
truncated | the file ends, or stops making sense, before its end | what follows is missing
uneven_ends | members of one synchronous collective end over 1 us apart | clocks disagree: its skew is NULL
unknown_fields | parts of planes under field numbers that the format lacks: newer, or damaged | what they hold is missing
unknown_phase | Chrome events of a phase that the format lacks | those events are rejected
unknown_plane | a plane that has no reader of its own | nothing: its events are in host_events
unpaired_event | Chrome begins without end, or ends without begin | those events are rejected
unreadable_file | a file of the run cannot be read | all its events are missing; the run is partial
xplane_replaced | an xplane could not be used, and the Chrome trace beside it was read | what only the xplane has is NULL
"""  # noqa: E501
CODES = {
    code: Code(code, meaning, cost)
    for code, meaning, cost in (
        (part.strip() for part in line.split("|")) for line in _TEXT.strip().splitlines()
    )
}
