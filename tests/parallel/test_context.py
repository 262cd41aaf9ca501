"""Context parallelism: bytes counted rank by rank, and the two limits of the two-level mix."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe, broken_by, memory
from lockstep.price.step import price_step
from lockstep.simulate.parallel.context import KINDS, Blocks, partials, pieces
from lockstep.simulate.parallel.group import Levels
from lockstep.simulate.parallel.piece import total_s

RANKS = st.sampled_from([2, 4, 8, 16])


def on_levels(ranks: int) -> Levels:
    """Eight ranks to a node, no latency."""
    near = min(ranks, 8)
    return [(near, 0.0, 100e9, 0.0), (ranks // near, 0.0, 10e9, 0.0)]


def sent_heads(ranks: int, queries: int, kept: int, width: int, tokens: int) -> float:
    """Elements that rank 0 sends to others when heads are exchanged for tokens, head by head."""
    sent = 0
    for other in range(1, ranks):
        mine = range(other * queries // ranks, (other + 1) * queries // ranks)
        sent += 2 * len(mine) * width * tokens
        sent += 2 * len({head * kept // queries for head in mine}) * width * tokens
    return float(sent)


@given(RANKS, st.sampled_from([1, 2, 8, 16]), st.sampled_from([16, 32]))
def test_heads_are_exchanged_once_in_each_direction(ranks: int, kept: int, queries: int) -> None:
    """Counted head by head: key and value heads go to every rank that has one of their queries."""
    blocks = Blocks(2.0 * kept, queries, queries, kept, (1.0, 2.0))
    for piece in pieces("all-to-all", on_levels(ranks), ranks, blocks):
        moved = sum(float(flow.size_B) for flow in piece.flows) * (ranks - 1) / ranks
        assert moved == pytest.approx(sent_heads(ranks, queries, kept, 1, 1), rel=1e-12)
        assert piece.exposed_s == total_s(piece.flows)


@given(RANKS, st.sampled_from([1, 2, 4, 8]), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_mixed_context_parallelism_reduces_to_a_ring_or_an_all_to_all(
    ranks: int, kept: int, forward_s: float, backward_s: float
) -> None:
    blocks = Blocks(1e6 * kept, 1e6, 1e6, kept, (forward_s, backward_s))
    found = pieces("mixed", on_levels(ranks), ranks, blocks)
    limit = "ring" if kept == 1 else "all-to-all" if kept % ranks == 0 else ""
    assume(limit)
    for one, other in zip(found, pieces(limit, on_levels(ranks), ranks, blocks), strict=True):
        assert one.exposed_s == pytest.approx(other.exposed_s, rel=1e-12, abs=1e-15)
        assert total_s(one.flows) == pytest.approx(total_s(other.flows), rel=1e-12, abs=1e-15)


@given(RANKS, st.sampled_from([1, 2, 4, 8, 16]))
def test_each_part_of_attention_is_over_as_many_tokens(ranks: int, kept: int) -> None:
    """A gather and an exchange attend to all keys together; a ring adds an output per block; the mix one per step."""
    assert [int(partials(kind, ranks, kept)) for kind in KINDS[:3]] == [ranks, 1, 1]
    assert int(partials("mixed", ranks, kept)) * np.gcd(ranks, kept) == ranks


def test_a_gather_holds_keys_and_values_of_the_whole_sequence() -> None:
    """Llama 3 70B, 131,072 tokens over cp 8 on tp 2: 7/8 of 4 key-value heads of 2 x 128 in bf16."""
    layout = Layout(tp=2, cp=8, dp=1, sequence_parallel=True, pp=4)
    sizes = {}
    for kind in ("ring", "gather"):
        job = Job(model("llama3-70b"), Recipe(seq=131072, batch=8, cp_kind=kind), 64)
        sizes[kind] = float(memory(job, cluster("dgx-h100:8"), layout.grid()).buffers_B)
    assert sizes["gather"] - sizes["ring"] == pytest.approx(1.05 * 7 / 8 * 131072 * 4 * 256 * 2, rel=1e-6)


def test_ranks_that_do_not_divide_the_heads_are_refused() -> None:
    job = Job(model("llama3-8b"), Recipe(seq=8192, batch=64, cp_kind="all-to-all"), 64)
    layout = Layout(cp=64)
    (rule,) = broken_by(layout, job)
    assert "32 query and 8 key-value heads" in rule.teach(layout, job)


def test_only_a_ring_hides_on_slow_links() -> None:
    """A ring and a gather move the same bytes; eight key-value heads over eight ranks leave nothing for a ring."""
    layout = Layout(cp=8, dp=8)
    waits = {}
    for kind in KINDS:
        job = Job(model("llama3-8b"), Recipe(seq=8192, batch=64, dtype="fp16", cp_kind=kind), 64)
        waits[kind] = float(price_step(job, cluster("ethernet-10-v100:8"), layout.grid()).cp_comm_s)
    assert waits["mixed"] == pytest.approx(waits["all-to-all"], rel=1e-9)
    assert waits["ring"] < waits["gather"]
