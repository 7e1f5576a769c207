"""The description of a synthetic run: mesh, model, schedule, times, what the profiler saw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tests.synth.protos import ELEMENT_BYTES

PREFILL, DECODE, WARMUP, STEP = "prefill", "decode", "warmup", "step"
# How groups are written: as an iota in a collective_device_list (or, newer, beside it), as lists there
# or in the old field, as an axis (or a part of one) of a mesh, or not at all where all are one group.
NOTATIONS = ("iota", "new_iota", "list", "device_list", "mesh", "sub_axis", "empty")
DATA_AXES = ("dp", "fsdp")  # these split the batch
IDLE_AXES = ("dp",)  # these cause no collective in inference
US = 1_000_000  # ps


@dataclass(frozen=True)
class Cost:
    """A time that grows with a size: `fixed_ps` plus `each_ps` for each token (or byte)."""

    fixed_ps: int
    each_ps: int

    def ps(self, size: int) -> int:
        """The time for that size."""
        return self.fixed_ps + self.each_ps * size


@dataclass(frozen=True)
class Pass:
    """A forward pass of the run: `phase` is its program's, `label` the one that a view shows.

    Warm-up requests count down from -1, as the tables have it; their markers count from 0.
    """

    index: int
    phase: str
    label: str
    request: int | None
    step: int


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of `requests` requests, each one prefill and `output_tokens` - 1 decode steps.

    What the axes of the mesh do: tp all-reduces (or all-gathers and reduce-scatters with
    `sequence_parallel`) around each half of a layer; ep dispatches and combines tokens; fsdp
    gathers each layer's weights during the layer before; pp passes microbatches on, in one stacked
    program (`pipeline="stacked"`) or with a program a stage (`"stages"`); dp only splits the batch.

    Times are ps. `lag_ps` (by mesh position) makes a device slower in every compute op, `offset_ps`
    starts its launches later. The host waits for each step's last op before it enqueues the next.
    """

    name: str = "synthetic"
    mesh: tuple[tuple[str, int], ...] = (("tp", 4),)  # major to minor
    sequence_parallel: bool = False
    pipeline: str = "stacked"
    fusions: int = 1  # ops that compute attention, and as many the mlp, of a layer
    # model and work
    layers: int = 2
    hidden: int = 128
    dtype: str = "bf16"
    batch: int = 8
    prompt_tokens: int = 16
    output_tokens: int = 4
    requests: int = 1
    microbatches: int = 2
    # how the program is written down
    device_ids: tuple[int, ...] = ()  # device of each mesh position; () = 0, 1, …
    replicas: int = 1  # of the device assignment; the rest are partitions
    ids: str = "flattened"  # what groups of reductions hold: or replicas, all_partitions
    notations: tuple[str, ...] = ("iota",)  # of NOTATIONS, which collectives cycle through
    loop: bool = False  # layers are the iterations of a while
    copies: bool = False  # a prefetch into VMEM and one from host memory in each step
    zero_starts: bool = False  # a copy's start has no length, and stands after its done
    fused_scatter: bool = False  # reduce-scatters are fusions of an all-reduce and a slice
    sharded_vocabulary: bool = False  # an all-reduce after the embedding
    opens_with_collective: bool = False  # or before it, so that a launch starts in a barrier
    overlapped: bool = False  # tp all-reduces and pp permutes are async, with compute meanwhile
    appended_scalar: bool = False  # all-reduces carry the extra scalar of torch_xla
    scheduled_ticks: bool = False  # the manifest says what a stacked pipeline holds at which tick
    wrapped_async: bool = False  # async-start with a called computation, not all-gather-start
    # times
    embedding: Cost = Cost(703_125, 1_009)
    attention: Cost = Cost(2_501_953, 7_013)
    mlp: Cost = Cost(3_907_031, 11_003)
    router: Cost = Cost(401_719, 503)
    head: Cost = Cost(1_203_125, 3_001)
    link: Cost = Cost(1_511_719, 97)  # a transfer, by payload byte
    lag_ps: tuple[int, ...] = ()
    offset_ps: tuple[int, ...] = ()
    barriers: bool = True  # devices wait in barrier-cores; else in the collective itself
    barrier_ps: int = 78_203  # that even the last device spends in the barrier
    wait_ps: int = 1_094  # dependency-wait between a barrier and its collective
    gap_ps: int = 0  # idle between attention and mlp
    issue_ps: int = 5_078
    done_ps: int = 51_953  # a done op that need not wait
    copy_ps: int = 409_297  # what a copy's done op runs
    prologue_ps: int = 812_500
    epilogue_ps: int = 2_343
    dispatch_ps: int = 40 * US  # marker start to launch start
    fetch_ps: int = 25 * US + 117  # last op's end to marker end
    host_gap_ps: int = 90 * US + 13  # marker end to next marker start
    jitter_ps: int = 0  # of the host gap
    seed: int = 0
    # what the profiler saw
    worlds: int = 1  # copies of the run on the same hosts, in processes that share device numbers
    markers: bool = True
    warmup: bool = False  # a request 0 under warm-up markers before the first request
    same_links: bool = False  # processes use the same ids to link enqueues to launches
    missed: tuple[int, ...] = ()  # passes that a position's plane lacks at the start
    hosts: int = 1
    processes: int = 1  # a host; each writes its own file and numbers its planes from 0
    counted_programs: bool = False  # HLO protos under 1, 2, … and not under fingerprints
    traced_hosts: tuple[int, ...] = ()  # () = all
    host_start_ns: tuple[int, ...] = ()  # profile start of each host after the first host's
    extra_launches: int = 0  # of a small program, on the first device, before the first request
    head_layers: int = 0  # a decode step is under way when the profile starts: its last layers
    tail_layers: int = 0  # and one is when it ends: its first layers

    def __post_init__(self) -> None:
        if math.prod(size for _, size in self.mesh) % (self.hosts * self.processes):
            raise ValueError("devices do not divide over hosts and processes")
        if (self.lag_ps or self.offset_ps) and len(self.busy_axes) > 1:
            raise ValueError("with skew, only one axis may communicate: else no closed form")
        if "fsdp" in self.busy_axes and (len(self.busy_axes) > 1 or self.lag_ps):
            raise ValueError("fsdp allows no other communicating axis and no lag")
        if "pp" in self.axes and (self.layers % self.size("pp") or self.loop):
            raise ValueError("pp needs layers that divide over stages, and no loop")
        if "pp" in self.axes and (self.lag_ps or self.offset_ps or self.copies):
            raise ValueError("pp allows neither skew nor copies")
        if self.loop and (self.copies or "fsdp" in self.busy_axes):
            raise ValueError("a loop allows neither copies nor fsdp")
        if self.worlds > 1 and self.processes > 1:
            raise ValueError("worlds are processes of their own")
        if not self.markers and (self.staged or self.warmup or self.missed):
            raise ValueError("without markers: no stages, warm-up or missed passes")
        cut = self.head_layers or self.tail_layers
        if cut and (self.loop or {"pp", "fsdp"} & set(self.busy_axes) or self.offset_ps):
            raise ValueError("only a plain program without offsets can be cut at a layer")
        if self.head_layers and self.host_start_ns:
            raise ValueError("a launch is under way at one time, so hosts start together")

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the mesh's axes."""
        return tuple(axis for axis, _ in self.mesh)

    @property
    def busy_axes(self) -> tuple[str, ...]:
        """The axes that communicate."""
        return tuple(axis for axis, size in self.mesh if axis not in IDLE_AXES and size > 1)

    def size(self, axis: str) -> int:
        """Devices along an axis; 1 where the mesh has no such axis."""
        return dict(self.mesh).get(axis, 1)

    @cached_property
    def devices(self) -> tuple[int, ...]:
        """The device id of each mesh position."""
        return self.device_ids or tuple(range(math.prod(size for _, size in self.mesh)))

    @property
    def staged(self) -> bool:
        """Whether each pipeline stage has its own program."""
        return self.size("pp") > 1 and self.pipeline == "stages"

    @property
    def steps(self) -> int:
        """Forward passes of a request."""
        return self.output_tokens

    @cached_property
    def passes(self) -> tuple[Pass, ...]:
        """All forward passes of the run, the warm-up's first."""
        found = []
        for number in range(-self.warmup, self.requests):
            for step in range(self.steps):
                phase, index = DECODE if step else PREFILL, len(found)
                label = phase if number >= 0 else WARMUP
                if self.markers:
                    found.append(Pass(index, phase, label, number, step))
                else:  # then each launch instance is a step
                    found.append(Pass(index, phase, STEP, None, self.extra_launches + index))
        return tuple(found)

    def saw(self, position: int, index: int) -> bool:
        """Whether a position's plane holds a pass."""
        return not self.missed or index >= self.missed[position]

    def tokens(self, phase: str) -> int:
        """Tokens of a forward pass (of a microbatch, with pp) on one shard of the data axes."""
        shards = math.prod(self.size(axis) for axis in DATA_AXES)
        parts = self.microbatches if self.size("pp") > 1 else 1
        return self.batch * (self.prompt_tokens if phase == PREFILL else 1) // shards // parts

    @property
    def item_bytes(self) -> int:
        """Bytes of an element."""
        return ELEMENT_BYTES[self.dtype]

    def lag(self, position: int) -> int:
        """How much longer each compute op takes there, ps."""
        return self.lag_ps[position] if self.lag_ps else 0

    def offset(self, position: int) -> int:
        """How much later launches start there, ps."""
        return self.offset_ps[position] if self.offset_ps else 0

    def host(self, position: int) -> int:
        """The host of a mesh position: device ids are dealt to hosts in order."""
        return self.devices[position] * self.hosts // len(self.devices)

    def process(self, position: int) -> int:
        """The process on that host."""
        share = len(self.devices) // self.hosts
        return self.devices[position] % share * self.processes // share

    def local(self, position: int) -> int:
        """The number of its plane in its process."""
        return self.devices[position] % (len(self.devices) // self.hosts // self.processes)

    def traced(self, position: int) -> bool:
        """Whether its host's file is there."""
        return not self.traced_hosts or self.host(position) in self.traced_hosts

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """The traced mesh positions."""
        return tuple(p for p in range(len(self.devices)) if self.traced(p))

    def start_ns(self, host: int) -> int:
        """Start of a host's profile after the first host's, ns."""
        return self.host_start_ns[host] if self.host_start_ns else 0

    @cached_property
    def host_gaps(self) -> np.ndarray:
        """Host gap after each pass of the run, ps."""
        count = len(self.passes)
        if not self.jitter_ps:
            return np.full(count, self.host_gap_ps, dtype=np.int64)
        noise = np.random.default_rng(self.seed).integers(0, self.jitter_ps, count)
        return self.host_gap_ps + noise
