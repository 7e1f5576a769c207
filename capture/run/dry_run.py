"""Prints memory and collectives of each experiment of a plan, and its hours, without running any."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from xlahouse.capture.compiled_facts import RefusedRun
from xlahouse.capture.errors import CaptureError
from xlahouse.capture.feasible import parts_of
from xlahouse.capture.plan import Experiment
from xlahouse.capture.run.devices import compiler_notes
from xlahouse.capture.serving import Serving, arrivals_of, buckets_of
from xlahouse.capture.slices import parse_slice
from xlahouse.capture.words import plural

if TYPE_CHECKING:
    from xlahouse.capture.compiled_facts import CompiledRun
    from xlahouse.capture.run.forecast import DeviceShare

FORECAST_PACKAGES = ("torch", "transformers")
GIB = 2**30
# Share of a chip's memory; the rest is for libtpu and programs.
USABLE = 0.95


def describe_plan(
    chosen: Sequence[Experiment],
    traces: Path,
    compiled: Callable[[Experiment], CompiledRun | RefusedRun | None] = lambda experiment: None,
) -> Iterator[str]:
    """Lines to print: names of experiments that differ in seed and repeat only, then their forecast;
    at the end the hours of the plan.

    Args:
        chosen: the experiments.
        traces: where their captures are, or will be.
        compiled: what the compiler said of an experiment, which is shown instead of an estimate.

    Raises:
        CaptureError: after all lines, if an experiment does not fit its slice.
    """
    missing = [name for name in FORECAST_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        yield from (f"{each.name}  {traces / each.cell}" for each in chosen)
        yield (
            f"a forecast of memory and collectives needs {' and '.join(missing)}: "
            "pip install 'xlahouse[capture]'"
        )
        return
    from xlahouse.capture.run.forecast import forecast
    from xlahouse.capture.run.hours import hour_lines, hours_of

    too_large = []
    for alike in _alike(chosen):
        yield from (f"{each.name}  {traces / each.cell}" for each in alike)
        share, run = forecast(alike[0]), compiled(alike[0])
        yield from _describe(alike[0], share, run)
        if (fits(alike[0], share) if run is None else compiled_fits(alike[0], run)) is False:
            too_large += [each.name for each in alike]
    yield from hour_lines(hours_of((each, forecast(each)) for each in chosen))
    if too_large:
        raise CaptureError(
            f"{', '.join(too_large)}: more than the slice's memory; shard over more devices (tp, "
            "fsdp, pp, ep), or lower batch_size, prompt_tokens or capacity_factor"
        )


def fits(experiment: Experiment, share: DeviceShare) -> bool | None:
    """Whether a device's share fits its memory; None if the plan names no slice."""
    if not experiment.slice:
        return None
    return share.total_bytes <= USABLE * parse_slice(experiment.slice).generation.hbm_gib * GIB


def compiled_fits(experiment: Experiment, run: CompiledRun | RefusedRun) -> bool:
    """Whether every compiled program fits a device of the plan's slice."""
    if isinstance(run, RefusedRun):
        return False
    most = max(program.needed_bytes for program in run.programs.values())
    return most <= parse_slice(experiment.slice).generation.hbm_gib * GIB


def _alike(chosen: Sequence[Experiment]) -> list[list[Experiment]]:
    """Groups of experiments that differ in name, seed and repeat only."""
    found: dict[bytes, list[Experiment]] = {}
    for each in chosen:
        plain = msgspec.structs.replace(each, name="x", seed=0, repeat=0)
        found.setdefault(msgspec.json.encode(plain), []).append(each)
    return list(found.values())


def _describe(
    experiment: Experiment, share: DeviceShare, run: CompiledRun | RefusedRun | None
) -> Iterator[str]:
    count = experiment.device_count
    where = f" on {experiment.slice}" if experiment.slice else ""
    yield (
        f"  {experiment.parallelism}{where}: {share.parameters:,} parameters, {experiment.dtype}, "
        f"{count} device{'' if count == 1 else 's'}"
    )
    if experiment.serving is not None:
        yield f"  {_load(experiment, experiment.serving)}"
    yield from (f"  {line}" for line in parts_of(experiment.candidate))
    if experiment.slice:
        generation = parse_slice(experiment.slice).generation
        yield from (f"  {note}" for note in compiler_notes(experiment.mesh, generation.name))
    if run is None:
        yield from _estimated(experiment, share)
    elif isinstance(run, RefusedRun):
        yield f"  libtpu {run.compiler['libtpu']} refused to compile it: {run.reason}"
    else:
        yield from _compiled(experiment, run)
    yield from _collectives(share)


def _estimated(experiment: Experiment, share: DeviceShare) -> Iterator[str]:
    unit, size = _unit(share.total_bytes)
    yield (
        f"  a device holds {share.total_bytes / size:.2f} {unit}: weights "
        f"{share.weight_bytes / size:.2f}, cache {share.cache_bytes / size:.2f}, temporary about "
        f"{share.temporary_bytes / size:.2f}{_verdict(experiment, share)}"
    )


def _compiled(experiment: Experiment, run: CompiledRun) -> Iterator[str]:
    """What each program needs of a device, by the compiler."""
    yield f"  compiled before, for {run.topology} by libtpu {run.compiler['libtpu']}; a device needs"
    for name, program in run.programs.items():
        unit, size = _unit(program.needed_bytes)
        arguments, results, temporary, code = (
            f"{part / size:.2f}"
            for part in (
                program.argument_bytes,
                program.output_bytes - program.alias_bytes,
                program.temp_bytes,
                program.generated_code_bytes,
            )
        )
        yield (
            f"    {name}: {program.needed_bytes / size:.2f} {unit}: weights, cache and inputs "
            f"{arguments}, results beside them {results}, temporary {temporary} (VMEM included), "
            f"program code {code}"
        )
    memory = parse_slice(experiment.slice).generation.hbm_gib
    yield f"    {'fits' if compiled_fits(experiment, run) else 'DOES NOT FIT'} {memory} GiB"


def _unit(total: float) -> tuple[str, float]:
    """The unit that suits a number of bytes, and its size."""
    return ("GiB", GIB) if total >= GIB / 10 else ("MiB", GIB / 1024)


def _load(experiment: Experiment, serving: Serving) -> str:
    """`serves 12 requests in 4 slots (mixed), the last after 1.2 s; …`."""
    arrivals, buckets = arrivals_of(experiment), buckets_of(experiment)
    prompts, outputs = (
        _range([getattr(each, name) for each in arrivals])
        for name in ("prompt_tokens", "output_tokens")
    )
    return (
        f"serves {plural(len(arrivals), 'request')} in {plural(experiment.batch_size, 'slot')} "
        f"({serving.policy}), the last after {arrivals[-1].at_s:.3g} s: prompts of {prompts}, outputs of "
        f"{outputs} tokens; prompts padded to {', '.join(f'{each:,}' for each in buckets)}; at most "
        f"{plural(serving.profiled_steps, 'step')}"
    )


def _range(lengths: Sequence[int]) -> str:
    least, most = min(lengths), max(lengths)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _verdict(experiment: Experiment, share: DeviceShare) -> str:
    fit = fits(experiment, share)
    if fit is None:
        return ""
    generation = parse_slice(experiment.slice).generation
    return f"; {'fits' if fit else 'DOES NOT FIT'} {USABLE:.0%} of {generation.hbm_gib} GiB"


def _collectives(share: DeviceShare) -> Iterator[str]:
    """A table of a device's collectives in each kind of step."""
    rows = [
        (step, each.kind, each.axis, f"{count:,}", f"{each.payload_bytes:,}")
        for step, found in (("prefill", share.prefill), ("decode", share.decode))
        for each, count in sorted(found.items(), key=lambda item: (item[0].kind, item[0].axis))
    ]
    if not rows:
        yield "  no collectives"
        return
    header = ("step", "collective", "axis", "count", "payload bytes")
    widths = [max(len(row[place]) for row in (header, *rows)) for place in range(len(header))]
    for row in (header, *rows):
        words = [cell.ljust(width) for cell, width in zip(row[:3], widths[:3], strict=True)]
        numbers = [cell.rjust(width) for cell, width in zip(row[3:], widths[3:], strict=True)]
        yield "    " + "  ".join([*words, *numbers])
