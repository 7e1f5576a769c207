"""One colour for each axis, kind and share of time, the same on every page and chart.

Hues are Okabe and Ito's and Paul Tol's sets for colour-blind readers, some darkened so that they contrast
with white paper and with a dark page; a test measures both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from zlib import crc32

KIND_COLOURS = {
    "all-reduce": "#0072b2",
    "all-gather": "#d98c00",
    "reduce-scatter": "#009e73",
    "all-to-all": "#d55e00",
    "ragged-all-to-all": "#a0522d",
    "collective-permute": "#3fa9dd",
    "collective-broadcast": "#cc79a7",
    "send-recv": "#5f6670",
}
# Where the colour shows the axis, the shape shows the kind.
KIND_SHAPES = {
    "all-reduce": "circle",
    "all-gather": "square",
    "reduce-scatter": "triangle-up",
    "all-to-all": "diamond",
    "ragged-all-to-all": "triangle-left",
    "collective-permute": "cross",
    "collective-broadcast": "triangle-down",
    "send-recv": "triangle-right",
}
AXIS_COLOURS = {
    "tp": "#0077bb",
    "dp": "#ee7733",
    "pp": "#009988",
    "ep": "#ee3377",
    "sp": "#33a9d6",
    "fsdp": "#aa4499",
    "none": "#b8bcc4",
    "mixed": "#70757f",
    "unclassified": "#8f95a0",
}
# For axes with names of their own and for sums such as dp+tp.
RESERVE_COLOURS = ("#7b5cd6", "#8c8500", "#b5443c", "#2f9e44", "#c2569b", "#5b8fb9", "#a9743a")
TIME_COLOURS = {
    "compute": "#2f7fc1",
    "exposed communication": "#e2711d",
    "exposed copy": "#6347eb",
    "sync wait": "#14a38b",
    "idle": "#a3a8b1",
}
# What a step of a server does.
PHASE_COLOURS = {
    "prefill": KIND_COLOURS["all-gather"],
    "decode": KIND_COLOURS["all-reduce"],
    "mixed": KIND_COLOURS["collective-broadcast"],
    "step": KIND_COLOURS["send-recv"],
}
LIMIT_COLOUR = KIND_COLOURS["all-to-all"]  # a line that values should not pass
# What an op does; the same hues as the share of time that it makes.
CATEGORY_COLOURS = {
    "compute": TIME_COLOURS["compute"],
    "collective": TIME_COLOURS["exposed communication"],
    "copy": TIME_COLOURS["exposed copy"],
    "wait": TIME_COLOURS["sync wait"],
    "control": TIME_COLOURS["idle"],
    "empty microbatch": "#c2569b",
}
# Why a device is idle.
CAUSE_COLOURS = {
    "device": "#2f7fc1",
    "host": "#e2711d",
    "imbalance": "#aa4499",
    "pipeline": "#ee3377",
    "unattributed": "#8f95a0",
    "between steps": "#8c8500",
}
COMPONENT_COLOURS = {
    "attention": "#0072b2",
    "mlp": "#d98c00",
    "moe": "#d55e00",
    "embedding": "#009e73",
    "head": "#7b5cd6",
    "norm": "#3fa9dd",
    "no component": "#8f95a0",
}
# Why the time of an op's steps differs between two runs.
CHANGE_COLOURS = {
    "takes longer or shorter": "#0072b2",
    "runs more or less often": "#d98c00",
    "new": "#7b5cd6",
    "gone": "#8f95a0",
}
CLOCK_COLOURS = {"trace": "#0072b2", "host clock, mean": "#d98c00"}
# Of charts with one series.
SERIES_COLOUR = KIND_COLOURS["all-reduce"]
UNKNOWN_COLOUR = "#8f95a0"
# Few bytes to many: lightness alone carries the order, so the scale survives greyscale print.
HEAT_RANGE = ("#cfe3f3", "#7fb3dc", "#3481bd", "#13569a", "#0b3a6f")
# Text on the light and on the dark half of the heat scale.
HEAT_INK = ("#0b2036", "#ffffff")
# Axes that overlap have no window, so no place on the heat scale.
OVERLAP_COLOUR = "#70757f"


def axis_colours(axes: Iterable[str]) -> dict[str, str]:
    """Each axis in `axes`, known ones first in the palette's order, -> its colour.

    An axis of unknown name takes a reserve colour by its name's hash, the next free one on a clash, so
    its colour does not depend on the other axes unless they clash.
    """
    names = set(axes)
    colours = present_colours(AXIS_COLOURS, names)
    free = list(RESERVE_COLOURS)
    for name in sorted(names - set(AXIS_COLOURS)):
        place = crc32(name.encode()) % len(RESERVE_COLOURS)
        wanted = [
            RESERVE_COLOURS[(place + k) % len(RESERVE_COLOURS)] for k in range(len(RESERVE_COLOURS))
        ]
        colours[name] = next((colour for colour in wanted if colour in free), wanted[0])
        if colours[name] in free:
            free.remove(colours[name])
    return colours


def present_colours(colours: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The entries of `colours` whose name is in `names`, in the order of `colours`."""
    present = set(names)
    return {name: colour for name, colour in colours.items() if name in present}


def kind_colours(kinds: Iterable[str]) -> dict[str, str]:
    """Each kind in `kinds`, in the palette's order, -> its colour; unknown kinds share grey."""
    names = set(kinds)
    known = present_colours(KIND_COLOURS, names)
    return known | dict.fromkeys(sorted(names - set(KIND_COLOURS)), UNKNOWN_COLOUR)


def kind_shapes(kinds: Iterable[str]) -> dict[str, str]:
    """Each kind in `kinds`, in the palette's order, -> its shape; unknown kinds share a stroke."""
    names = set(kinds)
    known = present_colours(KIND_SHAPES, names)
    return known | dict.fromkeys(sorted(names - set(KIND_SHAPES)), "stroke")


def category_colours(categories: Iterable[str]) -> dict[str, str]:
    """Each of the ops' categories that is there, in the palette's order, -> its colour."""
    return present_colours(CATEGORY_COLOURS, categories)


def label_colours(labels: Iterable[str]) -> dict[str, str]:
    """Each label, sorted, -> a colour; after fifteen labels colours repeat."""
    hues = [*KIND_COLOURS.values(), *RESERVE_COLOURS]
    return {label: hues[k % len(hues)] for k, label in enumerate(sorted(set(labels)))}
