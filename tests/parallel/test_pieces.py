"""Pieces of a pass: what they expose is what their script takes, and what the recursions of single layers leave."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.base.types.arrays import Ints
from lockstep.simulate.collectives import PlainLink
from lockstep.simulate.parallel.data import Units, buckets, sharded
from lockstep.simulate.parallel.data.around import Around
from lockstep.simulate.parallel.data.sharing import SOFTWARE, SYNCS, Sharing, sharing
from lockstep.simulate.parallel.data.zero import Kernels, Traffic
from lockstep.simulate.parallel.group import Traffic as Collectives
from lockstep.simulate.parallel.group import on_link
from lockstep.simulate.parallel.piece import Flow, Piece, total_s
from lockstep.simulate.parallel.script import LANES, Pass, Script, fitted, within
from lockstep.simulate.parallel.tensor import asynchronous, chunked
from lockstep.simulate.parallel.tensor import traffic as tensor
from lockstep.simulate.play import simulate
from lockstep.simulate.program import ProgramBuilder

SECONDS = st.one_of(st.just(0.0), st.floats(1e-3, 10.0))


@st.composite
def pieces(draw: st.DrawFn, parts: tuple[str, ...] = ("tp", "cp", "ep")) -> Piece:
    flows = st.lists(st.builds(Flow, st.just("all-gather"), st.just("tp"), st.just(1.0), SECONDS), max_size=2).map(
        tuple
    )
    return Piece(draw(st.sampled_from(parts)), draw(SECONDS), draw(flows), draw(flows), draw(flows))


@st.composite
def passes(draw: st.DrawFn) -> Pass:
    """A pass of several layers with traffic of its own and of its neighbours."""
    inside, layers = tuple(draw(st.lists(pieces(), max_size=3))), draw(st.integers(1, 6))
    kernels_s = sum(float(one.kernels_s) for one in inside) + draw(SECONDS)
    around = tuple(
        within(piece, kernels_s * (1 - 1 / layers)) if layers > 1 else replace(piece, beside=())
        for piece in draw(st.lists(pieces(("dp",)), max_size=1))
    )
    return Pass(
        kernels_s, inside, around, layers, False, draw(st.booleans()), tuple(draw(st.lists(pieces(), max_size=1)))
    )


def taken_s(one: Pass) -> float:
    """The makespan of a pass alone on its device."""
    builder, script = ProgramBuilder(1, LANES), one.write(Script())
    for op in script.ops:
        builder.compute(0, op.seconds, stream=op.lane, after=op.after)
    return simulate(builder.build()).makespan_s if script.ops else 0.0


@given(passes())
def test_a_pass_takes_its_kernels_plus_exposed_traffic(one: Pass) -> None:
    assert taken_s(one) == pytest.approx(one.seconds, rel=1e-9, abs=1e-12)
    assert taken_s(replace(one, by_layer=True)) == pytest.approx(one.seconds, rel=1e-9, abs=1e-12)


@given(pieces())
def test_traffic_is_hidden_or_exposed_and_slack_bounds_more_hiding(one: Piece) -> None:
    all_s = sum(flow.seconds for flow in one.flows)
    assert one.exposed_s + one.hidden_s == pytest.approx(all_s, rel=1e-12, abs=1e-12)
    if one.beside and one.slack_s > 0:
        longer = (replace(one.beside[0], seconds=one.beside[0].seconds + one.slack_s), *one.beside[1:])
        assert replace(one, beside=longer).exposed_s == pytest.approx(one.exposed_s, abs=1e-9)
    assert (one * 3.0).exposed_s == pytest.approx(3.0 * one.exposed_s, rel=1e-12)


@given(st.lists(pieces(), min_size=1, max_size=3), SECONDS)
def test_traffic_in_a_shorter_pass_exposes_at_least_as_much(several: list[Piece], kernels_s: float) -> None:
    found = fitted(several, kernels_s)
    wanted_s = [float(one.exposed_s) for one in several]
    assert [float(one.exposed_s) for one in found] == pytest.approx(wanted_s, rel=1e-9, abs=1e-9)
    assert sum(float(one.kernels_s) for one in found) <= max(kernels_s, 0.0) * (1 + 1e-12) or found == tuple(several)


@given(st.floats(1e-3, 10.0), st.floats(1e-3, 10.0), st.integers(1, 30))
def test_equal_buckets_and_units_expose_the_closed_form(comm_s: float, compute_s: float, layers: int) -> None:
    """The recursions of DDP's buckets and of FSDP's prefetched units, for equal layers."""
    moved, kernels = Traffic(0.0, 0.0, comm_s, 0.0), Kernels(0.0, compute_s)
    left_s = float(Around(sharing(0, False), moved, kernels, layers, True).waits.reduce_s)
    share_s = [comm_s / layers] * layers
    ddp = buckets.price_seconds(0.0, [compute_s / layers] * layers, share_s, 1.0)
    assert float(ddp.exposed_comm_s) == pytest.approx(left_s, rel=1e-9)
    link = PlainLink(0.0, 2.0 * layers / comm_s)
    gathered = Units((compute_s / layers,) * layers, (0.0,) * layers, (4.0,) * layers)
    step = sharded.price(gathered, Collectives(on_link(2, link), "ring"), keep=True)
    # All gathers come before a forward pass of no duration, then gradients are scattered beside the backward pass.
    assert float(step.step_s) == pytest.approx(comm_s + compute_s + left_s, rel=1e-9)


@given(st.floats(1e-3, 10.0), st.floats(1e-3, 10.0))
def test_chunked_products_expose_at_most_one_product_less_than_alternating_chunks(comm_s: float, work_s: float) -> None:
    """Chunks that alternate leave the first product alone; here all products have traffic beside them."""
    flows = (Flow("all-gather", "tp", 0.0, 0.0), Flow("reduce-scatter", "tp", 1.0, comm_s))
    one, _ = tensor.pieces((flows, flows), "all", (work_s, work_s))
    link = PlainLink(0.0, 0.5 / comm_s)
    apart = chunked.price(chunked.Product(work_s, 1.0), Collectives(on_link(2, link), "ring"), tensor.CHUNKS)
    left_s = float(apart.exposed_comm_s)
    assert float(one.exposed_s) <= left_s * (1 + 1e-9)
    assert left_s <= (float(one.exposed_s) + work_s / tensor.CHUNKS) * (1 + 1e-9)


@st.composite
def shared(draw: st.DrawFn) -> Callable[[int | Ints], Sharing]:
    """The sharing of any software, of a ZeRO stage or of several."""
    words = (
        draw(st.booleans()), draw(st.sampled_from(SOFTWARE)), draw(st.sampled_from((None, *SYNCS))), draw(st.booleans())
    )  # fmt: skip
    return lambda zero: sharing(zero, *words)


@st.composite
def sharded_stages(draw: st.DrawFn) -> Around:
    gather_s, scatter_s, reduce_s, replicas_s = (draw(SECONDS) for _ in range(4))
    forward_s, backward_s = draw(st.floats(0.1, 10.0)), draw(st.floats(0.1, 10.0))
    taken, exchanged = draw(st.sampled_from([0.0, 0.4])), draw(st.sampled_from([0.0, 0.5]))
    kernels = Kernels(
        forward_s, backward_s, taken * forward_s, taken * backward_s, exchanged * forward_s, exchanged * backward_s
    )
    met = draw(st.sampled_from([0.5, 1.0, 2.0]))
    moved = Traffic(gather_s, scatter_s, reduce_s, replicas_s, met * gather_s, met * scatter_s)
    return Around(
        draw(shared())(draw(st.integers(0, 3))), moved, kernels, draw(st.integers(1, 12)), draw(st.booleans()), 2.0, 4.0
    )


@given(sharded_stages(), shared())
def test_waits_of_a_grid_equal_those_of_each_layout(one: Around, of: Callable[[int | Ints], Sharing]) -> None:
    """Sharding stages side by side in arrays, and one at a time in plain numbers; no wait is below zero."""
    together = replace(one, sharing=of(np.arange(4))).waits
    for zero in range(4):
        alone = replace(one, sharing=of(zero))
        assert float(alone.data("forward").plain.exposed_s) == pytest.approx(together.forward_s[zero], rel=1e-12)
        for name in ("forward_s", "backward_s", "reduce_s", "gather_s"):
            seconds = np.broadcast_to(getattr(together, name), 4)[zero]
            assert float(getattr(alone.waits, name)) == pytest.approx(seconds, rel=1e-12, abs=1e-12)
            assert seconds >= 0


@given(sharded_stages())
def test_data_parallel_traffic_is_never_exposed_longer_than_it_takes(one: Around) -> None:
    wanted = one.waits
    each_s = one.moved.gather_s * one.sharing.gathers_backward + one.moved.scatter_s * one.sharing.scatters
    each_s = each_s + one.moved.replicas_s * one.sharing.sums_copies
    assert float(wanted.backward_s) <= each_s * (1 + 1e-12)
    assert float(wanted.forward_s) <= one.moved.gather_s * (1 + 1e-12)
    assert float(wanted.backward_s + wanted.reduce_s) <= (each_s + float(total_s(one.once))) * (1 + 1e-12)


@given(st.sampled_from([2, 4, 8]), st.floats(1e-3, 1.0), st.floats(1e-3, 1.0))
def test_a_chunked_gather_waits_for_each_chunk_beside_its_product(ranks: int, product_s: float, moved_s: float) -> None:
    """Piece by piece, as PyTorch runs it: the own piece first, then each of the others when it has arrived."""
    now_s, arrived_s = product_s / ranks, 0.0
    for _ in range(ranks - 1):
        arrived_s += moved_s / (ranks - 1)
        now_s = max(now_s, arrived_s) + product_s / ranks
    flows = (Flow("all-gather", "tp", 1.0, moved_s), Flow("reduce-scatter", "tp", 1.0, 0.0))
    found = asynchronous.pieces(flows, ranks, [(product_s, product_s)])
    exposed_s = sum(float(one.exposed_s) for one in found)
    assert exposed_s <= now_s - product_s + 1e-12
    assert now_s - product_s <= exposed_s + product_s / ranks + 1e-12
