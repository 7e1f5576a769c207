"""Compares the tokens of a capture with the unsharded model's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from xlahouse.capture.errors import CaptureError
from xlahouse.capture.models.decode import ELSEWHERE
from xlahouse.capture.models.families import FAMILIES
from xlahouse.capture.models.presets import size_of
from xlahouse.capture.models.weights import fill_on_host
from xlahouse.capture.run.job import say
from xlahouse.capture.run.sources import OpenedWeights
from xlahouse.capture.serving import arrivals_of

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models.modules import CausalModel
    from xlahouse.capture.plan import Experiment

# In bfloat16 (8 bits of mantissa) another order of summation changes logits by 1 to 4 % of their
# standard deviation after a few layers; a wrong sharding changes them by about 100 %.
LOGITS_TOLERANCE = 0.1


def draw_prompts(experiment: Experiment) -> list[torch.Tensor]:
    """Random token ids for each profiled request: [batch, prompt_tokens], or [1, its own] of a server."""
    import torch

    generator = torch.Generator().manual_seed(experiment.seed)
    shapes = [(experiment.batch_size, experiment.prompt_tokens)] * experiment.requests
    if experiment.serving is not None:
        shapes = [(1, each.prompt_tokens) for each in arrivals_of(experiment)]
    vocabulary = size_of(experiment.model.sizes, "vocab_size")
    return [torch.randint(vocabulary, shape, generator=generator) for shape in shapes]


def generate_unsharded(model: CausalModel, prompt: torch.Tensor, count: int) -> torch.Tensor:
    """`count` tokens of transformers' own greedy generation on the host: [batch, count].

    It shares only weights with the capture; attention, cache and loop are transformers' own.
    """
    import torch

    with torch.no_grad():
        # A capture decodes past the end of a text, and may choose its token.
        model.generation_config.eos_token_id = None
        tokens = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=count,
            do_sample=False,
        )
    return tokens[:, prompt.shape[1] :]


def unsharded_logits(model: CausalModel, prompt: torch.Tensor) -> torch.Tensor:
    """The unsharded model's logits after the prompt: [batch, vocab]."""
    import torch

    with torch.no_grad():
        return model(prompt, logits_to_keep=1).logits[:, -1]


def logits_difference(
    sharded: torch.Tensor, unsharded: torch.Tensor, experts: bool = False
) -> float:
    """Difference of logits [batch, vocab]: the root mean square over the vocabulary, in standard
    deviations of the unsharded logits, of the sequence with the largest difference.

    With experts it is that of the median sequence (the upper one of two): with any order of
    summation, rounding in the router sends some tokens to another expert.

    Raises:
        CaptureError: it is above LOGITS_TOLERANCE.
    """
    here = (sharded != ELSEWHERE).any(-1)
    sharded, want = sharded[here], unsharded[here].float()
    apart = ((sharded.float() - want).square().mean(-1).sqrt() / want.std()).sort().values
    difference = float(apart[len(apart) // 2 if experts else -1])
    if not difference <= LOGITS_TOLERANCE:
        raise CaptureError(
            f"logits after the prompt are {difference:.3g} standard deviations from the unsharded "
            f"model's, more than {LOGITS_TOLERANCE}; the sharding changes the result: correct its table"
        )
    return difference


def compare_tokens(
    sharded: list[torch.Tensor], unsharded: list[torch.Tensor], exact: bool
) -> list[str]:
    """One line for each request, [batch, tokens] each, whose tokens differ.

    Raises:
        CaptureError: they differ although `exact`. In bfloat16 rounding may decide between two
            tokens, and full experts drop some, so these are not exact.
    """
    differences = []
    for request, (got, want) in enumerate(zip(sharded, unsharded, strict=True)):
        wrong = ((got != want) & (got != ELSEWHERE)).nonzero().tolist()
        if wrong:
            sequence, step = wrong[0]
            differences.append(
                f"request {request}, sequence {sequence}, step {step}: the sharded model gives "
                f"token {int(got[sequence, step])}, the unsharded one {int(want[sequence, step])}"
            )
    if differences and exact:
        raise CaptureError(f"{differences[0]}; the sharding changes the result: correct its table")
    return differences


@dataclass(frozen=True)
class OutputComparison:
    """Differences of the sharded from the unsharded model; all None: not compared."""

    differences: list[str] | None = None  # one line for each request whose tokens differ
    logits: float | None = None  # see Manifest.logits_difference


class Unsharded(NamedTuple):
    """Output of the unsharded model."""

    tokens: list[torch.Tensor]  # [batch, tokens] for each request
    logits: torch.Tensor  # [batch, vocab] after the first prompt


def run_unsharded(
    opened: OpenedWeights, prompts: list[torch.Tensor], counts: list[int]
) -> Unsharded:
    """Run the unsharded model on the host for each prompt, for as many tokens as `counts` has."""
    say("progress", "generating with the unsharded model")
    model = fill_on_host(opened.skeleton(), opened.source, opened.experiment.dtype)
    return Unsharded(
        tokens=[
            generate_unsharded(model, prompt, count)
            for prompt, count in zip(prompts, counts, strict=True)
        ],
        logits=unsharded_logits(model, prompts[0]),
    )


def compare(
    experiment: Experiment,
    tokens: list[torch.Tensor],
    unsharded: Unsharded | None,
    first_logits: Callable[[], torch.Tensor],
) -> OutputComparison:
    """Compare the profiled requests with the unsharded model.

    Args:
        experiment: that ran.
        tokens: [batch, tokens] of each request.
        unsharded: the same of the unsharded model; None: not compared.
        first_logits: computes the sharded model's logits after the first prompt, [batch, vocab].

    Raises:
        CaptureError: tokens differ in float32 with no token dropped, or logits in bfloat16.
    """

    if unsharded is None or bool((tokens[0] == ELSEWHERE).all()):
        return OutputComparison()
    dropless = experiment.capacity_factor is None
    exact = dropless and experiment.dtype == "float32"
    differences = compare_tokens(tokens, unsharded.tokens, exact)
    if exact or not dropless:
        return OutputComparison(differences)
    experts = FAMILIES[experiment.model.family].experts
    return OutputComparison(
        differences, logits_difference(first_logits(), unsharded.logits, experts)
    )
