"""The verb tensor: priced as simulated, hidden and exposed add up, laws of the sweep, the run on numpy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lockstep
from lockstep.base.errors import BadInput
from lockstep.price.tensor_layer import tensor_layer
from lockstep.simulate.collectives import PlainLink, expander, pricer
from lockstep.simulate.collectives.levels import WAYS, program_on_levels
from lockstep.simulate.parallel.tensor import Proof, Shape, prove, traffic
from lockstep.simulate.parallel.tensor import proof as proving
from lockstep.simulate.parallel.tensor.traffic import OVERLAPS
from lockstep.simulate.play import simulate
from lockstep.simulate.program import expand

EXAMPLES = settings(max_examples=25, derandomize=True, deadline=None)
LINK = {"latency": 3e-6, "bandwidth": 300e9}
LAYER: dict[str, Any] = {"hidden": 8192, "heads": 64, "ffn": 28672, "seq": 4096, "flops": 600e12, **LINK}


@EXAMPLES
@given(
    st.sampled_from([1, 2, 4]),
    st.booleans(),
    st.floats(0, 1e-4),
    st.floats(1e8, 1e12),
    st.sampled_from([1.0, 2.0, 4.0]),
)
def test_without_overlap_the_price_equals_the_simulated_program(
    ranks: int, split: bool, latency_s: float, rate_Bps: float, element_B: float
) -> None:
    shape, link = Shape(2, 8, 16, 4, 32), PlainLink(latency_s, rate_Bps)
    levels = ((ranks, latency_s, rate_Bps, 0.0),)
    found = tensor_layer(
        shape, ranks, {ranks: levels}, 1e9, overlap="none", sequence_parallel=split, element_B=element_B
    )
    program = shape.layer(ranks, split).program(1e9, element_B)
    assert simulate(program, price=pricer(link)).makespan_s == pytest.approx(found.chosen.time_s, rel=1e-9)
    messages = expand(program, expander(link))
    assert simulate(messages, link).makespan_s == pytest.approx(found.chosen.time_s, rel=1e-9)
    assert messages.sent_B() == pytest.approx([found.sent_B] * ranks)


def test_every_priced_algorithm_sends_the_same_bytes() -> None:
    """So the bytes of a flow follow from its collective and the number of ranks, whatever way is fastest."""
    for op in ("all-reduce", "all-gather", "reduce-scatter"):
        for levels in (((4, 1e-6, 1e9, 0.0),), ((4, 1e-6, 3e9, 0.0), (2, 5e-6, 1e9, 0.0))):
            ranks = 4 if len(levels) == 1 else 8
            expected = traffic.sent_B((traffic.Flow(op, "tp", 8192.0, 0.0),), ranks)
            for way in WAYS[op]:
                program, _ = program_on_levels(op, levels, 8192.0, way)
                assert program.sent_B().mean() == pytest.approx(expected, rel=1e-9), (op, way)


@EXAMPLES
@given(st.sampled_from([1, 2, 8, 64]), st.booleans(), st.sampled_from([1, 8]), st.floats(0, 1e-3), st.floats(1e8, 1e13))
def test_exposed_and_hidden_traffic_add_up(
    ranks: int, split: bool, batch: int, latency_s: float, rate_Bps: float
) -> None:
    levels = ((ranks, latency_s, rate_Bps, 0.0),)
    shape = Shape(batch, 512, 4096, 64, 16384)
    found = tensor_layer(shape, ranks, {ranks: levels}, 300e12, sequence_parallel=split)
    for policy in found.policies:
        for one in (policy.forward, policy.backward):
            assert one.exposed_s + one.hidden_s == pytest.approx(one.traffic_s, rel=1e-12)
            assert one.time_s == one.compute_s + one.exposed_s
            assert min(one.exposed_s, one.hidden_s, one.slack_s) >= 0
            assert one.hidden_s + one.slack_s <= one.compute_s * (1 + 1e-12)
            assert one.slack_s == 0 or one.exposed_s <= one.traffic_s
    none, gradients, everything = (policy.time_s for policy in found.policies)
    assert [policy.overlap for policy in found.policies] == list(OVERLAPS)
    assert max(gradients, everything) <= none
    assert found.policies[0].both_s("hidden_s") == 0


def test_more_ranks_halve_the_computing_and_leave_the_traffic() -> None:
    found = lockstep.tensor(ranks=8, overlap="none", **{**LAYER, "latency": 0.0})
    first, *rest = found.rows
    assert [row.ranks for row in found.rows] == [1, 2, 4, 8, 16, 32, 64]
    assert (first.speedup, first.traffic_s, first.sent_B) == (1.0, 0.0, 0.0)
    for row in rest:
        others = (row.ranks - 1) / row.ranks
        assert row.compute_s == pytest.approx(first.compute_s / row.ranks)
        assert row.traffic_s == pytest.approx(2 * rest[0].traffic_s * others)
        assert row.sent_B == pytest.approx(8 * others * 4096 * 8192 * 2)
        assert row.speedup == pytest.approx(first.time_s / row.time_s)
        assert row.efficiency_frac < 1
    shares = [row.exposed_s / row.time_s for row in found.rows]
    assert shares == sorted(shares)


def test_the_layer_matches_golden_values() -> None:
    """Eight ranks: 72 b s h^2 + 12 b s^2 h FLOPs for f = 4 h; 8 * 7/8 elements of b s h; kept as Korthikanti says."""
    found = lockstep.tensor(ranks=8, **{**LAYER, "ffn": None, "sequence_parallel": True, "element_size": 2})
    b_s_h = 4096 * 8192
    flops = found.forward_flops + found.backward_flops
    assert flops == pytest.approx((72 * b_s_h * 8192 + 12 * b_s_h * 4096) / 8)
    assert found.backward_flops == pytest.approx(2 * found.forward_flops)
    assert found.sent_B == pytest.approx(7 * b_s_h * 2)
    assert found.weights_B == 12 * 8192**2 * 2 / 8
    assert found.kept_frac == pytest.approx(1 / 8)
    assert lockstep.tensor(ranks=8, **LAYER).kept_frac > 1 / 8


@pytest.mark.parametrize("split", [False, True])
def test_a_training_step_exposes_the_traffic_that_tensor_reports(split: bool) -> None:
    """GPT-2, twelve layers, one micro-batch on four devices: what nothing hides is the same to the last digit, where
    nothing is gathered again."""
    words: dict[str, Any] = {"seq": 1024, "sequence_parallel": split}
    step = lockstep.estimate("gpt2", "dgx-h100", gpus=4, tp=4, batch=1, overlap_tp="none", stack="llama3", **words)
    layer = lockstep.tensor(ranks=4, hidden=768, heads=12, cluster="dgx-h100", overlap="none", **words)
    exposed_s = 12 * layer.chosen.both_s("exposed_s")
    assert step.to_dict()["breakdown_s"]["tp_comm"] == pytest.approx(exposed_s, rel=1e-12)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("ranks", [1, 2, 6])
def test_the_sharded_run_equals_the_unsharded_run(ranks: int, split: bool) -> None:
    for shape in (Shape(1, 12, 24, 12, 36), Shape(8, 4096, 12288, 96, 49152)):
        found = prove(shape, ranks, split)
        assert found.scaled_down == (shape.hidden == 12288)
        assert found.equal
        assert found.error_frac < 1e-12
        assert found.sent_B == found.priced_B
        assert (found.sent_B > 0) == (ranks > 1)


def test_an_incorrect_layer_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(layer: Any, *given: Any) -> Any:
        joined, sent = real(layer, *given)
        joined["d mlp_in"] = joined["d mlp_in"] * (1 + 1e-6 * (layer.ranks > 1))
        return joined, sent

    real = proving.run_counted
    monkeypatch.setattr(proving, "run_counted", wrong)
    found = prove(Shape(1, 12, 24, 12, 36), 2)
    assert not found.equal
    assert not Proof(found.shape, False, 2, 0.0, 1e-9, 8.0, 9.0).equal


def test_on_a_cluster_links_and_rate_come_from_the_cluster() -> None:
    words: dict[str, Any] = {"hidden": 8192, "heads": 64, "seq": 4096, "cluster": "dgx-h100:2"}
    found = lockstep.tensor(ranks=16, **words)
    assert [row.ranks for row in found.rows] == [1, 2, 4, 8, 16]
    assert 300e12 < found.flops_per_s < 989e12
    assert lockstep.tensor(ranks=16, flops="300T", **words).flops_per_s == 300e12
    # Traffic jumps where the group leaves the node.
    traffic_s = [row.traffic_s for row in found.rows]
    assert traffic_s[4] - traffic_s[3] > 0
    assert any("between nodes" in one for one in found.assumptions)


def test_requested_ranks_are_added_to_the_powers_of_two() -> None:
    found = lockstep.tensor(ranks=6, hidden=48, heads=12, seq=8, flops=1e12, **LINK)
    assert [row.ranks for row in found.rows] == [1, 2, 4, 6]
    assert found.row.ranks == 6
    # Seven tokens are not cut by an even number of ranks.
    odd = lockstep.tensor(ranks=7, hidden=56, heads=28, seq=7, flops=1e12, sequence_parallel=True, **LINK)
    assert [row.ranks for row in odd.rows] == [1, 7]


def test_at_fixed_parameters_twice_the_width_sends_half_as_much_and_a_boundary_hands_on_the_activations() -> None:
    words: dict[str, Any] = {"heads": 64, "seq": 2048, "ranks": 8, "flops": 600e12, **LINK}
    narrow, wide = (lockstep.tensor(hidden=hidden, params="100B", **words) for hidden in (4096, 8192))
    assert narrow.layers * 12 * 4096**2 == pytest.approx(100e9)
    assert wide.sent_B == 2 * narrow.sent_B
    assert wide.model_sent_B == pytest.approx(narrow.model_sent_B / 2)
    assert wide.boundary_B == 2048 * 8192 * 2
    assert lockstep.tensor(hidden=8192, sequence_parallel=True, **words).boundary_B == wide.boundary_B / 8
    assert lockstep.tensor(hidden=8192, **words).model_sent_B is None
    with pytest.raises(BadInput, match="--params"):
        lockstep.tensor(hidden=8192, params="1M", **words)
