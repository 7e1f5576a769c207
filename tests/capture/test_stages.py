"""Pipelines on paper: stages, ticks and scopes."""

from __future__ import annotations

import pytest

from xlahouse.capture.models.pipeline import masked_note, masked_shares, schedule
from xlahouse.capture.models.placing import Placed, Stages


def test_ticks_pass_each_microbatch_through_every_stage():
    assert schedule(stages=3, microbatches=2) == [
        [0, None, None],
        [1, 0, None],
        [None, 1, 0],
        [None, None, 1],
    ]


def test_dense_layers_stand_before_the_first_stage():
    stages = Stages(count=2, dense=1, per_stage=2)  # layers 0 | 1 2 | 3 4
    assert stages.layers == [[1, 2], [3, 4]]
    assert [stages.stacked(layer) for layer in range(5)] == [None, [1, 3], [2, 4], [], []]


def test_without_a_pipeline_nothing_is_stacked():
    stages = Stages(count=1, dense=0, per_stage=4)
    assert stages.layers == []
    assert stages.stacked(2) is None
    assert stages.scope("model.layers.2.mlp") == "model.layers.2.mlp"


@pytest.mark.parametrize(
    ("path", "scope"),
    [
        ("model.layers.0.mlp", "model.layers.0.mlp"),  # dense: by its own number
        ("model.layers.1", "model.layers.0"),  # stacked: by its place in the stage
        ("model.layers.2.self_attn", "model.layers.1.self_attn"),
        ("model.layers.3.self_attn", None),  # its weights lie under layer 1
        ("model.norm", "model.norm"),
    ],
)
def test_scopes_of_stacked_layers_are_local(path, scope):
    assert Stages(count=2, dense=1, per_stage=2).scope(path) == scope


class Weight:
    """Some bytes of weights; numel and element_size are all that is asked of it."""

    def __init__(self, size):
        self.size = size

    def numel(self):
        return self.size

    def element_size(self):
        return 2


def test_the_masked_share_of_a_step_is_less_by_what_runs_outside_the_ticks():
    # 2 ticks read 600 each, and 300 once: 1200 of 1500; half of the ticks is masked: 0.4.
    assert masked_shares(600, 300, stages=2, microbatches=1) == (0.5, pytest.approx(0.4))
    assert masked_shares(600, 0, stages=4, microbatches=2) == (0.6, pytest.approx(0.6))


def pipeline_of(outside):
    layers, head, embedding = Weight(600), Weight(outside), Weight(9999)
    return Placed(
        tensors={
            "model.layers.0.mlp.up_proj.weight": layers,  # both stages': 300 numbers each
            "lm_head.weight": head,
            "model.embed_tokens.weight": embedding,
        },
        stacked={"model.layers.0.mlp.up_proj.weight"},
    )


def test_a_pipeline_says_why_its_masked_share_is_less():
    stages = Stages(count=2, dense=0, per_stage=1)
    assert masked_note(pipeline_of(outside=150), stages, 1, virtual=False) == (
        "pipeline: the head runs outside the ticks, so about 40% of a step's compute is masked, "
        "not (p-1)/(m+p-1) = 50%, which is the share within the ticks"
    )
    assert masked_note(pipeline_of(outside=10), stages, 1, virtual=False) is None
    note = masked_note(pipeline_of(outside=10), stages, 1, virtual=True)
    assert note.endswith("; virtual devices share cores, so a single device deviates further")
