"""Everything that a reader makes of one trace file: its planes and its programs."""

from __future__ import annotations

from dataclasses import dataclass, field

from xlahouse.ingest.events.frames import PlaneEvents
from xlahouse.ingest.events.issues import Issue
from xlahouse.ingest.hlo.names import OpTexts
from xlahouse.ingest.hlo.program import Program


@dataclass
class FileEvents:
    """Everything read from one file."""

    path: str  # path or URL of the file
    host: str  # name of the host that wrote it
    folder: str = ""  # that the file lies in; `path` may be a text for readers
    planes: list[PlaneEvents] = field(default_factory=list)  # in file order
    programs: dict[int, Program] = field(default_factory=dict)  # by program id
    op_texts: OpTexts = field(default_factory=OpTexts)  # HLO texts of ops, as the events state them
    issues: list[Issue] = field(default_factory=list)  # findings about the file
    profile_start_ns: int | None = None  # UNIX time
    format: str = "xplane"  # or chrome; or compiled: programs that did not run
    # rank and number of ranks of each process in it, of PyTorch's profiler
    ranks: tuple[tuple[int, int], ...] = ()

    # planes of devices that hold no event, by name
    empty_planes: list[str] = field(default_factory=list)
    # kinds of events that no reader knows and that may be a device's: names of planes, or categories
    unknown_kinds: list[str] = field(default_factory=list)

    # whether a host launched programs or kernels, by names of its events
    launches_seen: bool = False

    def forget_decoded(self) -> None:
        """Free what was decoded ahead of its use; it is decoded again when needed."""
        for plane in self.planes:
            if plane.host_pieces is not None:
                plane.host_pieces.forget_decoded()
