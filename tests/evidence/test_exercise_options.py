"""Options that items ask for: orders and a slow link of a ring, a single worker that pays, workers above a time and the
slowest of them, drawn speeds, the place of a rank, steps and delays, critical batches below one micro-batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import lockstep
from cli_runner import run
from lockstep.base.errors import BadInput
from lockstep.decide.campaigns import amdahl
from lockstep.simulate.collectives import get
from lockstep.simulate.collectives.orders import crossing_B, rank_order

CLUSTER = ("--cluster", "dgx-h100:4", "--ranks", "32", "--size", "32MB", "--algorithm", "ring")


@pytest.mark.parametrize(("nodes", "node"), [(4, 8), (3, 5), (2, 2)])
def test_orders_of_a_ring_cross_nodes_as_often_as_counted_by_hand(nodes: int, node: int) -> None:
    ranks = nodes * node
    for order in ("node", "round-robin", "random:4"):
        places = rank_order(order, ranks, node)
        assert sorted(places) == list(range(ranks))
        hops = sum(a // node != b // node for a, b in zip(places, np.roll(places, -1), strict=True))
        program = get("all-reduce", "ring").program(ranks, 1.0, order=places.tolist())
        assert crossing_B(program, node) == pytest.approx(hops * 2 * (ranks - 1) / ranks)
    law = {"node": 2 * nodes * (ranks - 1) / ranks, "round-robin": 2 * (ranks - 1)}
    for order, crossing in law.items():
        places = rank_order(order, ranks, node).tolist()
        assert crossing_B(get("all-reduce", "ring").program(ranks, 1.0, order=places), node) == pytest.approx(crossing)


def test_an_ordered_flat_ring_is_listed_with_the_other_algorithms() -> None:
    """The ring takes what it takes alone, the hierarchy what it takes without an order."""
    words: dict[str, Any] = {"ranks": 32, "size": "700MB", "cluster": "dgx-a100-80gb:4"}
    both = lockstep.collective("all-reduce", algorithm="ring,hierarchical", order="node", **words)
    alone = lockstep.collective("all-reduce", algorithm="ring", order="node", **words)
    plain = lockstep.collective("all-reduce", algorithm="hierarchical", **words)
    rows = {row.algorithm: row for row in both.comparison.rows}
    assert rows["ring"] == alone.comparison.rows[0]
    assert rows["hierarchical"].time_s == plain.comparison.rows[0].time_s
    # One adapter of a node carries the whole ring, where a hierarchy uses all eight.
    assert 4 < rows["ring"].time_s / rows["hierarchical"].time_s < 8
    assert both.comparison.best == "hierarchical"
    with pytest.raises(BadInput, match="add --algorithm ring"):
        lockstep.collective("all-reduce", algorithm="hierarchical", order="node", **words)


def test_random_rank_orders_cross_nodes_as_often_as_expected() -> None:
    ranks, node, draws = 24, 4, 60
    ring = get("all-reduce", "ring")
    found = [
        crossing_B(ring.program(ranks, 1.0, order=rank_order(f"random:{seed}", ranks, node).tolist()), node)
        for seed in range(draws)
    ]
    error = np.std(found, ddof=1) / math.sqrt(draws)
    assert abs(np.mean(found) - 2 * (ranks - node)) < 5 * error


def test_the_order_of_a_ring_is_an_option() -> None:
    plain = run("collective", "all-reduce", *CLUSTER, "--json").json()["rows"][0]
    (node,), (turns,) = (
        run("collective", "all-reduce", *CLUSTER, "--order", order, "--json").json()["rows"]
        for order in ("node", "round-robin")
    )
    assert node["cross_node_B"] == pytest.approx(plain["cross_node_B"])
    assert turns["cross_node_B"] == pytest.approx(2 * 31 * 32e6)
    assert node["time_s"] == node["simulated_s"]
    for more, where in ((("--order", "random:x"), "--order"), (("--order", "sorted"), "--order")):
        assert run("collective", "all-reduce", *CLUSTER, *more).refusal().startswith(where)
    alone = ("--ranks", "8", "--size", "1MB", "--latency", "1us", "--bandwidth", "1GB/s", "--algorithm", "ring")
    assert run("collective", "all-reduce", *alone, "--order", "node").refusal().startswith("--order: needs ranks")


@pytest.mark.parametrize("workers", [2, 8, 100])
def test_exchange_paid_by_a_single_worker_gives_amdahls_law(workers: int) -> None:
    found = lockstep.speedup(compute="1s", size="50MB", latency=0, bandwidth="1GB/s", workers=100, alone_pays=True)
    rho = float(found.time_s(workers)) - 1 / workers
    assert float(found.speedup(workers)) == pytest.approx(float(amdahl(workers, rho / (1 + rho))))
    plain = lockstep.speedup(compute="1s", size="50MB", latency=0, bandwidth="1GB/s", workers=100)
    assert float(plain.speedup(workers)) == pytest.approx(1 / (1 / workers + rho))


def test_the_probability_of_a_slower_worker_matches_its_formula() -> None:
    """Exponential times: 1 - (1 - exp(-x))^n; two of them twice as slow."""
    found = lockstep.stragglers(workers=10, law="exponential:mean=1s", above="3s", seed=1)
    assert found.any_above_frac == pytest.approx(1 - (1 - math.exp(-3)) ** 10)
    slow = lockstep.stragglers(workers=10, law="exponential:mean=1s", above="3s", slow=2)
    assert slow.any_above_frac == pytest.approx(1 - (1 - math.exp(-3)) ** 8 * (1 - math.exp(-1.5)) ** 2)
    assert slow.asynchronous_s == pytest.approx(10 / (8 + 2 / 2))
    assert lockstep.stragglers(workers=2, law="exponential:mean=1s").any_above_frac is None


def test_balance_draws_speeds_from_a_law() -> None:
    found = lockstep.balance(speeds="uniform:low=70,high=130", workers=16, batch=256, seed=3)
    assert len(found.speeds) == 16
    assert all(70 <= speed <= 130 for speed in found.speeds)
    assert found.static_s / found.bound_s == pytest.approx(np.mean(found.speeds) / min(found.speeds))
    assert lockstep.balance(speeds="uniform:low=70,high=130", workers=16, batch=256, seed=3) == found
    for words, where in (
        ({"speeds": "uniform:low=1,high=2"}, "--workers"),
        ({"speeds": "1,2", "workers": 2}, "--workers"),
    ):
        with pytest.raises(BadInput, match=where):
            lockstep.balance(batch=8, **words)


def test_a_parameter_server_is_sharded_and_sparse() -> None:
    """2 n S / shards at full density; sparse entries are twice as large; the break-even is S (n - 1) / (2 n^2)."""
    words = {"ranks": 256, "size": 700e6, "latency": 0, "bandwidth": 200e9}
    (dense,) = lockstep.collective("parameter-server", shards=16, **words).comparison.rows
    assert dense.time_s == pytest.approx(2 * 256 * 700e6 / 16 / 200e9)
    sparse = lockstep.collective("parameter-server", shards=16, density=0.01, **words)
    assert sparse.comparison.rows[0].time_s == pytest.approx(0.02 * dense.time_s)
    assert "3.11 %" in sparse.assumptions[0]
    (alone,) = lockstep.collective("parameter-server", density=1, **words).comparison.rows
    assert alone.time_s == pytest.approx(2 * 2 * 256 * 700e6 / 200e9)
    for op, more in (
        ("all-reduce", {"shards": 2}),
        ("parameter-server", {"shards": 300}),
        ("parameter-server", {"density": 0}),
    ):
        with pytest.raises(BadInput, match=r"--shards|--density"):
            lockstep.collective(op, **words, **more)


@pytest.mark.parametrize(("ranks", "slow"), [(4, 1e9), (8, 25e9)])
def test_a_ring_is_as_slow_as_its_slowest_link(ranks: int, slow: float) -> None:
    """2 (n - 1) messages of d / n follow each other over every link."""
    words = {"ranks": ranks, "size": 1e8, "latency": 0, "bandwidth": 100e9, "algorithm": "ring"}
    (row,) = lockstep.collective("all-reduce", slow_link=slow, **words).comparison.rows
    assert row.time_s == pytest.approx(2 * (ranks - 1) / ranks * 1e8 / slow)
    (equal,) = lockstep.collective("all-reduce", slow_link=100e9, **words).comparison.rows
    (plain,) = lockstep.collective("all-reduce", **words).comparison.rows
    assert equal.time_s == pytest.approx(plain.time_s)
    with pytest.raises(BadInput, match="--slow-link"):
        lockstep.collective("all-reduce", slow_link=slow, **(words | {"algorithm": "tree"}))


def test_the_share_of_steps_in_which_a_slow_worker_is_slowest_is_exact() -> None:
    """Exponential times of rates 1 and 1 / f: the slower one is later with probability f / (1 + f)."""
    for factor in (2.0, 3.0):
        found = lockstep.stragglers(workers=2, law="exponential:mean=1s", slow=1, slow_factor=factor)
        right = factor / (1 + factor)
        assert found.slowest_slow_frac == pytest.approx(right, abs=5 * math.sqrt(right * (1 - right) / 500_000))
    always = lockstep.stragglers(workers=4, law="constant:value=1s", slow=1)
    assert always.slowest_slow_frac == 1
    assert lockstep.stragglers(workers=4, law="exponential:mean=1s").slowest_slow_frac is None


def test_the_coordinates_of_a_rank_in_a_grid_are_shown() -> None:
    """Rank 77 of 8 x 4 x 4 by hand: 77 = 5 + 8 x 1 + 32 x 2."""
    words = {"cluster": "dgx-a100-80gb:16", "batch": 64, "tp": 8, "pp": 4, "dp": 4}
    place = lockstep.memory("gpt3-175b", rank=77, **words).place
    assert place == {
        "tp": {"coordinate": 5, "ranks": list(range(72, 80))},
        "dp": {"coordinate": 1, "ranks": [69, 77, 85, 93]},
        "pp": {"coordinate": 2, "ranks": [13, 45, 77, 109]},
    }
    assert lockstep.memory("gpt3-175b", **words).place is None
    assert "69 77 85 93" in run("memory", "gpt3-175b", "-c", "dgx-a100-80gb:16", "--batch", "64", "--tp", "8", "--pp",
                                "4", "--dp", "4", "--rank", "77").out  # fmt: skip
    with pytest.raises(BadInput, match="--rank"):
        lockstep.memory("gpt3-175b", rank=128, **words)


def test_delayed_updates_with_a_chosen_step_and_delay_match_a_plain_loop() -> None:
    """Those of a plain loop on x^2 / 2 from 1, until |x| stays below the target."""
    chosen = {"delays": "0,1,2,4", "step": 0.2, "condition": 1, "target_frac": 7.07e-4}
    found = lockstep.converge("delay-iterations", settings=chosen)
    (curve,) = (one for one in found.curves if one.label == "no noise, simulated")
    for delay, updates in zip(curve.x, curve.y, strict=True):
        path = [1.0]
        for place in range(400):
            path.append(path[-1] - 0.2 * path[max(0, place - int(delay))])
        assert updates == max(place for place, x in enumerate(path) if abs(x) > 7.07e-4) + 1
    assert curve.y.tolist() == [33, 23, 23, 80]
    with pytest.raises(BadInput, match=r"below 0\.1845"):
        lockstep.converge("delay-iterations", settings={"delays": "8", "step": 0.2})


def test_a_critical_batch_below_one_micro_batch_is_noted() -> None:
    found = lockstep.roofline("llama3-8b", "dgx-h100:16", batch=1024, tp=1, pp=1, dp=128, zero=1)
    for level in found.levels[1:]:
        assert 0 < level.critical_microbatches < 1
        assert level.critical_batch == 128 * found.job.sequence_units
        assert "of one would hide it" in level.critical_why


LAYER = ("--hidden", "4096", "--heads", "32", "--seq", "2048", "--latency", "0", "--bandwidth", "100GB/s", "--flops",
         "300T")  # fmt: skip


def test_a_list_of_ranks_gives_the_answer_of_each() -> None:
    """Not with another number of ranks of the table that each answer holds."""
    rows = run("tensor", "--ranks", "2,4,16", *LAYER, "--json").json()["rows"]
    assert [row["ranks"] for row in rows] == [2, 4, 16]
    for ranks, row in zip((2, 4, 16), rows, strict=True):
        one = run("tensor", "--ranks", str(ranks), *LAYER, "--json").json()
        alone = next(other for other in one["rows"] if other["ranks"] == ranks)
        for key in ("time_s", "speedup", "sent_B"):
            assert row[key] == one[key] == alone[key]
    assert len({row["time_s"] for row in rows}) == len(rows)
    said = run("tensor", "--ranks", "2,16", *LAYER).out
    for row in (rows[0], rows[-1]):
        assert f"{1e3 * row['time_s']:.3g} ms" in said


def test_a_single_bucket_hides_nothing() -> None:
    """To the last digit, which differences of times would round."""
    given = ("--layers", "1x125ms:700MB", "--latency", "10us", "--bandwidth", "25GB/s", "--json")
    for row in run("overlap", "--ranks", "2..256x2", *given).json()["rows"]:
        assert row["overlap_frac"] == 0
