"""Which devices of many a chart shows, by devices whose times fit in a head."""

from __future__ import annotations

import polars as pl

from xlahouse.reports.charts.devices import chosen_devices, device_axis, device_keys
from xlahouse.reports.charts.facts import PageFacts

TIME = pl.col("time").sum()


def facts(host_of, stage_of=lambda device: None, count=20):
    places = [{"device_id": k, "host": host_of(k), "stage": stage_of(k)} for k in range(count)]
    return PageFacts("r", "r", {"places": places}, "w")


def rows(times):
    """Two rows a device: its time is their sum."""
    return pl.DataFrame(
        [{"device_id": k, "time": part} for k, time in enumerate(times) for part in (1, time - 1)]
    )


def chosen(times, of):
    kept, note = chosen_devices(rows(times), of, TIME, lambda value: f"{value:g}")
    return kept.unique(device_keys(kept), maintain_order=True), note


def test_few_devices_are_all_shown():
    few = rows([5] * 16)
    kept, note = chosen_devices(few, facts(lambda k: "a"), TIME, str)
    assert kept.equals(few)
    assert note == ""
    assert device_axis(kept).to_dict()["field"] == "device_id"


def test_of_many_the_worst_three_and_each_groups_median_are_shown():
    # Hosts a (0 to 9: 10, 11, … 19) and b (10 to 19: 20, but 18 has 90, 19 has 40).
    times = [10 + k for k in range(10)] + [20] * 8 + [90, 40]
    kept, note = chosen(times, facts(lambda k: "a" if k < 10 else "b"))
    assert kept.select("device_id", "shown").rows() == [
        (18, "device 18, host b"),
        (19, "device 19, host b"),
        (17, "device 17, host b"),  # of those with 20 the last by number
        (4, "host a: 10 to 19"),  # of ten the fifth
        (14, "host b: 20 to 90"),
    ]
    assert note == (
        " The 3 worst of 20 devices; below them each group's median device, beside the group's range."
    )
    assert device_axis(kept).to_dict()["sort"][0] == "device 18, host b"


def test_stages_come_before_hosts_and_one_group_is_all_devices():
    times = list(range(2, 22))
    staged, _ = chosen(times, facts(lambda k: f"h{k}", lambda k: k // 10))
    assert staged["shown"].to_list()[-2:] == ["stage 0: 2 to 11", "stage 1: 12 to 21"]
    alone, _ = chosen(times, facts(lambda k: "a"))
    assert alone["shown"].to_list() == [
        "device 19, all devices",
        "device 18, all devices",
        "device 17, all devices",
        "all devices: 2 to 21",
    ]


def test_a_device_may_be_the_worst_and_the_median_of_its_group():
    times = [5] * 19 + [50]
    kept, _ = chosen(times, facts(lambda k: "a" if k < 19 else "b"))
    assert kept["shown"][0] == "device 19, host b; host b: 50"
    assert len(kept) == 4


def test_of_many_groups_those_with_the_most_are_shown():
    times = [2 + k for k in range(60)]
    kept, note = chosen(times, facts(lambda k: f"h{k // 2}", count=60))
    assert "(6 groups with less are left out)" in note
    assert [name.partition(":")[0] for name in kept["shown"]][3] == "host h6"
