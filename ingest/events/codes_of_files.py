"""Codes of findings about a run's files: damaged, missing, repeated or partly unknown ones."""

from __future__ import annotations

from xlahouse.ingest.events.issues import Code

_CAPTURE_AGAIN = "capture or copy the file again"

BAD_TIME = Code(
    "bad_time",
    "warning",
    "events whose start or duration is negative, not finite, beyond 40 hours, or absent because one event "
    "stands for several of its kind",
    "these events are rejected, and counted in coverage",
)
BAD_NUMBER = Code(
    "bad_number",
    "warning",
    "FLOPs or bytes of ops or transfers, or values of counters, are not finite, or are beyond any hardware",
    "these numbers are NULL, and such values of counters are left out",
)
CARD_CONTRADICTS = Code(
    "card_contradicts",
    "warning",
    "a workload card contradicts the trace or the manifest",
    "the trace or the manifest counts, and the card's value is left out",
    "correct the card, then `xlahouse ingest TRACES --run RUN --card CARD`",
)
CARD_FIELD = Code(
    "card_field",
    "warning",
    "a workload card has a wrong value, or a field that cards do not have",
    "that field is left out",
    "correct the card, then `xlahouse ingest TRACES --run RUN --card CARD`",
    info_when="cards do not have the field",
)
CARD_FILLED = Code(
    "card_filled",
    "info",
    "facts that the trace lacks were taken from a workload card",
    "they are only as right as the card, and the order of several mesh axes is assumed",
)
CARD_UNREADABLE = Code(
    "card_unreadable",
    "warning",
    "a workload card beside the trace is unreadable, or there are several",
    "the facts that they would give are NULL",
    "name one: `xlahouse ingest TRACES --run RUN --card CARD`",
)
DAMAGED_EVENT = Code(
    "damaged_event",
    "error",
    "Chrome events that are damaged beyond use",
    "these events are rejected",
    _CAPTURE_AGAIN,
)
DAMAGED_HEADER = Code(
    "damaged_header",
    "warning",
    "the text around a Chrome trace's events, such as the time that they count from, is damaged",
    "clock, ranks and groups may be unknown, and whole events beside it may be missing",
    _CAPTURE_AGAIN,
)
DAMAGED_PLANE = Code(
    "damaged_plane",
    "error",
    "a plane of the trace cannot be decoded",
    "all its events are missing",
    _CAPTURE_AGAIN,
)
DERIVED_LINES = Code(
    "derived_lines",
    "info",
    "events on lines that a profiler derived from other lines",
    "nothing: they are in host_events, and no op is counted twice",
)
DUPLICATE_FILE = Code(
    "duplicate_file",
    "warning",
    "a file with the same bytes as another file of the run",
    "nothing: the bytes are read once",
)
EMPTY_PLANES = Code(
    "empty_planes",
    "info",
    "planes of devices without an event",
    "these devices are not among the traced ones: they ran nothing, or the profiler lost their events",
)
END_UNSEEN = Code(
    "end_unseen",
    "info",
    "an xplane names no host and lacks the plane that profilers write last, but is whole otherwise",
    "planes may be missing, if the file was cut off between two",
    "compare its size with the original's",
)
EVENTS_CAPPED = Code(
    "events_capped",
    "error",
    "a Chrome export that reached its exporter's limit of a million events",
    "later events are missing",
    "give the xplane, `xlahouse ingest XPLANE --run RUN`, or capture a shorter time",
)
HOSTS_MISSING = Code(
    "hosts_missing",
    "warning",
    "the manifest names more hosts than left a trace",
    "their devices and transfers are missing",
    "copy their files into the capture's folder, then `xlahouse ingest TRACES MORE --run RUN`",
)
LIMIT_EXCEEDED = Code(
    "limit_exceeded",
    "error",
    "a part of the input asks for more than a limit allows",
    "that part is left out",
)
MENDED_EVENT = Code(
    "mended_event",
    "warning",
    "Chrome events with a damaged name or argument, whose times can be trusted",
    "they are kept, and the damaged text may be wrong",
    _CAPTURE_AGAIN,
)
NO_DEVICE_EVENTS = Code(
    "no_device_events",
    "warning",
    "no file has events of a device",
    "host_events is all that there is: no ops, no launches, no collectives",
    "start the profile after warm-up, stop it once the device is idle (block_until_ready), profile for less "
    "time, and capture on every host",
)
OTHER_CONTAINER = Code(
    "other_container",
    "warning",
    "a trace of a kind that is not read lies beside the run's files",
    "facts that only it holds are missing",
    "export an xplane or a Chrome trace (JSON) from its profiler",
)
PREDICTED = Code(
    "predicted",
    "info",
    "no time of this run was measured",
    "a replay of a measured run worked them out, and no hardware has confirmed them; its bytes and "
    "counts are the measured run's",
)
TRUNCATED = Code(
    "truncated",
    "error",
    "the file is cut off, or cannot be parsed from some byte on",
    "the rest is missing",
    _CAPTURE_AGAIN,
)
UNKNOWN_FIELDS = Code(
    "unknown_fields",
    "warning",
    "parts of planes under field numbers that the format lacks: a newer format, or damage",
    "their contents are missing",
)
UNKNOWN_PHASE = Code(
    "unknown_phase",
    "warning",
    "Chrome events of a phase that the Trace Event Format lacks",
    "these events are rejected",
)
UNKNOWN_PLANE = Code(
    "unknown_plane",
    "warning",
    "a plane that has no reader of its own",
    "nothing: its events are in host_events",
)
UNPAIRED_EVENT = Code(
    "unpaired_event",
    "warning",
    "Chrome begin events without an end, or end events without a begin",
    "these events are rejected",
)
UNREADABLE_FILE = Code(
    "unreadable_file",
    "error",
    "a file of the run cannot be read",
    "all its events are missing, and the run is partial",
)
XPLANE_REPLACED = Code(
    "xplane_replaced",
    "warning",
    "an xplane cannot be used, and the Chrome trace beside it was read instead",
    "values that only the xplane has are NULL",
    _CAPTURE_AGAIN,
)
