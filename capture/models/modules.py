"""Types of transformers' models: the attributes and methods that capture uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch


class TransformersConfig(Protocol):
    """A model's configuration object."""

    num_hidden_layers: int  # decoder layers
    hidden_size: int  # width of a token's activations
    num_attention_heads: int  # query heads
    num_key_value_heads: int  # heads of keys and values
    head_dim: int  # qwen3, deepseek_v4
    kv_lora_rank: int  # deepseek_v2, deepseek_v3
    qk_rope_head_dim: int  # deepseek_v2, deepseek_v3, deepseek_v4
    layer_types: Sequence[str]  # deepseek_v4: the kind of each layer's attention
    index_head_dim: int  # deepseek_v4
    sliding_window: int  # deepseek_v4, in tokens


class Rotary(Protocol):
    """A rotary embedding."""

    inv_freq: torch.Tensor  # [pairs]
    attention_scaling: float  # factor of cosine and sine
    forward: Callable[[torch.Tensor, torch.Tensor], object]  # replaced for deepseek_v2

    def __call__(self, hidden: torch.Tensor, positions: torch.Tensor) -> object:
        """Cosine and sine of positions [batch, tokens], in the form that the model's layers take."""
        ...


class Decoder(Protocol):
    """A model without its head."""

    embed_tokens: torch.nn.Module  # [batch, tokens] -> [batch, tokens, hidden]
    layers: Sequence[torch.nn.Module]  # decoder layers in order
    norm: torch.nn.Module  # after the last layer
    rotary_emb: Rotary  # shared by all layers


class CausalOutput(Protocol):
    """The result of a forward pass."""

    logits: torch.Tensor  # [batch, tokens, vocab]


class GenerationConfig(Protocol):
    """Defaults of transformers' own generation."""

    eos_token_id: int | list[int] | None  # tokens that end a text


class CausalModel(Protocol):
    """A model with its head: one of transformers' `…ForCausalLM`."""

    config: TransformersConfig  # its sizes
    model: Decoder  # all but the head
    lm_head: torch.nn.Module  # [batch, tokens, hidden] -> [batch, tokens, vocab]
    generation_config: GenerationConfig  # of `generate`
    base_model_prefix: str  # name of `model` in a checkpoint

    def __call__(self, *tokens: torch.Tensor, **options: object) -> CausalOutput:
        """Run the model."""
        ...

    def generate(self, prompt: torch.Tensor, **options: object) -> torch.Tensor:
        """Prompt and generated tokens, [batch, tokens]."""
        ...

    def set_attn_implementation(self, name: str) -> None:
        """Choose a registered attention function."""
        ...

    def set_experts_implementation(self, name: str) -> None:
        """Choose a registered function for experts."""
        ...

    def tie_weights(self) -> None:
        """Give the head the embedding's tensor where the model shares it."""
        ...

    def eval(self) -> CausalModel:
        """Enter evaluation mode."""
        ...

    def get_submodule(self, path: str) -> torch.nn.Module:
        """The module at a path."""
        ...

    def modules(self) -> Iterator[torch.nn.Module]:
        """The model itself and all modules below it."""
        ...

    def named_modules(self) -> Iterator[tuple[str, torch.nn.Module]]:
        """Modules with their paths."""
        ...

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Parameters, tied ones once."""
        ...

    def named_buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Buffers with their paths, including buffers that no checkpoint has."""
        ...

    def state_dict(self, *, keep_vars: bool = False) -> dict[str, torch.Tensor]:
        """Parameters and persistent buffers by path."""
        ...


class ExpertsModule(Protocol):
    """All experts of a layer, merged."""

    num_experts: int  # routed experts
    gate_up_proj: torch.Tensor  # [experts, 2 x intermediate, hidden]
    down_proj: torch.Tensor  # [experts, hidden, intermediate]

    def _apply_gate(self, gate_up: torch.Tensor) -> torch.Tensor: ...
