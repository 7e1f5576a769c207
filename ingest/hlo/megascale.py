"""Finds collectives between slices of TPUs: Megascale carries them over the data center's network (DCN).

In HLO each is a send and a recv that are host transfers, joined by the name of their rendezvous. Their
attributes state the kind and the target, such as `{1,2}x{0:7}`: slices 1 and 2, of each the devices 0 to 7.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from xlahouse.ingest.hlo.messages import HloComputation, HloInstruction, Shape

_HANDLER = (b"_xla_host_transfer_handler_name", b"xla_megascale_runtime")
_RENDEZVOUS = b"_xla_host_transfer_rendezvous"
_TYPE, _TARGET = b"_xla_megascale_transfer_type", b"_xla_megascale_target"
_KINDS = {
    b"ALL_REDUCE": "all-reduce",
    b"ALL_GATHER": "all-gather",
    b"REDUCE_SCATTER": "reduce-scatter",
    b"ALL_TO_ALL": "all-to-all",
}
_OTHER_KIND = "send-recv"  # ONE_TO_ONE
_SLICES = re.compile(rb"\{(\d+(?:,\d+)*)\}x\{0:(\d{1,6})\}")
_OPCODES = (b"send", b"recv", b"send-done", b"recv-done")


@dataclass(frozen=True)
class DcnPart:
    """What a send, a recv or a done of theirs does in a transfer between slices."""

    role: str  # start, done; or update, which runs while the transfer is in flight
    kind: str  # of the transfer, such as all-gather
    start: HloInstruction  # the send, else the recv
    data: Shape  # what is sent; of an all-gather, what is received
    target: bytes  # name of the rendezvous, shared by all parts of a transfer


@dataclass
class _Rendezvous:
    """The instructions of one transfer, by opcode."""

    # opcode -> its instructions
    members: dict[bytes, list[HloInstruction]] = field(
        default_factory=lambda: {opcode: [] for opcode in _OPCODES}
    )

    def parts(self) -> Iterator[tuple[int, DcnPart]]:
        sends, recvs, sent, received = self.members.values()
        if not (sends or recvs):
            return
        start = (sends or recvs)[0]
        ends = (received or sent)[-1:]
        told = _attributes(start)
        kind = _KINDS.get(told.get(_TYPE, b""), _OTHER_KIND)
        holder = recvs[0] if recvs and kind == "all-gather" else start
        data = holder.shape.tuple_shapes[0] if holder.shape.tuple_shapes else holder.shape
        for each in (*sends, *recvs, *sent, *received):
            role = "start" if each is start else "done" if each in ends else "update"
            yield each.id, DcnPart(role, kind, start, data, told.get(_TARGET, b""))


def dcn_parts(computations: Iterable[HloComputation]) -> dict[int, DcnPart]:
    """The parts of all transfers between slices, by the id of their instruction."""
    found: dict[tuple[int, bytes], _Rendezvous] = {}
    of_transfer: dict[int, _Rendezvous] = {}
    waiting = []
    for computation in computations:
        for each in computation.instructions:
            if each.opcode not in _OPCODES:
                continue
            told = _attributes(each)
            if told.get(_HANDLER[0]) == _HANDLER[1] or _TYPE in told:
                name = told.get(_RENDEZVOUS) or b"%d" % each.channel_id
                one = found.setdefault((computation.id, name), _Rendezvous())
                one.members[each.opcode].append(each)
                of_transfer[each.id] = one
            elif each.opcode.endswith(b"-done"):
                waiting.append(each)
    for done in waiting:  # a dump states the attributes of the send and the recv alone
        owner = next((of_transfer[n] for n in done.operand_ids[:1] if n in of_transfer), None)
        if owner is not None:
            owner.members[done.opcode].append(done)
    return dict(part for one in found.values() for part in one.parts())


def _attributes(instruction: HloInstruction) -> dict[bytes, bytes]:
    return {each.key: each.value for each in instruction.frontend_attributes.map}


def slices_of(target: bytes, devices: list[int]) -> list[list[int]]:
    """The devices of each slice that a target names; [] unless these are all the program's devices.

    Args:
        target: `{1,2}x{0:7}`.
        devices: of the program; those of a slice follow one another.
    """
    found = _SLICES.fullmatch(target)
    if found is None:
        return []
    count, size = found[1].count(b",") + 1, int(found[2]) + 1
    if count * size != len(devices):
        return []
    ordered = sorted(devices)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]
