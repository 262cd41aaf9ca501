"""What recomputation runs again: as many FLOPs as torch counts with and without re-entry, and MaxText's policies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockstep.describe.hardware import device
from lockstep.describe.stacks import stacks
from lockstep.describe.workload import DENSE, SELECTIVE, Piece, Transformer, layer_activation_B, model
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.layer import layer_work
from lockstep.price.kernels.recompute import modules_again, whole_again
from lockstep.price.kernels.shard import Shard
from lockstep.price.layout import Layout
from recipes import recipe_by

TOKENS, HIDDEN, FFN = 8, 16, 48
STOPPING = {"maxtext", "torchtitan", "fsdp-eager", "fsdp-compile", "hf-trainer-5", "trl"}


def shard(**words: object) -> Shard:
    found = model("llama2-7b")
    assert isinstance(found, Transformer)
    recipe = recipe_by(seq=4096, batch=1, **words)
    return Shard(found, Layout(recompute="full").grid(), recipe, Clock.of(device("h100-sxm"), recipe))


def again_flops(**words: object) -> float:
    one = shard(**words)
    return float(whole_again(one, DENSE, layer_work(one, DENSE)).flops)


def test_non_reentrant_checkpointing_skips_the_last_product() -> None:
    """FLOPs that torch counts in forward and backward pass of a feed-forward block: one product apart."""
    torch = pytest.importorskip("torch")
    from torch.utils.checkpoint import checkpoint
    from torch.utils.flop_counter import FlopCounterMode

    up, down = torch.nn.Linear(HIDDEN, FFN, bias=False), torch.nn.Linear(FFN, HIDDEN, bias=False)
    counted = []
    for use_reentrant in (True, False):
        rows = torch.randn(TOKENS, HIDDEN, requires_grad=True)
        with FlopCounterMode(display=False) as counter:
            checkpoint(lambda x: x + down(torch.relu(up(x))), rows, use_reentrant=use_reentrant).sum().backward()
        counted.append(counter.get_total_flops())
    product = 2 * TOKENS * HIDDEN * FFN
    assert counted == [8 * product, 7 * product]


def test_early_stop_recomputation_repeats_all_but_the_down_product() -> None:
    found = shard().model
    assert found.mlp is not None
    product = 2.0 * 4096 * found.hidden * found.mlp.ffn
    assert again_flops() - again_flops(recompute_stops=True) == pytest.approx(product)


def test_adapters_and_norms_after_the_down_product_require_recomputing_it() -> None:
    for words in ({"train": "lora:r=8,targets=all-linear"},):
        assert again_flops(**words) == again_flops(**words, recompute_stops=True)
    one = shard(recompute_stops=True)
    behind = replace(one, model=replace(one.model, norm_placement="sandwich"))
    whole = layer_work(behind, DENSE)
    assert float(whole_again(behind, DENSE, whole).flops) == float(whole.forward.flops)


def test_early_stop_software_matches_its_documentation() -> None:
    assert {name for name, one in stacks().items() if one.habits.recompute_stops} == STOPPING


def kept(*modules: str) -> float:
    """Elements per token, in units of the hidden size, that a layer of Llama 2 7B keeps."""
    one = shard().model
    piece = Piece(micro_batch=1, seq=4096, recompute_modules=modules)
    return float(layer_activation_B(one, piece, recompute=SELECTIVE)) / (2.0 * 4096 * one.hidden)


def test_maxtext_policies_keep_the_named_tensors() -> None:
    """The layer's input and the tensors that a policy saves; per token a gate and an up projection of 11,008 each."""
    wide = 11008 / 4096
    assert kept("core_attn", "context", "layernorm", "mlp") == pytest.approx(1 + 3 + 1)
    assert kept("core_attn", "context", "out_proj", "layernorm", "mlp") == pytest.approx(1 + 3)
    assert kept("core_attn", "context", "layernorm", "mlp_act") == pytest.approx(1 + 3 + 1 + 2 * wide)


def test_tensors_that_are_not_kept_are_recomputed() -> None:
    one = shard(recompute_modules=("core_attn", "context", "out_proj", "mlp_act"))
    work = layer_work(one, DENSE)
    again = modules_again(one, DENSE, work.core)
    attention = one.model.attention
    product = 2.0 * 4096 * one.model.hidden * attention.heads * attention.head_dim
    assert float(again.flops) == pytest.approx(float(work.core.forward.flops) + product)
    assert float(again.stream_s) > 0
