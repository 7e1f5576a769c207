"""Opens the planes of a file, two at a time: most of the first pass walks over each plane's events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from xlahouse.capture.errors import TraceFormatError
from xlahouse.ingest.events.ahead import made_ahead
from xlahouse.ingest.events.frames import PlaneEvents
from xlahouse.ingest.events.trace_bytes import TraceBytes
from xlahouse.ingest.hlo.names import InstructionTexts
from xlahouse.ingest.xplane import tpu, xspace
from xlahouse.ingest.xplane.programs import instruction_texts
from xlahouse.ingest.xplane.wire import SpaceBytes
from xlahouse.ingest.xplane.xspace import Plane

SMALL_PLANE = 1 << 16  # bytes


@dataclass(frozen=True)
class TpuPlane:
    """The result of the first pass over a TPU plane."""

    events: PlaneEvents  # without the ops that were put off
    texts: InstructionTexts  # HLO texts of its ops


@dataclass(frozen=True)
class Opened:
    """A plane, and how to decode it once more."""

    plane: Plane  # as it was decoded first
    again: Callable[[], Plane]  # decodes it again
    # a TPU plane with events, or the error that kept it from being read
    tpu: TpuPlane | Exception | None = None


def open_planes(
    space: SpaceBytes, path: str, host: str, start_ns: int, first_number: int = 0
) -> Iterator[Opened | TraceFormatError]:
    """The planes of a file, in order; a damaged plane is returned as its error.

    Args:
        space: the file.
        path: its name.
        host: its host.
        start_ns: the profile's start, UNIX ns.
        first_number: of the devices of this process, where planes do not state their number.
    """

    def opened(payload: TraceBytes) -> Opened | TraceFormatError:
        plane = xspace.decode_plane_or_error(payload, path, start_ns)
        if isinstance(plane, TraceFormatError):
            return plane
        again = partial(xspace.decode_plane, payload, start_ns, plane.lines)
        if len(payload) <= SMALL_PLANE:  # quicker to keep than to decode
            again = partial(_same, plane)
        if not tpu.TPU_PLANE.match(plane.name) or plane.is_empty:
            return Opened(plane, again)
        return Opened(plane, again, _read_tpu(plane, again, path, host, first_number))

    if all(len(payload) <= SMALL_PLANE for payload in space.planes):
        return map(opened, space.planes)  # a thread would cost more than it saves
    return made_ahead(opened, space.planes)


def _same(plane: Plane) -> Plane:
    return plane


def _read_tpu(
    plane: Plane, again: Callable[[], Plane], path: str, host: str, first_number: int
) -> TpuPlane | Exception:
    try:
        read = tpu.read_tpu_plane(plane, path, host, again, first_number)
        return TpuPlane(read, instruction_texts(plane))
    except Exception as error:  # damage can have any shape; it is reported at the plane's turn
        return error
