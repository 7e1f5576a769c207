"""NCCL kernels of PyTorch's profiler as collectives: kind, sizes and members as traced.

Newer traces state the transfer on the kernel; older ones state it on the host, around the call that
launched the kernel. A kernel's own name proves nothing where NCCL names all its kernels after one: in such
traces all-reduces run as `ncclKernel_SendRecv_…`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property

import msgspec

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.ingest.chrome.rows import integer
from xlahouse.ingest.events.gpu_kernels import kind_of
from xlahouse.ingest.hlo.shapes import ELEMENT_TYPES

_HLO_TYPES = {
    "float": "f32", "float32": "f32", "double": "f64", "float64": "f64",
    "half": "f16", "float16": "f16", "c10::half": "f16",
    "bfloat16": "bf16", "c10::bfloat16": "bf16",
    "int": "s32", "int32": "s32", "long": "s64", "long int": "s64",
    "int64": "s64", "short": "s16", "int16": "s16",
    "char": "s8", "signed char": "s8", "int8": "s8",
    "uint16": "u16", "unsigned short": "u16", "uint32": "u32", "unsigned int": "u32",
    "uint64": "u64", "unsigned long": "u64", "complexfloat": "c64", "c10::complex<float>": "c64",
    "complexdouble": "c128", "c10::complex<double>": "c128",
    "byte": "u8", "unsigned char": "u8", "uint8": "u8", "bool": "pred",
    "float8_e4m3fn": "f8e4m3fn", "c10::float8_e4m3fn": "f8e4m3fn",
    "float8_e5m2": "f8e5m2", "c10::float8_e5m2": "f8e5m2",
    "float8_e4m3fnuz": "f8e4m3fnuz", "c10::float8_e4m3fnuz": "f8e4m3fnuz",
    "float8_e5m2fnuz": "f8e5m2fnuz", "c10::float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e8m0fnu": "f8e8m0fnu", "c10::float8_e8m0fnu": "f8e8m0fnu",
}  # fmt: skip

_ELEMENT_BYTES = {name: bits // 8 for name, bits in ELEMENT_TYPES.values()}
_ALONG_A_DIMENSION = ("all-gather", "all-to-all", "reduce-scatter")
_UNEVEN = r"(?i)all_?to_?all_?v"  # every rank sends and receives its own amounts


@dataclass(frozen=True)
class NcclTransfer:
    """What a kernel transfers; None where the trace does not state it."""

    name: str  # of the kernel
    kind: str | None  # as HLO names it
    dtype: str | None = None  # HLO's element type
    elements_in: int | None = None  # of one device
    elements_out: int | None = None  # of one device
    group: str | None = None  # name of the process group
    members: tuple[int, ...] | None = None  # ranks of the group
    sequence: int | None = None  # number among the transfers of its process group

    @cached_property
    def op(self) -> str:
        """A name that the same transfer has on every rank."""
        sizes = () if self._uneven else (self.elements_in, self.elements_out)
        parts = (self.name, self.group, self.dtype, *sizes)
        return ".".join(re.sub(r"\W+", "_", str(part)) for part in parts if part is not None)

    @cached_property
    def instruction(self) -> str | None:
        """The transfer as an HLO instruction, with `?` for a size that is not known, or not the same on
        every rank; None where kind or element type are unknown, where neither payload nor members are
        known, and for a transfer between two ranks."""
        if self.kind in (None, "send-recv") or self.dtype is None:
            return None  # the trace does not state which of two ranks sends
        if self._payload is None and not self.members:
            return None
        sizes = (None, None) if self._uneven else (self.elements_in, self.elements_out)
        taken, given = ("?" if size is None else size for size in sizes)
        operand, result = f"{self.dtype}[{taken}] %input", f"{self.dtype}[{given}]"
        members = ",".join(str(rank) for rank in self.members or ())
        groups = f", replica_groups={{{{{members}}}}}" if self.members else ""
        dims = ", dimensions={0}" if self.kind in _ALONG_A_DIMENSION else ""
        return f"%{self.op} = {result} {self.kind}({operand}){groups}{dims}"

    @property
    def bytes_here(self) -> int | None:
        """Payload on this rank where ranks differ, which the instruction cannot state; else None."""
        if not self._uneven or self._payload is None or self.dtype is None:
            return None
        return self._payload * _ELEMENT_BYTES[self.dtype]

    @cached_property
    def _uneven(self) -> bool:
        return re.search(_UNEVEN, self.name) is not None

    @property
    def _payload(self) -> int | None:
        return self.elements_out if self.kind == "all-gather" else self.elements_in

    @cached_property
    def program_id(self) -> int:
        """A number that the same transfer has on every rank."""
        text = (self.instruction or self.op).encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "big")


def recorded(
    args: dict[str, object], groups: dict[str, tuple[int, ...]], ranks: int | None = None
) -> NcclTransfer | None:
    """The transfer in a kernel's own arguments; None where they name no collective.

    Args:
        args: of the kernel.
        groups: ranks of each process group, where the file lists them.
        ranks: how many there are; the list of a group of all ranks is left empty.
    """
    name = args.get("Collective name")
    if not isinstance(name, str) or not name:
        return None
    dtype = _HLO_TYPES.get(str(args.get("dtype", "")).lower())
    group = args.get("Process Group Name")
    members = _ranks(args.get("Process Group Ranks")) or groups.get(str(group))
    size = integer(args.get("Group size"))
    if members is not None and size is not None and len(members) != size:
        members = None  # listed in part
    if members is None and size is not None and size == ranks:
        members = tuple(range(size))
    taken, given = (integer(args.get(f"{way} msg nelems")) for way in ("In", "Out"))
    return NcclTransfer(
        name=f"nccl.{name}",
        kind=kind_of(name),
        dtype=dtype,
        elements_in=taken if taken or given else None,  # no kernel runs to move nothing
        elements_out=given if taken or given else None,
        group=None if group is None else f"pg{group}",
        members=members,
        sequence=integer(args.get("Seq")),
    )


def annotated(name: str, args: dict[str, object], outer: dict[str, object] | None) -> NcclTransfer:
    """The transfer in the host's annotation around the launch.

    Args:
        name: of the annotation, such as `nccl:all_reduce`.
        args: of the annotation.
        outer: of the c10d call around it, whose tensors are (output, input); None without such a call.
    """
    kind = kind_of(name)
    dtype, elements = _tensor(args, 0)
    out_type, out = _tensor(outer or {}, 0)
    in_type, inner = _tensor(outer or {}, 1)
    if kind == "all-reduce":
        out_type, out, in_type, inner = dtype, elements, dtype, elements
    agrees = out_type == in_type == dtype and inner == elements
    return NcclTransfer(
        name=name.replace(":", "."),
        kind=kind,
        dtype=dtype,
        elements_in=elements,
        elements_out=out if agrees else None,
    )


def _tensor(args: dict[str, object], position: int) -> tuple[str | None, int | None]:
    """(HLO's element type, elements) of an input tensor."""
    dims, types = args.get("Input Dims"), args.get("Input type")
    if not (isinstance(dims, list) and isinstance(types, list)):
        return None, None
    if not position < min(len(dims), len(types)) or not isinstance(dims[position], list):
        return None, None
    elements = 1
    for size in dims[position]:
        number = integer(size)
        if number is None:
            return None, None
        elements *= number
    known = _HLO_TYPES.get(str(types[position]).lower())
    return (known, elements) if known and dims[position] else (None, None)


def rank_of(raw: msgspec.Raw | bytes) -> tuple[int | None, int | None]:
    """(rank, world size) of `distributedInfo`."""
    told = _told(raw)
    return integer(told.get("rank")), integer(told.get("world_size"))


def process_groups(raw: msgspec.Raw | bytes) -> dict[str, tuple[int, ...]]:
    """Ranks by process group of `distributedInfo`."""
    groups = {}
    listed = _told(raw).get("pg_config")
    for group in listed if isinstance(listed, list) else []:
        if not isinstance(group, dict):
            continue
        ranks, size = _ranks(group.get("ranks")), integer(group.get("pg_size"))
        if ranks and size in (None, len(ranks)):
            groups[str(group.get("pg_name"))] = ranks
    return groups


def _told(raw: msgspec.Raw | bytes) -> dict[str, object]:
    try:
        return msgspec.json.decode(raw, type=dict[str, object])
    except JSON_FAULTS:
        return {}


def _ranks(value: object) -> tuple[int, ...] | None:
    """Ranks as a list, or as its text; None where some are left out (`…`)."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except JSON_FAULTS:
            return None
    if not isinstance(value, list) or not value:
        return None
    if set(map(type, value)) == {int} and min(value) >= 0 and max(value) < 1 << 63:
        return tuple(value)  # fast path: a group has up to all ranks, and a file dozens of groups
    ranks = [integer(rank) for rank in value]
    return None if None in ranks else tuple(rank for rank in ranks if rank is not None)
