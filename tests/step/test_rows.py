"""Rows of a layer: operations and what software adds, which make up its work and what is run again of it."""

from dataclasses import fields

import numpy as np
import pytest

import lockstep
from lockstep.kernels.clock import Clock, Work
from lockstep.kernels.layer import layer_work
from lockstep.kernels.recompute import modules_again, whole_again
from lockstep.kernels.rows import layer_rows, rows_again
from lockstep.kernels.shard import Shard

MODELS = {
    "dense": ("llama3-8b", {}),
    "latent": ("deepseek-v2-lite", {"ep": 8}),
    "experts": ("qwen1.5-moe-a2.7b", {"ep": 4, "tp": 2, "sequence_parallel": True, "overlap_tp": "all"}),
    "recurrent": ("qwen3-next-80b-a3b", {"ep": 8}),
    "crossing": ("t5-large", {}),
    "images": ("dit-xl-2", {}),
    "adapters": ("llama3-8b", {"train": "lora:r=16", "base": "nf4", "seq": 2048}),
    "graphs": ("gpt3-6b7", {"tp": 4, "cuda_graphs": "attention"}),
}
SOFTWARE = ("hf-trainer-5", "torchtitan", "megatron-te")


def question(of, stack, recompute):
    """(the estimate, its shard)"""
    name, words = MODELS[of]
    found = lockstep.estimate(name, "dgx-h100:8", batch=64, stack=stack, recompute=recompute, **words)
    clock = Clock.of(found.cluster.device, found.job.recipe)
    return found, Shard(found.job.transformer, found.layout.grid(), found.job.recipe, clock)


def numbers(work):
    return [float(np.asarray(getattr(work, one.name)).item()) for one in fields(Work)]


def total(works):
    return numbers(sum(works, Work()))


@pytest.mark.parametrize("of", MODELS)
@pytest.mark.parametrize("stack", SOFTWARE)
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_rows_of_a_layer_are_its_work(of, stack, recompute):
    found, shard = question(of, stack, recompute)
    for kind in sorted(set(found.job.kinds)):
        work, rows = layer_work(shard, kind), layer_rows(shard, kind)
        for way in ("forward", "backward"):
            each = [getattr(one.passes, way) for one in rows]
            assert total(each) == pytest.approx(numbers(getattr(work, way)), rel=1e-12)
        again = Work()
        if recompute != "none":
            whole = recompute == "full"
            again = whole_again(shard, kind, work) if whole else modules_again(shard, kind, work.core)
        repeated = [one.passes.forward for one in rows_again(shard, kind, rows)]
        assert total(repeated) == pytest.approx(numbers(again), rel=1e-12, abs=1e-15)
