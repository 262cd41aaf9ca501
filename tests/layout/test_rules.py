"""Rules: each says what was given, what is allowed and what to try, and grids agree with single layouts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.base.errors import BadInput
from lockstep.decide.planner.space import default_space
from lockstep.describe.workload import model
from lockstep.price.layout import RULES, Job, Layout, LayoutGrid, Recipe, broken_by, broken_rules, check, divisors
from lockstep.price.layout.layout import GRID_FIELDS

LLAMA = Job(model("llama3-8b"), Recipe(seq=4096, batch=64), 8)
MIXTRAL = Job(model("mixtral-8x7b"), Recipe(seq=4096, batch=64), 8)


@pytest.mark.parametrize(
    ("job", "layout", "sentence"),
    [
        (LLAMA, Layout(tp=6), "tp=6 does not divide 32 attention heads; try 4 or 8"),
        (LLAMA, Layout(tp=8, dp=2), "dp*tp*pp*cp = 2*8*1*1 = 16 ranks, but there are 8 devices; try dp=1"),
        (LLAMA, Layout(dp=8, micro_batch=3), "dp*micro_batch = 8*3 = 24 does not divide the batch of 64"),
        (LLAMA, Layout(pp=8, vpp=3, schedule="interleaved"), "pp*vpp = 8*3 = 24 chunks do not divide 32 layers"),
        (LLAMA, Layout(pp=8, vpp=1, schedule="interleaved"), "interleaved needs vpp >= 2"),
        (
            LLAMA,
            Layout(pp=8, vpp=1, schedule="dualpipe"),
            "dualpipe needs vpp = 2: stages and micro-batches must be even",
        ),
        (LLAMA, Layout(pp=8, stages=(4,) * 7), "7 stages are given for pp*vpp = 8*1 = 8"),
        (LLAMA, Layout(pp=8, stages=(4,) * 7 + (5,)), "the stages hold 33 layers, the model has 32"),
        (LLAMA, Layout(pp=4, dp=2, stages=(16, 0, 8, 8)), "only the first stage, the last and that of the prediction"),
        (LLAMA, Layout(pp=4, dp=2, stages=(8,) * 4, mtp_stage=3), "no modules of multi-token prediction to place"),
        (LLAMA, Layout(pp=8, vpp=2, schedule="dualpipe", stages=(4,) * 8), "runs passes of two stages together"),
        (LLAMA, Layout(dp=8, ep=2), "ep=2 does not divide 0 experts; a dense model has ep=1"),
        (LLAMA, Layout(dp=8, sequence_parallel=True), "sequence parallelism needs tp > 1"),
        (LLAMA, Layout(dp=8, zero=3, shard=3), "shard=3 does not divide dp*cp = 8"),
        (MIXTRAL, Layout(dp=8, ep=5), "ep=5 does not divide 8 experts; try 4 or 8"),
        (MIXTRAL, Layout(tp=8), "experts with tp=8 need --sequence-parallel"),
        (Job(model("resnet50"), Recipe(seq=1, batch=64), 8), Layout(tp=8), "planned with data parallelism only"),
        (replace(LLAMA, recipe=Recipe(seq=4100, batch=64)), Layout(cp=8), "2*cp = 16 does not divide the sequence"),
    ],
)
def test_a_broken_rule_states_what_is_allowed(job: Job, layout: Layout, sentence: str) -> None:
    with pytest.raises(BadInput) as caught:
        check(layout, job)
    assert sentence in str(caught.value)


def test_every_violation_is_named_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        check(Layout(tp=6, dp=5, micro_batch=7), LLAMA)
    assert caught.value.where == "--micro-batch"
    for part in ("attention heads", "does not divide the batch", "30 ranks, but there are 8 devices"):
        assert part in str(caught.value)


def test_every_rule_names_the_flag_to_change() -> None:
    assert all(rule.flag.startswith("--") for rule in RULES)
    assert len({rule.key for rule in RULES}) == len(RULES)


@given(
    st.sampled_from([1, 2, 3, 4, 8]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 8, 32, 33]),
    st.sampled_from([1, 2, 3, 4]), st.sampled_from([(1, "1f1b"), (2, "interleaved"), (1, "zb-h1")]), st.booleans(),
)  # fmt: skip
def test_a_grid_breaks_the_same_rules_as_its_layouts(
    tp: int, cp: int, pp: int, micro_batch: int, schedule: tuple[int, str], sp: bool
) -> None:
    job = replace(LLAMA, devices=tp * cp * pp * 2)
    one = Layout(
        tp=tp, cp=cp, pp=pp, dp=2, micro_batch=micro_batch, vpp=schedule[0], schedule=schedule[1], sequence_parallel=sp
    )
    other = Layout(dp=job.devices)
    stacked = {name: np.array([getattr(one.grid(), name), getattr(other.grid(), name)]) for name in GRID_FIELDS}
    both = broken_rules(LayoutGrid(order=one.order, **stacked), job)
    for rule in RULES:
        alone = [bool(np.any(rule.broken(layout.grid(), job))) for layout in (one, other)]
        assert np.broadcast_to(both[rule.key], (2,)).tolist() == alone


@pytest.mark.parametrize(
    "wrong", [{"tp": 0}, {"dp": -1}, {"pp": 1.5}, {"zero": 4}, {"recompute": "ful"}, {"schedule": "1f1"}, {"shard": -1}]
)
def test_nonsensical_layouts_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        Layout(**wrong)  # type: ignore[arg-type]


@given(st.integers(1, 5000))
def test_divisors_are_complete_and_correct(number: int) -> None:
    assert divisors(number) == [d for d in range(1, number + 1) if number % d == 0]


@given(st.integers(1, 200), st.integers(1, 64), st.integers(1, 8))
def test_every_layer_is_on_one_stage(layers: int, stages: int, chunks: int) -> None:
    described = replace(LLAMA.model, layers=layers)  # type: ignore[type-var]
    held = Job(described, LLAMA.recipe, 8).stage_layers(stages, chunks)
    sizes = [sum(stage.values()) for stage in held]
    assert sum(sizes) == layers
    if stages > 1 and chunks == 1:
        assert max(sizes) - min(sizes) <= 1
        assert sizes[0] == min(sizes)


def dealt(pieces: list[str], parts: int) -> list[list[str]]:
    """`pieces` in order over `parts` hands, as full as they come: some are empty or short where they do not divide."""
    each = -(-len(pieces) // parts)
    return [pieces[part * each : (part + 1) * each] for part in range(parts)]


@given(st.integers(2, 140), st.sampled_from([2, 3, 4, 8]), st.integers(2, 9))
def test_chunks_must_be_equal_with_or_without_embedding_and_head(layers: int, stages: int, chunks: int) -> None:
    """Dealt out by hand: the rule breaks exactly where neither the layers nor layers and both ends come out equal."""
    described = replace(LLAMA.model, layers=layers)  # type: ignore[type-var]
    job = Job(described, Recipe(seq=4096, batch=8 * stages), stages)
    parts, plain = stages * chunks, ["layer"] * layers
    hands = [dealt(pieces, parts) for pieces in (plain, ["embedding", *plain, "head"])]
    equal = any(len({len(hand) for hand in each}) == 1 for each in hands)
    grid = Layout(pp=stages, vpp=chunks, schedule="interleaved").grid()
    assert bool(broken_rules(grid, job)["layers per stage"]) == (not equal or stages > layers)
    asked = default_space(job, 8).schedules_of(stages)
    assert (("interleaved", chunks) in asked) == (equal and chunks <= len(dealt(plain, stages)[0]))


def test_llama_405b_is_split_as_published() -> None:
    """126 layers in 16 x 8 chunks: embedding and head count as a layer each (arXiv 2407.21783, section 3.3.2)."""
    job = Job(model("llama3-405b"), Recipe(seq=8192, batch=2048), 8192)
    layout = Layout(tp=8, pp=16, dp=64, vpp=8, schedule="interleaved", zero=1, sequence_parallel=True)
    check(layout, job)
    sizes = [sum(stage.values()) for stage in job.stage_layers(16, 8)]
    assert sizes == [7, *[8] * 14, 7]


def test_the_default_layout_is_one_rank_without_sharding_or_recomputation() -> None:
    alone = Layout()
    assert alone == Layout(
        dp=1, tp=1, pp=1, cp=1, ep=1, vpp=1, micro_batch=1, zero=0, recompute="none", sequence_parallel=False,
        schedule="1f1b", shard=0, offload="none", order=("tp", "cp", "ep", "dp", "pp"),
    )  # fmt: skip
    assert alone.world == 1
    check(alone, replace(LLAMA, devices=1))


@pytest.mark.parametrize(("offload", "optimizer", "refused"), [
    ("none", "adamw", False), ("none", "muon", False), ("optimizer", "adamw", False), ("optimizer", "muon", True),
])  # fmt: skip
def test_only_an_offloaded_update_of_products_is_refused(offload: str, optimizer: str, refused: bool) -> None:
    job = replace(LLAMA, recipe=replace(LLAMA.recipe, optimizer=optimizer))
    broken = {rule.key for rule in broken_by(Layout(dp=8, zero=1, offload=offload), job)}
    assert ("offloaded optimizer without products" in broken) == refused


def test_advice_of_a_rule_names_only_options_that_were_passed():
    """N7: software without fused attention was told to drop --no-flash, which nobody had given."""
    from cli_runner import run
    from lockstep.describe.stacks import stacks

    question = ("estimate", "llama3-8b", "-c", "dgx-h100:2", "--batch", "64", "--cp", "4", "--stack")
    asked = 0
    for name, one in stacks().items():
        if one.switches.get("flash_attention") is False:
            refusal = run(*question, name).refusal()
            assert "--no-" not in refusal
            if "fused attention" in refusal:
                assert "use --flash" in refusal
                assert run(*question, name, "--flash").code in (0, 1)
                asked += 1
    assert asked
