"""Kernels of a profile's layers and the operations that price them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lockstep
from lockstep.explain.classes import CLASSES, COMMUNICATION, class_of
from lockstep.explain.diagnosis import Diagnosis
from lockstep.explain.layer_kernels import (
    ACTIVATION,
    CORE,
    DOWN,
    HEADS,
    HEADS_IN,
    HEADS_OUT,
    STREAM,
    UP,
    layer_kernels,
)
from lockstep.explain.layer_operations import furthest, group_of, kernels_of
from lockstep.price.step.inside import HOST, device_rows

FUSED = Path(__file__).parent / "h100" / "fused.json.gz"
WORDS = {"model": "llama3.2-1b", "cluster": "dgx-h100:1", "gpus": 1, "seq": 2048, "stack": "hf-trainer-5"}
PRODUCT, SUM, SILU, COPY = "nvjet_sm90_tst", "CUDAFunctor_add<float>", "silu_kernel", "bfloat16_copy_kernel"
ROTARY, NORM = "CatArrayBatchedCopy_of_heads_MulFunctor", "rsqrt_kernel"
ATTENTION = {"forward": "flash_fwd_kernel", "backward": "flash_bwd_kernel"}
Kernels = list[tuple[str, str]]
"""(group, name) of kernels in order."""


@pytest.fixture(scope="module")
def found() -> Diagnosis:
    """Of a step with PyTorch's own kernels, products of their own and autocast."""
    return lockstep.diagnose([FUSED], micro_batch=4, batch=4, **WORDS)


def test_every_kernel_of_a_recorded_layer_maps_to_a_priced_operation(found: Diagnosis) -> None:
    """Outside of the layers are embedding, rotary tables, mask, head, loss, the first and the last norm, the update."""
    estimate, seen = found.predicted, found.operations
    assert estimate is not None
    assert seen is not None
    (rows,) = device_rows(estimate.job, estimate.cluster, estimate.layout)
    priced = {group_of(one) for step in "FB" for one in rows.of(step) if one.name != HOST}
    known, trace = kernels_of(estimate, seen, rows), seen.traces[0]
    assert {group for _, group in known.group.values()} == priced
    window = seen.partitions[0][-1].window
    spans = trace.spans
    inside = np.flatnonzero((spans.start_s >= window.start_s) & (spans.start_s < window.end_s))
    inside = inside[spans.kind[inside] != COMMUNICATION]
    cores = {way: [i for i in inside.tolist() if known.group.get(i) == (way, CORE)] for way in ("forward", "backward")}
    for way, places in cores.items():
        begin, end = next(i for i in inside.tolist() if known.group.get(i, ("",))[0] == way), places[-1]
        missing = [
            trace.name(int(spans.name[i])) for i in inside.tolist() if begin <= i <= end and i not in known.group
        ]
        assert not missing, (way, missing)
    outside = [i for i in inside.tolist() if i not in known.group]
    products = sorted(trace.name(int(spans.name[i])) for i in outside if spans.kind[i] == CLASSES.index("matmul"))
    assert len(products) == 4  # the head's three, and the angles of rotary embedding
    assert not [i for i in outside if spans.kind[i] == CLASSES.index("attention")]
    layers_s = float((spans.end_s - spans.start_s)[[i for i in inside.tolist() if i in known.group]].sum())
    whole_s = sum(sum(known.of_layer(way, group)[0] for group in priced) for way in cores)
    # Medians leave out the norm of the lowest layer's backward pass, which no product follows.
    assert 16 * whole_s == pytest.approx(layers_s, rel=0.02)


def test_seconds_of_a_layer_match_a_manual_count(found: Diagnosis) -> None:
    """Forward rotary embedding is ten kernels of 443 us, added up from the file by hand."""
    rows = {(one["operation"].split(",")[0], one["pass"]): one for one in found.to_dict()["layer_operations"]}
    rotary = rows["rotary embedding", "forward"]
    assert rotary["kernels_profile"] == 10
    assert rotary["measured_s"] == pytest.approx(443e-6, rel=0.01)
    assert rows["down", "forward"]["measured_s"] == pytest.approx(334e-6, rel=0.01)
    assert rows["attention", "backward"]["kernels_profile"] == 5
    for (name, way), one in rows.items():
        assert one["count"] == 16
        assert one["measured_s"] == pytest.approx(one["priced_s"], rel=0.15), (name, way)
        if name in ("query", "attention out", "gate", "down"):
            assert one["kernels_profile"] == one["kernels_priced"], (name, way)


def test_unfused_attention_is_furthest_from_its_price() -> None:
    """With its products and all between them; other operations are told as of a fused kernel."""
    other = lockstep.diagnose([FUSED.with_name("unfused.json.gz")], micro_batch=2, batch=2, **WORDS)
    assert other.beside is not None
    rows = other.beside.layer_operations
    named = furthest(rows, other.measured_s or 0.0)
    assert [(one.operation, one.way) for one in named] == [("attention", "forward"), ("attention", "backward")]
    assert sum(one.difference_s for one in named) > 0.1
    down = next(one for one in rows if one.operation == "down")
    assert down.measured_s == pytest.approx(down.priced_s, rel=0.05)


def forward(heads: int, up: int, casts: bool) -> Kernels:
    """A layer's forward pass, with a copy before each product where software casts."""
    cast = [(STREAM, COPY)] * casts
    products = [(HEADS_IN, PRODUCT), *[one for _ in range(heads - 1) for one in (*cast, (HEADS_IN, PRODUCT))]]
    block = [(UP, PRODUCT), *[one for _ in range(up - 1) for one in ((ACTIVATION, SILU), *cast, (UP, PRODUCT))]]
    return [
        *products, (HEADS, ROTARY), *cast, (CORE, ATTENTION["forward"]), *cast, (HEADS_OUT, PRODUCT), (STREAM, SUM),
        (STREAM, NORM), *cast, *block, (ACTIVATION, SILU), *cast, (DOWN, PRODUCT), (STREAM, SUM), (STREAM, NORM), *cast,
    ]  # fmt: skip


def backward(heads: int, up: int, casts: bool) -> Kernels:
    """Its backward pass, where gradients of one input are added behind all products but the first that gives one."""
    cast = [(STREAM, COPY)] * casts
    twice = lambda name: [(name, PRODUCT), (name, PRODUCT), *cast]  # noqa: E731
    block = [*twice(UP), *[one for _ in range(up - 1) for one in ((ACTIVATION, SILU), *twice(UP), (STREAM, SUM))]]
    products = [*twice(HEADS_IN), *[one for _ in range(heads - 1) for one in (*twice(HEADS_IN), (STREAM, SUM))]]
    return [
        *twice(DOWN), (ACTIVATION, SILU), *block, (STREAM, NORM), *cast, *twice(HEADS_OUT),
        (CORE, ATTENTION["backward"]), (CORE, "flash_bwd_convert_dq_kernel"), *cast, (HEADS, ROTARY),
        (HEADS, SUM), *products, (STREAM, NORM), *cast,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("heads", "up", "gated"), [(1, 1, False), (3, 1, False), (1, 1, True), (1, 2, True), (3, 2, True)]
)
@pytest.mark.parametrize("casts", [False, True])
def test_kernel_groups_are_identified_by_position(heads: int, up: int, gated: bool, casts: bool) -> None:
    """Two micro-batches of three layers between an embedding and a head, in any grouping of products."""
    each = {"forward": forward(heads, up, casts), "backward": backward(heads, up, casts)}
    head = [("", PRODUCT), ("", "cunn_SoftMaxForward_LogSoftMax"), ("", PRODUCT), ("", PRODUCT)]
    written = [(way, *one) for way in ("forward",) for _ in range(3) for one in each[way]]
    written += [("", *one) for one in head] + [("backward", *one) for _ in range(3) for one in each["backward"]]
    written = 2 * [("", "", "vectorized_gather_kernel"), *written, ("", "", "compute_grad_weight_indices")]
    names = [name for _, _, name in written]
    kind = np.array([class_of(name) for name in names])
    seconds = np.random.default_rng(1).uniform(1e-6, 2e-6, len(names))
    known = layer_kernels(kind, names, seconds, gated, casts)
    told = {i: (way, group) for i, (way, group, _) in enumerate(written) if group}
    wrong = {i: (known.group.get(i), one) for i, one in told.items() if known.group.get(i) != one}
    # No product follows the last norm of the backward passes.
    assert all(one == ("backward", STREAM) and mine is None for mine, one in wrong.values()), wrong
    assert len(wrong) <= 2 * (1 + 2 * casts)
    for way, kernels in each.items():
        for group in {group for group, _ in kernels}:
            assert known.of_layer(way, group)[1] == sum(one == group for one, _ in kernels)


def test_an_unexpected_number_of_products_gives_no_layers() -> None:
    names = [name for _ in range(4) for _, name in (*forward(3, 2, False), ("", PRODUCT))]
    known = layer_kernels(np.array([class_of(name) for name in names]), names, np.ones(len(names)), True, False)
    assert not known.group


def test_the_largest_difference_is_named_only_if_material(found: Diagnosis) -> None:
    assert found.beside is not None
    rows = found.beside.layer_operations
    step_s = found.measured_s or 0.0
    slow = [replace(one, measured_s=3 * one.measured_s) if one.operation == "activation" else one for one in rows]
    named = furthest(slow, step_s)
    assert [(one.operation, one.way) for one in named] == [("activation", "forward"), ("activation", "backward")]
    as_priced = [replace(one, measured_s=one.priced_s) for one in rows]
    assert furthest(as_priced, step_s) == ()


@pytest.mark.parametrize("name", ["compute_dot_do_o_specialized<true, 64>", "convert_dq_to_16bits<true>"])
def test_auxiliary_cudnn_attention_kernels_count_as_attention(name: str) -> None:
    assert CLASSES[class_of(f"void cudnn::fusion::{name}(void const*, void*)")] == "attention"
