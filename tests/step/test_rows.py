"""Rows of a layer: operations and what software adds, which make up its work and what is run again of it."""

import json
from collections import defaultdict
from dataclasses import fields
from unittest.mock import patch

import numpy as np
import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.price.kernels.clock import Clock, Work
from lockstep.price.kernels.layer import layer_work
from lockstep.price.kernels.recompute import modules_again, whole_again
from lockstep.price.kernels.rows import layer_rows, rows_again
from lockstep.price.kernels.shard import Shard
from lockstep.price.kernels.states import states_work
from lockstep.price.layout import layer_parameters
from lockstep.price.step import compose
from lockstep.price.step.inside import HOST, device_rows
from lockstep.price.step.stage import layer_inside
from lockstep.show.verbs.trace import trace_step
from lockstep.simulate.program import read_trace

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
def test_operations_of_a_layer_add_up_to_its_work(of, stack, recompute):
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


@pytest.mark.parametrize("of", MODELS)
@pytest.mark.parametrize("stack", SOFTWARE)
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_operations_of_a_pass_take_the_time_of_its_kernels(of, stack, recompute):
    """Beyond them a pass takes nothing but what the device waits for the host, so nothing where launches are free."""
    found, shard = question(of, stack, recompute)
    (rows,) = device_rows(found.job, found.cluster, found.layout)
    states = layer_parameters(found.job, found.layout.grid())
    body = compose(found.job, found.cluster, found.layout.grid()).body
    for step, way in (("F", "forward"), ("B", "backward")):
        alone_s = 0.0
        for kind in found.job.kinds:
            work, again, moved = layer_inside(shard, kind, states_work(shard, kind, states[kind.stored]))
            each = getattr(work, way) + getattr(moved, way) + (again if step == "B" else Work())
            alone_s += float(np.asarray(each.device_s))
        host_s = sum(one.seconds for one in rows.of(step) if one.name == HOST)
        whole_s = sum(one.seconds for one in rows.of(step))
        assert whole_s - host_s == pytest.approx(alone_s, rel=1e-9)
        assert whole_s == pytest.approx(float(np.asarray(getattr(body, f"compute_{way}_s"))), rel=1e-9)


def drawn(path):
    """(spans of layers by process and label, parts of operations) of a trace, each in order of their starts."""
    layers, parts = defaultdict(list), []
    for one in json.loads(path.read_text())["traceEvents"]:
        if one.get("cat") == "operation":
            parts.append(one)
        elif one["ph"] == "X" and " layer " in one["name"]:
            layers[one["pid"], one["name"]].append(one)
    return layers, sorted(parts, key=lambda one: one["ts"])


def ends_us(one):
    return one["ts"], one["ts"] + one["dur"]


DRAWN = {
    "traffic inside of layers": ("llama3-8b", {"tp": 8, "sequence_parallel": True, "zero": 3, "recompute": "full"}),
    "several kinds of layers": ("deepseek-v2-lite", {"ep": 8, "recompute": "selective"}),
    "stages": ("llama3-8b", {"tp": 2, "pp": 4, "zero": 1, "vpp": 2, "batch": 16}),
    "weight gradients apart": ("llama3-8b", {"tp": 2, "pp": 4, "schedule": "zb-h1"}),
    "layers placed by hand": ("llama3-8b", {"tp": 2, "pp": 4, "stages": "9,9,8,6"}),
    "passes of several models": ("llama3-8b", {"tp": 8, "train": "dpo,lora:r=16"}),
}


@pytest.mark.parametrize("of", DRAWN)
def test_parts_of_layers_fill_their_spans(of, tmp_path):
    """They lie in the spans of the layer's kernels, one behind another without a gap, and reading leaves them out."""
    name, words = DRAWN[of]
    found = lockstep.estimate(name, "dgx-h100:4", **{"batch": 64} | words)
    trace_step(found, tmp_path / "operations.json", "operations")
    layers, parts = drawn(tmp_path / "operations.json")
    assert layers
    processes = {process for process, _ in layers}
    of_process = {process: [one for one in parts if one["pid"] == process] for process in processes}
    middles_us = {process: np.array([sum(ends_us(one)) / 2 for one in own]) for process, own in of_process.items()}
    for (process, label), spans in layers.items():
        own, middle_us = of_process[process], middles_us[process]
        inside = [
            [own[at] for at in np.flatnonzero((low_us <= middle_us) & (middle_us <= high_us))]
            for low_us, high_us in map(ends_us, spans)
        ]
        for span, each in zip(spans, inside, strict=True):
            edges = [edge for one in each for edge in ends_us(one)]
            begin_us, end_us = ends_us(span)
            assert np.allclose([*edges[::2], edges[-1]], [begin_us, *edges[1:-1:2], end_us], rtol=1e-6, atol=1e-12)
        whole = {one["name"]: 0.0 for each in inside for one in each}
        for one in (one for each in inside for one in each):
            whole[one["name"]] += one["dur"]
        assert sum(whole.values()) == pytest.approx(sum(one["dur"] for one in spans), rel=1e-9)
        assert ("norm" in whole) == (label[0] != "W")
    trace_step(found, tmp_path / "layers.json", "layers")
    one, other = (read_trace(tmp_path / f"{name}.json") for name in ("operations", "layers"))
    assert np.array_equal(one.start_s, other.start_s)
    assert np.array_equal(one.end_s, other.end_s)


def test_recomputed_operations_are_drawn_before_the_backward_pass(tmp_path):
    found = lockstep.estimate("llama3-8b", "dgx-h100", batch=8, tp=8, recompute="full")
    trace_step(found, tmp_path / "step.json", "operations")
    layers, parts = drawn(tmp_path / "step.json")
    low, high = ends_us(layers[0, "B0 layer 3"][0])[0], ends_us(layers[0, "B0 layer 3"][-1])[1]
    names = [one["name"] for one in parts if low <= one["ts"] < high]
    again = [name.removesuffix(" again") for name in names if name.endswith(" again")]
    assert again[:3] == ["norm", "queries, keys and values", "rotary embedding"]
    assert names[: len(again)] == [f"{name} again" for name in again]
    assert names[len(again) : len(again) + 3] == ["residual sum", "down", "activation"]
    assert {one["args"].get("way") for one in parts if one["name"] == "norm"} == {"norm.one"}


def test_only_the_first_micro_batches_of_a_long_step_are_expanded(tmp_path):
    found = lockstep.estimate("llama3-8b", "dgx-h100", batch=64, tp=8)
    with patch("lockstep.price.step.inside.MOST_SLICES", 2000):
        trace_step(found, tmp_path / "step.json", "operations")
    layers, parts = drawn(tmp_path / "step.json")
    assert 0 < len(parts) <= 2000
    opened = {label.split()[0] for (_, label), (one, *_) in layers.items() if any(
        one["ts"] <= each["ts"] < ends_us(one)[1] for each in parts)}  # fmt: skip
    assert {"F0", "B0"} <= opened < {label.split()[0] for _, label in layers}


def test_a_convolutional_model_refuses_expansion_into_operations(tmp_path):
    found = lockstep.estimate("resnet50", "dgx-h100", batch=64)
    with pytest.raises(BadInput, match="--expand"):
        trace_step(found, tmp_path / "step.json", "operations")
    assert not [*tmp_path.iterdir()]
