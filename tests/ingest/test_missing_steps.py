"""Steps that ran and did not arrive: counted by device, listed by request."""

from __future__ import annotations

import msgspec
import polars as pl

from tests.capture.test_manifest import MANIFEST
from xlahouse.capture.manifest import RequestTiming, ServerLog, ServerStep
from xlahouse.ingest.missing_steps import missing_steps

# Two requests: a prefill and 4 decode steps, a prefill and 2.
RAN = msgspec.structs.replace(
    MANIFEST,
    requests=[
        RequestTiming(request=0, ttft_s=1.0, step_s=[1.0] * 4),
        RequestTiming(request=1, ttft_s=1.0, step_s=[1.0] * 2),
    ],
)
STEPS = [(0, step) for step in range(5)] + [(1, step) for step in range(3)]


def launches(*rows):
    """Launches of (device, request, step)."""
    schema = {"device_id": pl.Int64, "request": pl.Int32, "step": pl.Int32}
    return pl.DataFrame(rows, schema, orient="row")


def test_nothing_is_said_where_every_step_arrived_on_every_device():
    whole = launches(*((device, *step) for device in (0, 1) for step in STEPS))
    assert missing_steps(RAN, [whole], "run") == []
    # launches outside steps, such as a program that the runtime adds, do not count
    assert missing_steps(RAN, [pl.concat([whole, launches((0, None, None))])], "run") == []


def test_what_a_full_buffer_cut_is_listed_by_request():
    """Device 1 lacks the last two steps of request 0 and all of request 1; device 0 lacks 0 / 1."""
    rows = [(0, *step) for step in STEPS if step != (0, 1)]
    rows += [(1, 0, step) for step in (0, 1, 2)]
    (issue,) = missing_steps(RAN, [launches(*rows)], "run")
    assert (issue.code, issue.severity, issue.count) == ("steps_missing", "warning", 6)
    assert issue.message.startswith(
        "2 of 8 steps arrived on all 2 devices; missing are request 0: steps 1, 3 to 4; "
        "request 1: steps 0 to 2; "
    )


def test_devices_of_several_worlds_are_several():
    one = launches(*((0, *step) for step in STEPS))
    assert missing_steps(RAN, [one, one], "run") == []
    (issue,) = missing_steps(RAN, [one, one[:-1]], "run")
    assert "7 of 8 steps arrived on all 2 devices; missing are request 1: step 2;" in issue.message


def test_steps_of_a_server_are_of_no_request():
    """Four steps; step 1 ran two launches, and device 1 lacks step 3."""
    steps = [ServerStep(decodes=[0], prefills=[])] * 4
    log = ServerLog(
        policy="mixed",
        slots=1,
        prefill_slots=1,
        buckets=[4],
        arrived=1,
        served=1,
        requests=[],
        steps=steps,
    )
    ran = msgspec.structs.replace(MANIFEST, requests=[], server=log)
    rows = [(device, None, step) for device in (0, 1) for step in (0, 1, 1, 2, 3)]
    assert missing_steps(ran, [launches(*rows)], "run") == []
    (issue,) = missing_steps(ran, [launches(*rows[:-1])], "run")
    assert issue.message.startswith("3 of 4 steps arrived on all 2 devices; missing are step 3; ")
    # a launch that the runtime adds, outside steps, is not a step
    assert missing_steps(ran, [launches(*rows, (0, None, None))], "run") == []


def test_without_a_manifest_or_launches_there_is_no_such_finding():
    assert missing_steps(None, [launches((0, 0, 0))], "run") == []
    assert missing_steps(RAN, [launches()], "run") == []
    assert missing_steps(RAN, [], "run") == []
