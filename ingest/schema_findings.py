"""Tables about hosts and the trace itself: host events, counters, findings, coverage."""

from __future__ import annotations

from xlahouse.ingest.table import Table, columns_of

FINDINGS = (
    Table(
        "host_events",
        "event of a host thread, or of a line that has no table of its own",
        columns_of("""
run_id str run
host str host
thread str thread, or plane and line
name str name
start_ps int start
duration_ps int duration
args str stats as a JSON object
"""),
        ("thread", "start_ps"),
    ),
    Table(
        "host_gaps",
        "time between launches of a device longer than 10 us, and name of host events in it",
        columns_of("""
run_id str run
device_id int device, SparseCores and virtual devices left out
launch int number of the next launch on the device
start_ps int start of the gap: no launch is open on the device; time without an open request is left out
duration_ps int length of the gap
thread str thread that enqueued the next launch; NULL where it is not known
name str events of that thread; NULL: no event, one more than 8 levels out, or the thread is not known
level int how many events are nested in the innermost of them, one in the other: 0 to 7
events int how many of them
overlap_ps int time of the gap in which one of them is open
self_ps int time of the gap in which one of them is the innermost event; adds up to duration_ps
"""),
        ("device_id", "start_ps", "level"),
    ),
    Table(
        "counters",
        "sample of a counter",
        columns_of("""
run_id str run
device_id int device; NULL for a host's counter
name str counter
start_ps int time of the sample
value float value
"""),
        ("name", "start_ps"),
    ),
    Table(
        "issues",
        "finding about the data",
        columns_of("""
run_id str run
source str file, plane or line that it is about
severity str info, warning or error
code str stable name of the kind of finding
message str what was found, what it costs and what to try; RUN in its commands is the run, and -w is left out
count int how many events or rows it concerns
"""),
    ),
    Table(
        "coverage",
        "line of a plane",
        columns_of("""
run_id str run
source str file
plane str plane
line str line
table_name str table that its events went to
events_read int events on the line
rows_written int events that became rows, here or folded into another row
events_rejected int events that were refused; read = written + rejected
"""),
    ),
)
