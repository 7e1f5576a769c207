"""One colour for each axis, kind, share of time and parallelism, the same on every page and chart.

Hues are Okabe and Ito's and Paul Tol's sets for colour-blind readers, some darkened so that they contrast
with white paper and with a dark page; a test measures both. No two sets have a colour in common, but for
sets that mean the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
RESERVE_COLOURS = ("#7b5cd6", "#8c8500", "#b5443c", "#2f9e44", "#b357a8", "#5b8fb9", "#a9743a")
TIME_COLOURS = {
    "compute": "#2f7fc1",
    "exposed communication": "#e2711d",
    "exposed copy": "#6347eb",
    "sync wait": "#14a38b",
    "idle": "#a3a8b1",
}
CIRCUIT_COLOUR = "#98b020"  # waits for optical circuits, beside TIME_COLOURS
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
    "may communicate": "#8a5a2b",
}
# Why a device is idle.
CAUSE_COLOURS = {
    "device": "#a45c5c",
    "host": "#98b020",
    "imbalance": "#d838d8",
    "pipeline": "#685014",
    "unattributed": "#858b96",
    "between steps": "#2cbc5c",
}
COMPONENT_COLOURS = {
    "attention": "#2c6824",
    "mlp": "#a48cf4",
    "moe": "#c8a478",
    "embedding": "#ec8cbc",
    "head": "#c89830",
    "norm": "#685090",
    "no component": "#8d939e",
}
# Why the time of an op's steps differs between two runs.
CHANGE_COLOURS = {
    "takes longer or shorter": "#8c382c",
    "runs more or less often": "#d438f8",
    "new": "#2cbc2c",
    "gone": "#8b919c",
}
CLOCK_COLOURS = {"trace": "#1b6ca8", "host clock, mean": "#cf8a1e"}
# What the load of devices is measured by.
LOAD_COLOURS = {"compute time": "#4d7fa6", "busy time": "#b98a4a"}
# What a pipeline costs; the first is the category of the same name.
PIPELINE_COLOURS = {
    "empty microbatches": CATEGORY_COLOURS["empty microbatch"],
    "idle, other stages busy": TIME_COLOURS["idle"],
    "filling and draining": "#8a5a2b",
}
# Of a parallelism such as dp2.tp2: by its name alone, unless two names clash or there are more names.
PARALLELISM_COLOURS = (
    "#2c50bc",
    "#c8982c",
    "#2c6820",
    "#a48cf8",
    "#f88098",
    "#68508c",
    "#808c38",
    "#ec38bc",
    "#c8a474",
    "#385c44",
)
# The shape shows the batch, where the colour shows the parallelism: the smallest first.
BATCH_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "stroke")
# Worse than the baseline, the same, and better: orange mixed with blue-green is a green, which says "better".
EFFECT_RANGE = ("#b45309", "#f6e3c5", "#eceef1", "#cfe5e8", "#0f6f7f")
DIRECTION_COLOURS = {
    "takes longer": EFFECT_RANGE[0],
    "takes less": EFFECT_RANGE[-1],
    "in all": "#747a86",
}
# Of charts with one series.
SERIES_COLOUR = "#2d6f9f"
UNKNOWN_COLOUR = "#90969f"
# Few bytes to many: lightness alone carries the order, so the scale survives greyscale print.
HEAT_RANGE = ("#cfe3f3", "#7fb3dc", "#3481bd", "#13569a", "#0b3a6f")
# Text on the light and on the dark half of the heat scale.
HEAT_INK = ("#0b2036", "#ffffff")
# Axes that overlap have no window, so no place on the heat scale.
OVERLAP_COLOUR = "#6d727c"


def axis_colours(axes: Iterable[str]) -> dict[str, str]:
    """Each axis in `axes`, known ones first in the palette's order, -> its colour.

    An axis of unknown name takes a reserve colour by its name's hash, the next free one on a clash, so
    its colour does not depend on the other axes unless they clash.
    """
    names = set(axes)
    return present_colours(AXIS_COLOURS, names) | _by_hash(
        names - set(AXIS_COLOURS), RESERVE_COLOURS
    )


def parallelism_colours(site: Iterable[str], shown: Iterable[str]) -> dict[str, str]:
    """Each parallelism in `shown` -> its colour, which is the same on all pages of a site.

    The first of the site, as many as there are hues, have one of their own, sorted; the rest are grey.

    Args:
        site: the parallelisms of all runs of the site, shown or not, the most important first.
        shown: those of a chart.
    """
    present = set(shown)
    ranked = list(dict.fromkeys([*site, *sorted(present)]))
    own = _by_hash(ranked[: len(PARALLELISM_COLOURS)], PARALLELISM_COLOURS)
    rest = dict.fromkeys(ranked[len(PARALLELISM_COLOURS) :], UNKNOWN_COLOUR)
    return {name: colour for name, colour in (own | rest).items() if name in present}


def _by_hash(names: Iterable[str], hues: Sequence[str]) -> dict[str, str]:
    """Each name, sorted, -> the hue that its hash gives, or the next one that is free."""
    colours: dict[str, str] = {}
    for name in sorted(names):
        place = crc32(name.encode()) % len(hues)
        wanted = [*hues[place:], *hues[:place]]
        taken = set(colours.values())
        colours[name] = next((hue for hue in wanted if hue not in taken), wanted[0])
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
