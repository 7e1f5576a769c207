"""Requests of a serving experiment: when they arrive, and how long their prompts and outputs are."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.capture.errors import CaptureError, ManifestError
from xlahouse.capture.limits import exceeded, most
from xlahouse.capture.opening import read_regular
from xlahouse.capture.slices import parse_slice

if TYPE_CHECKING:
    from xlahouse.capture.plan import Experiment

SHORTEST_BUCKET = 16  # tokens, of the padded lengths that a plan does not name
FileName = Annotated[str, msgspec.Meta(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$")]  # or none
AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


class Arrival(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request: a line of a file of arrivals, or an item of a plan's list."""

    at_s: Annotated[float, msgspec.Meta(ge=0, le=1e6)]  # seconds after the server starts
    prompt_tokens: AtLeastOne  # of its prompt
    output_tokens: AtLeastOne  # that it generates; the prefill gives the first


class Serving(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a server's requests arrive, and how it schedules them."""

    # arrivals in a second, on average, at times drawn from `seed`; or `file`, or `arrivals`
    poisson_per_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    # JSON lines beside the plan, one request per line; only the first `requests` of them, where the plan
    # states a number
    file: FileName = ""
    arrivals: tuple[Arrival, ...] = ()  # the same as a list, by time
    # with `poisson_per_s`: prompts have at least this many tokens; null: all have `prompt_tokens`
    shortest_prompt: AtLeastOne | None = None
    # the same for outputs and `output_tokens`
    shortest_output: AtLeastOne | None = None
    # padded lengths of prompts, one program per length; without it 16, 32, 64, … and `prompt_tokens`
    buckets: tuple[AtLeastOne, ...] = ()
    # `mixed`: a step decodes, and prefills requests that have arrived; `prefill_first`: decodes wait
    # meanwhile
    policy: Literal["mixed", "prefill_first"] = "mixed"
    profiled_steps: AtLeastOne = 64  # steps of the server, after which it stops


def with_arrivals(experiment: Experiment, folder: Path, counted: bool) -> Experiment:
    """The experiment with its arrivals as a list, where a file or the plan has them.

    Args:
        experiment: from a plan, as written there.
        folder: of the plan.
        counted: whether the plan states `requests`; otherwise all that are listed arrive.

    Raises:
        ManifestError: starts with the wrong field.
    """
    serving = experiment.serving
    if serving is None:
        return experiment
    given = (serving.poisson_per_s is not None, bool(serving.file), bool(serving.arrivals))
    if sum(given) != 1:
        raise ManifestError("serving: give one of poisson_per_s, file and arrivals")
    if serving.poisson_per_s is not None:
        return experiment
    listed = _read(folder / serving.file) if serving.file else serving.arrivals
    count = experiment.requests if counted else len(listed)
    if len(listed) < count:
        raise ManifestError(
            f"requests: {count:,}, but {serving.file or 'serving.arrivals'} has {len(listed):,}; lower it"
        )
    kept = msgspec.structs.replace(serving, arrivals=tuple(listed[:count]))
    return msgspec.structs.replace(experiment, serving=kept, requests=count)


def _read(path: Path) -> list[Arrival]:
    """The lines of a file of arrivals."""
    try:
        lines = read_regular(path).decode().splitlines()
    except OSError as error:
        raise ManifestError(
            f"serving: {path}: {error.strerror}; put the file beside the plan"
        ) from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"serving: {path}: not UTF-8 text; write JSON lines") from error
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(msgspec.json.decode(line, type=Arrival))
        except JSON_FAULTS as error:
            raise ManifestError(f"serving: {path}, line {number}: {error}") from error
    if not found:
        raise ManifestError(
            f'serving: {path}: no request; write lines such as {{"at_s": 0.5, "prompt_tokens": 12, '
            '"output_tokens": 8}'
        )
    return found


def arrivals_of(experiment: Experiment) -> list[Arrival]:
    """The requests of a serving experiment, by time: as listed, or drawn from its seed."""
    serving = experiment.serving
    assert serving is not None
    if serving.poisson_per_s is None:
        return list(serving.arrivals)
    drawn, now, found = random.Random(experiment.seed), 0.0, []
    for _ in range(experiment.requests):
        now += drawn.expovariate(serving.poisson_per_s)
        found.append(
            Arrival(
                at_s=now,
                prompt_tokens=_between(drawn, serving.shortest_prompt, experiment.prompt_tokens),
                output_tokens=_between(drawn, serving.shortest_output, experiment.output_tokens),
            )
        )
    return found


def _between(drawn: random.Random, least: int | None, largest: int) -> int:
    return largest if least is None else drawn.randint(least, largest)


def buckets_of(experiment: Experiment) -> list[int]:
    """The padded lengths of prompts, ascending; under sp each is a multiple of it."""
    serving = experiment.serving
    assert serving is not None
    if serving.buckets:
        return sorted(set(serving.buckets))
    longest, split = experiment.prompt_tokens, experiment.mesh.get("sp", 1)
    found, length = [longest], SHORTEST_BUCKET
    while length < longest:
        found.append(min(-(-length // split) * split, longest))
        length *= 2
    return sorted(set(found))


def check_serving(experiment: Experiment) -> None:
    """Refuse a serving experiment that cannot run; nothing for other experiments.

    Raises:
        ManifestError: starts with the wrong field and says what to try.
    """
    if experiment.serving is None:
        return
    _check_model(experiment)
    _check_lengths(experiment)
    _check_buckets(experiment)


def _check_model(experiment: Experiment) -> None:
    family = experiment.model.family
    if family == "deepseek_v4":
        raise ManifestError(
            f"model: {family} compresses its cache over a whole sequence, and its slots cannot be at "
            "different positions; serve another model"
        )
    if experiment.mesh.get("pp", 1) > 1:
        raise ManifestError("mesh: a server runs no pipeline; remove pp, or serving")
    if experiment.capacity_factor is not None:
        raise ManifestError(
            "capacity_factor: tokens that experts drop would depend on the other requests; remove it, or "
            "serving"
        )
    try:
        hosts = parse_slice(experiment.slice).hosts if experiment.slice else 1
    except CaptureError as error:
        raise ManifestError(f"slice: {error}") from error
    if hosts > 1:
        raise ManifestError(
            f"slice: {experiment.slice} has {hosts} hosts, which would schedule by clocks of their own; "
            "serve on a slice of one host"
        )


def _check_lengths(experiment: Experiment) -> None:
    serving = experiment.serving
    assert serving is not None
    if experiment.requests > most("requests"):
        raise ManifestError(f"requests: {experiment.requests:,} are {exceeded('requests')}")
    if serving.poisson_per_s is None and (serving.shortest_prompt or serving.shortest_output):
        raise ManifestError(
            "serving: shortest_prompt and shortest_output are for poisson_per_s; remove them"
        )
    for key, least, largest in (
        ("prompt", serving.shortest_prompt, experiment.prompt_tokens),
        ("output", serving.shortest_output, experiment.output_tokens),
    ):
        if least is not None and least > largest:
            raise ManifestError(
                f"serving: shortest_{key} {least} is above {key}_tokens {largest}; lower it"
            )
        lengths = [getattr(each, f"{key}_tokens") for each in serving.arrivals]
        long = next((place for place, length in enumerate(lengths) if length > largest), None)
        if long is not None:
            raise ManifestError(
                f"{key}_tokens: {largest}, but request {long} has {lengths[long]}; raise it"
            )
    for place, (before, after) in enumerate(pairwise(serving.arrivals), 1):
        if after.at_s < before.at_s:
            raise ManifestError(f"serving: request {place} arrives before request {place - 1}")


def _check_buckets(experiment: Experiment) -> None:
    buckets, split = buckets_of(experiment), experiment.mesh.get("sp", 1)
    if buckets[-1] < experiment.prompt_tokens:
        raise ManifestError(
            f"serving: buckets end with {buckets[-1]}, below prompt_tokens {experiment.prompt_tokens}; "
            "add a larger one"
        )
    length = experiment.prompt_tokens + experiment.output_tokens
    if buckets[-1] > length:
        raise ManifestError(
            f"serving: bucket {buckets[-1]} is longer than a slot, which has prompt_tokens and "
            f"output_tokens: {length}; lower it"
        )
    odd = [each for each in buckets if each % split]
    if odd:
        raise ManifestError(f"serving: bucket {odd[0]} is not a multiple of sp={split}")
