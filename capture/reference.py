"""The unsharded model's tokens, that every sharded capture is held to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xlahouse.capture.errors import CaptureError

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.plan import Experiment


def draw_prompts(experiment: Experiment) -> list[torch.Tensor]:
    """Random token ids, [batch, prompt_tokens], for each profiled request."""
    import torch

    generator = torch.Generator().manual_seed(experiment.seed)
    shape = (experiment.batch_size, experiment.prompt_tokens)
    vocabulary = experiment.model.sizes.vocab_size
    return [
        torch.randint(vocabulary, shape, generator=generator) for _ in range(experiment.requests)
    ]


def generate_unsharded(model: Any, prompt: torch.Tensor, experiment: Experiment) -> torch.Tensor:
    """What transformers' own greedy generation on the host gives: [batch, output_tokens].

    It shares weights with the capture and nothing else: its attention, cache and loop are its own.
    """
    import torch

    count = experiment.output_tokens
    with torch.no_grad():
        tokens: torch.Tensor = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
        )
    return tokens[:, prompt.shape[1] :]


def compare_tokens(
    sharded: list[torch.Tensor], unsharded: list[torch.Tensor], dtype: str
) -> list[str]:
    """One line for each request, [batch, output_tokens] each, whose tokens differ.

    Raises:
        CaptureError: they differ in float32. In bfloat16 rounding may decide between two tokens.
    """
    differences = []
    for request, (got, want) in enumerate(zip(sharded, unsharded, strict=True)):
        wrong = (got != want).nonzero().tolist()
        if wrong:
            sequence, step = wrong[0]
            differences.append(
                f"request {request}, sequence {sequence}, step {step}: the sharded model gives "
                f"token {int(got[sequence, step])}, the unsharded one {int(want[sequence, step])}"
            )
    if differences and dtype == "float32":
        raise CaptureError(f"{differences[0]}; the sharding changes the result, mend its table")
    return differences
