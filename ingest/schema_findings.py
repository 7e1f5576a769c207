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
message str what was found, what it costs, and what to try
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
