"""Colours: the same everywhere, visible on both papers, apart for colour-blind readers."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from xlahouse.reports.charts.palette import (
    AXIS_COLOURS,
    CATEGORY_COLOURS,
    CAUSE_COLOURS,
    CHANGE_COLOURS,
    CLOCK_COLOURS,
    COMPONENT_COLOURS,
    DIRECTION_COLOURS,
    HEAT_RANGE,
    KIND_COLOURS,
    LOAD_COLOURS,
    PARALLELISM_COLOURS,
    PIPELINE_COLOURS,
    RESERVE_COLOURS,
    SERIES_COLOUR,
    TIME_COLOURS,
    UNKNOWN_COLOUR,
    axis_colours,
    kind_colours,
    parallelism_colours,
)

PAPERS = ("#ffffff", "#12181f")  # style.css, light and dark
# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
VISION = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}
ALL = {
    "kinds": list(KIND_COLOURS.values()),
    "time": list(TIME_COLOURS.values()),
    "axes": [AXIS_COLOURS[axis] for axis in ("tp", "dp", "pp", "ep", "sp", "fsdp")],
    "clocks": list(CLOCK_COLOURS.values()),
    "categories": list(CATEGORY_COLOURS.values()),
    "causes": list(CAUSE_COLOURS.values()),
    "components": list(COMPONENT_COLOURS.values()),
    "parallelisms": list(PARALLELISM_COLOURS),
    "changes": list(CHANGE_COLOURS.values()),
    "directions": list(DIRECTION_COLOURS.values()),
    "loads": list(LOAD_COLOURS.values()),
    "pipeline": list(PIPELINE_COLOURS.values()),
}


def linear(colour):
    """sRGB -> linear RGB."""
    values = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]


def luminance(colour):
    return sum(
        weight * v for weight, v in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True)
    )


def contrast(one, other):
    """WCAG 2's ratio."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def lab(colour, vision):
    """CIE L*a*b* (D65) of a colour as someone with that vision sees it."""
    rgb = [sum(m * v for m, v in zip(row, linear(colour), strict=True)) for row in VISION[vision]]
    rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    xyz = [sum(m * v for m, v in zip(row, rgb, strict=True)) for row in rows]
    scaled = [v / white for v, white in zip(xyz, (0.9505, 1.0, 1.089), strict=True)]
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in scaled)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(one, other, vision):
    pairs = zip(lab(one, vision), lab(other, vision), strict=True)
    return sum((a - b) ** 2 for a, b in pairs) ** 0.5


@pytest.mark.parametrize("colours", ALL.values(), ids=ALL)
def test_every_colour_holds_against_light_and_dark_paper(colours):
    worst = min(contrast(colour, paper) for colour in colours for paper in PAPERS)
    assert worst > 2


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("colours", ALL.values(), ids=ALL)
def test_no_two_colours_of_a_set_look_alike(colours, vision):
    # 2.3 is just noticeable; 8 distinguishes two areas that do not touch.
    worst = min((distance(a, b, vision), a, b) for a, b in combinations(colours, 2))
    assert worst[0] > 8, worst


def test_no_set_borrows_a_colour_of_another():
    sets = (KIND_COLOURS, AXIS_COLOURS, TIME_COLOURS, CAUSE_COLOURS, COMPONENT_COLOURS)
    sets += (
        DIRECTION_COLOURS,
        CHANGE_COLOURS,
        CLOCK_COLOURS,
        LOAD_COLOURS,
        {"series": SERIES_COLOUR},
    )
    sets += ({"unknown": UNKNOWN_COLOUR}, {hue: hue for hue in PARALLELISM_COLOURS})
    sets += ({hue: hue for hue in RESERVE_COLOURS},)
    names: dict[str, str] = {}
    for colours in sets:
        for name, colour in colours.items():
            assert colour not in names, (name, names.get(colour))
            names[colour] = name
    for colours in (CATEGORY_COLOURS, PIPELINE_COLOURS):  # parts of the time, by other words
        own = set(colours.values()) - set(TIME_COLOURS.values())
        assert not own & set(names)


def test_a_parallelism_keeps_its_colour_on_all_pages_of_a_site():
    site = ["tp4", "dp2.tp2", "pp4", "ep4"]
    alone = [parallelism_colours(site, [name])[name] for name in site]
    assert parallelism_colours(site, site) == dict(
        zip(sorted(site), sorted_by(site, alone), strict=True)
    )
    assert len(set(alone)) == len(site)
    names = [f"mesh{k}" for k in range(len(PARALLELISM_COLOURS))]
    assert len(set(parallelism_colours(names, names).values())) == len(names)


def test_no_two_parallelisms_share_a_colour_but_grey():
    """Twelve for ten hues: the last two of the site are grey, whichever are shown."""
    names = [f"mesh{k:02}" for k in range(len(PARALLELISM_COLOURS) + 2)]
    site = [*names[2:], names[5], *names[:2]]
    colours = parallelism_colours(site, names)
    assert {name for name in names if colours[name] == UNKNOWN_COLOUR} == {"mesh00", "mesh01"}
    assert sorted(colours[name] for name in names[2:]) == sorted(PARALLELISM_COLOURS)
    assert parallelism_colours(site, ["mesh01"]) == {"mesh01": UNKNOWN_COLOUR}
    assert list(colours)[-2:] == ["mesh00", "mesh01"]


def sorted_by(names, colours):
    return [colour for _, colour in sorted(zip(names, colours, strict=True))]


def test_the_heat_scale_darkens_all_the_way():
    assert all(luminance(light) > luminance(dark) for light, dark in pairwise(HEAT_RANGE))


def test_an_axis_keeps_its_colour_whatever_else_is_drawn():
    alone = axis_colours(["stage"])["stage"]
    assert axis_colours(["tp", "stage", "dp"])["stage"] == alone
    assert axis_colours(["tp"])["tp"] == axis_colours(["dp", "tp"])["tp"] == AXIS_COLOURS["tp"]


def test_axes_of_unknown_names_differ_while_colours_last():
    names = [f"axis_{k}" for k in range(len(RESERVE_COLOURS))]
    assert len(set(axis_colours(names).values())) == len(names)
    assert len(axis_colours([*names, "one_more"])) == len(names) + 1


def test_kinds_stand_in_the_palettes_order_and_unknown_ones_last():
    assert list(kind_colours(["new-kind", "all-gather", "all-reduce"])) == [
        "all-reduce",
        "all-gather",
        "new-kind",
    ]
