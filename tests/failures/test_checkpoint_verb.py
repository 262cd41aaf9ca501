"""`checkpoint`: keys of the contract, ways to say the same, refusals that name the flag, formulas in the interval."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import lockstep
from cli_runner import run
from effort import ALL
from lockstep.base.store import RunStore
from lockstep.base.units import format_time
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Recipe, checkpoint_B
from lockstep.simulate.failures import exact_s, llama3, overhead_frac

QUESTION = ("checkpoint", "--mtbf", "6h", "--write", "5min", "--restart", "10min")


def test_keys_of_the_contract() -> None:
    answer = run(*QUESTION, "--simulate", "--json").json()
    assert {"young_s", "daly_s", "exact_s", "overhead_frac", "simulated"} <= set(answer)
    assert {"overhead_frac", "ci95", "goodput_frac", "losses_frac"} <= set(answer["simulated"])
    assert answer["young_s"] == pytest.approx(3600.0)
    assert answer["daly_s"] == pytest.approx(56.7 * 60, abs=3)
    assert answer["exact_s"] == answer["interval_s"] == float(exact_s(300.0, 21_600.0))
    want = overhead_frac(answer["exact_s"], 300.0, 21_600.0, restart_s=600.0)
    assert answer["overhead_frac"] == pytest.approx(float(want), rel=1e-12)
    low, high = answer["simulated"]["ci95"]
    assert low <= answer["overhead_frac"] <= high
    assert answer["simulated"]["goodput_frac"] + sum(answer["simulated"]["losses_frac"].values()) == pytest.approx(1.0)
    assert run(*QUESTION, "--json").json()["simulated"] is None


@pytest.mark.parametrize(
    "words",
    [("--async", "90%"), ("--detection", "10min"), ("--interval", "20min"),
     ("--local-write", "5s", "--local-restart", "1min", "--local-frac", "80%"),
     ("--delta-write", "20s"), ("--delta-write", "20s", "--every", "4"), ("--async", "1")],
)  # fmt: skip
def test_formula_and_simulation_agree(words: tuple[str, ...]) -> None:
    """At one fixed seed; thousands of runs, and the interval 1.7 times as wide as 95 % (1 in 1,000)."""
    answer = run(*QUESTION, *words, "--simulate", "--campaigns", "20000" if ALL else "5000", "--json").json()
    low, high = answer["simulated"]["ci95"]
    expected = answer["run"]["expected_wall_s"] / answer["run"]["work_s"] - 1
    assert abs(expected - (low + high) / 2) < 1.7 * (high - low) / 2
    assert answer["overhead_frac"] == pytest.approx(expected, rel=0.01)


def test_equivalent_descriptions_of_failures_give_the_same_answer() -> None:
    whole = lockstep.checkpoint(mtbf="6h", write=300)
    by_node = lockstep.checkpoint(nodes=100, node_mtbf="600h", write="5min")
    assert by_node.to_dict() | {"failures": None} == whole.to_dict()
    assert lockstep.checkpoint(law="exponential:mean=6h", write="5min").to_dict() == whole.to_dict()
    cluster = lockstep.checkpoint(cluster="dgx-h100:2048", write="1min")
    assert cluster.mtbf_s == pytest.approx(llama3().mtbf_s, rel=1e-3)


def test_devices_per_node_are_assumed_and_stated_in_the_answer() -> None:
    """A hundred of 5 years fail every 18.3 days; eight to a node is said to be assumed."""
    year_s = 365.25 * 86_400
    told = lockstep.checkpoint(devices=100, device_mtbf="5y", write=60)
    assert told.mtbf_s == pytest.approx(5 * year_s / 100)
    assert "100 devices" in told.assumptions[0]
    silent = lockstep.checkpoint(nodes=100, device_mtbf="5y", write=60)
    assert silent.mtbf_s == pytest.approx(5 * year_s / 800)
    assert "800 devices: 100 nodes of 8 (assumed" in silent.assumptions[0]
    four = lockstep.checkpoint(nodes=100, devices=400, device_mtbf="5y", rack_mtbf="10y", write=60)
    assert four.mtbf_s == pytest.approx(1 / (400 / (5 * year_s) + 25 / (10 * year_s)))
    known = lockstep.checkpoint(cluster="dgx-h100:4", device_mtbf="5y", write=60)
    assert "32 devices: 4 nodes of 8 (as in dgx-h100)" in known.assumptions[0]


@pytest.mark.parametrize(
    "words", [{"cluster": "dgx-h100:64"}, {"mtbf": "6h", "devices": 512}, {"nodes": 64, "node_mtbf": "1y"}]
)
def test_unknown_storage_is_assumed_as_in_campaign(words: dict[str, Any]) -> None:
    """BLOOM's 2.3 TB in 40 s from 384 devices, for 512 of them; the answer says so."""
    found = lockstep.checkpoint("llama3-70b", **words)
    size_B = checkpoint_B(Job(model("llama3-70b"), Recipe(seq=1, batch=1), 1))
    assert found.to_dict()["write_s"] == pytest.approx(size_B / (57.5e9 * 512 / 384))
    assert any("assumed, BLOOM's 150 MB/s per device" in said for said in found.assumptions)


def test_equivalent_descriptions_of_the_write_time_give_the_same_answer() -> None:
    """2.3 TB to a storage of 57.5 GB/s take 40 s, from any number of ranks that can fill it."""
    for words in ({"ranks": 384, "rank_bandwidth": "1GB/s"}, {}):
        found = lockstep.checkpoint(mtbf="1d", size="2.3TB", storage_bandwidth="57.5GB/s", **words)
        assert found.pattern.costs_s == pytest.approx((40.0,))


def test_checkpoint_size_follows_from_the_model() -> None:
    """14 B per parameter with AdamW in bf16, 6 with SGD, written by all devices of the cluster."""
    adam = lockstep.checkpoint("llama3-8b", cluster="dgx-h100:4", rank_bandwidth="1GB/s")
    assert adam.pattern.costs_s[0] == pytest.approx(14 * 8_030_261_248 / 32e9)
    plain = lockstep.checkpoint("llama3-8b", cluster="dgx-h100:4", rank_bandwidth="1GB/s", optimizer="sgd")
    assert plain.pattern.costs_s[0] == pytest.approx(6 / 14 * adam.pattern.costs_s[0])
    stored = lockstep.checkpoint("llama3-8b", cluster="dgx-a100-80gb:4")
    assert stored.pattern.costs_s[0] == pytest.approx(14 * 8_030_261_248 / 57.5e9)


def test_the_cluster_supplies_missing_options() -> None:
    assert lockstep.checkpoint(cluster="dgx-h100:8", mtbf="6h", write=60).mtbf_s == 6 * 3600
    per_node = lockstep.checkpoint(cluster="dgx-h100:8", node_mtbf="80h", write=60)
    assert per_node.mtbf_s == pytest.approx(10 * 3600)


NODES = ("--cluster", "dgx-h100:128", "--write", "1min", "--restart", "5min", "--repair", "2d", "--spares", "1")


@pytest.mark.parametrize(
    "words",
    [(), ("--fewest-nodes", "96"), ("--fewest-nodes", "96", "--replica-nodes", "16"), ("--replaced", "60%"),
     ("--silent-mtbf", "20d", "--silent-delay", "6h"), ("--async", "90%", "--fewest-nodes", "64"),
     ("--fewest-nodes", "96", "--grow", "checkpoint"), ("--fewest-nodes", "96", "--grow", "at-once"),
     ("--fewest-nodes", "96", "--local-write", "5s", "--local-restart", "1min", "--local-frac", "80%"),
     ("--fewest-nodes", "96", "--delta-write", "5s")],
)  # fmt: skip
def test_nodes_and_corruption_by_formula_and_by_simulation(words: tuple[str, ...]) -> None:
    """The bar of the verb: every formula inside 1.7 times the 95 % interval (1 in 1,000), one fixed seed."""
    answer = run("checkpoint", *NODES, *words, "--simulate", "--work", "2y", "--campaigns", "400", "--json").json()
    simulated = answer["simulated"]
    pairs = [(answer["overhead_frac"], simulated["ci95"])]
    pairs += [(answer["losses_frac"][name], simulated["losses_ci95"][name]) for name in answer["losses_frac"]]
    for expected, (low, high) in pairs:
        assert abs(expected - (low + high) / 2) <= 1.7 * (high - low) / 2 + 2e-3 * expected


def test_copies_in_peer_memory_are_a_checkpoint_level() -> None:
    """16 nodes send 1.6 TB to a peer each at 10 GB/s: 10 s; a rack of four never holds both copies, the power does."""
    words = {"nodes": 16, "size": "1.6TB", "storage_bandwidth": "16GB/s", "restart": "10min", "device_mtbf": "1y"}
    found = lockstep.checkpoint(**words, rack_mtbf="1y", copies=2, copy_bandwidth="10GB/s")
    assert found.pattern.costs_s[0] == pytest.approx(10.0)
    assert found.pattern.costs_s[-1] == pytest.approx(100.0)
    assert found.pattern.hard_frac == 0.0
    assert set(found.pattern.restarts_s) == {600.0}
    assert any("2 nodes, 8 apart" in text for text in found.assumptions)
    power = lockstep.checkpoint(**words, power_mtbf="1y", copies=2, copy_bandwidth="10GB/s")
    assert power.causes is not None
    assert power.pattern.hard_frac == pytest.approx(power.causes.share_frac("power"))
    alone = lockstep.checkpoint(**words, power_mtbf="1y")
    assert power.overhead_frac < alone.overhead_frac


def test_a_local_restart_takes_the_restart_time_unless_set() -> None:
    local = {"mtbf": "6h", "write": 60, "restart": "10min", "local_write": 2, "local_frac": 0.9}
    assert set(lockstep.checkpoint(**local).pattern.restarts_s) == {600.0}
    assert set(lockstep.checkpoint(**local, local_restart="1min").pattern.restarts_s) == {60.0}


def test_the_cluster_supplies_the_rate_of_copies_to_peers() -> None:
    """DGX H100: eight ports of 400 Gbit/s at nine tenths; 1,120 GB over 32 nodes with AdamW in bf16."""
    found = lockstep.checkpoint("llama3-8b", cluster="dgx-h100:32", rank_bandwidth="1GB/s", copies=4)
    assert found.pattern.costs_s[0] == pytest.approx(14 * 8_030_261_248 * 3 / (32 * 8 * 50e9 * 0.9))


def test_failure_causes_compose_to_the_job() -> None:
    """1024 devices, 128 nodes, 32 racks of 4, 4 switches of 32: rates add up, and racks lose their nodes together."""
    words = ("--cluster", "dgx-h100:128", "--write", "1min", "--device-mtbf", "1024d", "--switch-mtbf", "8d",
             "--rack-mtbf", "64d", "--software-mtbf", "4d")  # fmt: skip
    answer = run("checkpoint", *words, "--repair", "1h", "--json").json()
    assert 86_400 / answer["mtbf_s"] == pytest.approx(1 + 0.5 + 0.5 + 0.25)
    assert {one["kind"]: one["nodes_lost"] for one in answer["failures"]["causes"]} == {
        "device": 1, "switch": 0, "rack": 4, "software": 0,
    }  # fmt: skip
    assert dict(answer["pool"]["lost"]) == pytest.approx({0: 0.75 / 2.25, 1: 1 / 2.25, 4: 0.5 / 2.25})
    assert "device 44.4 %, switch 22.2 %, rack 22.2 %, software 11.1 %" in " ".join(
        run("checkpoint", *words).out.split()
    )


def test_corruption_adds_to_the_failures() -> None:
    answer = run(*QUESTION, "--silent-mtbf", "12h", "--silent-delay", "3h", "--json").json()
    assert answer["mtbf_s"] == pytest.approx(4 * 3600)
    assert answer["silent_frac"] == pytest.approx(1 / 3)
    assert answer["kept_checkpoints"] >= 3 * 3600 / (answer["interval_s"] + 300) + 1
    assert answer["interval_s"] == pytest.approx(float(exact_s(300.0, 4 * 3600.0)))


@pytest.mark.parametrize(
    "words", [(), ("--fewest-nodes", "96", "--simulate"), ("--silent-mtbf", "9d", "--silent-delay", "1h")]
)
def test_the_table_shows_nodes_and_corruption(words: tuple[str, ...]) -> None:
    shown = " ".join(run("checkpoint", *NODES, *words).out.split())
    assert "1 spare node, repairs take 2 d" in shown
    assert "degraded" in shown
    assert ("corruption" in shown) == ("--silent-mtbf" in words)


def test_bunched_failures_are_simulated_and_noted() -> None:
    found = lockstep.checkpoint(law="weibull:mean=6h,shape=0.7", write="5min", simulate=True, campaigns=200)
    assert found.simulated is not None
    assert found.simulated.overhead.interval_s()[1] < found.overhead_frac
    assert any("only the simulation" in text for text in found.assumptions)


def test_a_trace_of_failures_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "gaps.csv").write_text("time_s\n5h\n7h\n")
    assert lockstep.checkpoint(law=f"trace:{tmp_path / 'gaps.csv'}", write="5min").mtbf_s == 6 * 3600


@pytest.mark.parametrize("words", [(), ("--simulate",), ("--delta-write", "20s"), ("--async", "1")])
def test_the_table_states_the_interval_in_words(words: tuple[str, ...]) -> None:
    answer = run(*QUESTION, *words, "--json").json()
    shown = run(*QUESTION, *words).out
    assert shown.startswith(f"Checkpoint every {format_time(answer['interval_s'], 4)} of work")
    assert ("Simulated" in shown) == ("--simulate" in words)
    assert "nan" not in shown.lower().replace("detection", "")


SHARDS = ("--nodes", "8", "--size", "1TB", "--storage-bandwidth", "1GB/s")


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("--mtbf", "6h"), "--write"),
        (("--write", "5min"), "--mtbf"),
        (("--mtbf", "6h", "--law", "exponential:mean=6h", "--write", "1s"), "--mtbf"),
        (("llama3-8b", "--mtbf", "6h"), "--storage-bandwidth"),
        (("llama3-8b", "--mtbf", "6h", "--write", "1s"), "--write"),
        (("llama9", "--mtbf", "6h", "--storage-bandwidth", "1GB/s"), "MODEL"),
        (("--mtbf", "6h", "--write", "1s", "--devices", "8"), "--devices"),
        (("--device-mtbf", "5y", "--nodes", "3", "--write", "1s", "--devices", "8"), "--devices"),
        (("--device-mtbf", "5y", "-c", "dgx-h100", "--write", "1s", "--devices", "8"), "--devices"),
        (("--mtbf", "6h", "--write", "1s", "--silent-mtbf", "1d"), "--silent-delay"),
        (("--mtbf", "6h", "--write", "1s", "--silent-delay", "1h"), "--silent-mtbf"),
        (("--law", "exponential:mean=6h", "--write", "1s", "--silent-mtbf", "1d", "--silent-delay", "1h"),
         "--silent-mtbf"),
        (("--mtbf", "6h", "--write", "1s", "--spares", "2"), "--spares"),
        (("--mtbf", "6h", "--write", "1s", "--repair", "0"), "--repair"),
        (("--mtbf", "6h", "--write", "1s", "--repair", "1d", "--fewest-nodes", "4"), "--fewest-nodes"),
        (("--mtbf", "6h", "--nodes", "8", "--write", "1s", "--repair", "1d", "--fewest-nodes", "9"), "--fewest-nodes"),
        (("--mtbf", "6h", "--nodes", "8", "--write", "1s", "--repair", "1d", "--replica-nodes", "3"),
         "--replica-nodes"),
        (("--mtbf", "6h", "--write", "1s", "--repair", "1d", "--replaced", "2"), "--replaced"),
        (("--mtbf", "6h", "--write", "1s", "--grow", "at-once"), "--grow"),
        (("--mtbf", "6h", "--nodes", "8", "--write", "1s", "--repair", "1d", "--grow", "at-once"), "--grow"),
        (("--mtbf", "6h", "--nodes", "8", "--write", "1s", "--repair", "1d", "--fewest-nodes", "4", "--grow", "soon"),
         "--grow"),
        (("--mtbf", "6h", "--write", "1s", "--copies", "2"), "--copies"),
        (("--mtbf", "6h", "--nodes", "8", "--write", "1s", "--copies", "2", "--copy-bandwidth", "1GB/s"), "--copies"),
        (("--mtbf", "6h", *SHARDS, "--copies", "2"), "--copy-bandwidth"),
        (("--mtbf", "6h", *SHARDS, "--copies", "2", "--copy-bandwidth", "0B/s"), "--copy-bandwidth"),
        (("--mtbf", "6h", *SHARDS, "--copies", "3", "--copy-bandwidth", "1GB/s"), "--copies"),
        (("--mtbf", "6h", *SHARDS, "--copies", "1", "--copy-bandwidth", "1GB/s"), "--copies"),
        (("--mtbf", "6h", *SHARDS, "--copy-bandwidth", "1GB/s"), "--copy-bandwidth"),
        (("--mtbf", "6h", *SHARDS, "--copies", "2", "--copy-bandwidth", "1GB/s", "--delta-write", "1s"), "--copies"),
        (("--mtbf", "0", "--write", "1s"), "--mtbf"),
        (("--mtbf", "6GB", "--write", "1s"), "--mtbf"),
        (("--nodes", "4", "--write", "1s"), "--node-mtbf"),
        (("--software-mtbf", "1d", "--write", "1s"), "--nodes"),
        (("--nodes", "4", "--device-mtbf", "0", "--write", "1s"), "--device-mtbf"),
        (("--nodes", "4", "--rack-mtbf", "1d", "--mtbf", "1d", "--write", "1s"), "--mtbf"),
        (("--law", "gauss:mean=1h", "--write", "1s"), "--law"),
        (("--mtbf", "6h", "--write", "0"), "--write"),
        (("--mtbf", "6h", "--write", "1s", "--async", "1.5"), "--async"),
        (("--mtbf", "6h", "--write", "1s", "--every", "4"), "--every"),
        (("--mtbf", "6h", "--write", "1s", "--every", "1G", "--delta-write", "1s"), "--every"),
        (("--mtbf", "6h", "--write", "1s", "--local-write", "1s"), "--local-write"),
        (("--mtbf", "6h", "--write", "1s", "--local-restart", "1s"), "--local-restart"),
        (("--mtbf", "6h", "--write", "1s", "--local-write", "1s", "--local-frac", "2"), "--local-frac"),
        (("--mtbf", "6h", "--write", "9s", "--local-write", "1s", "--local-frac", "1", "--delta-write", "1s"),
         "--delta-write"),
        (("--mtbf", "6h", "--write", "5min", "--async", "1", "--interval", "1min"), "--interval"),
        (("--mtbf", "6h", "--write", "5min", "--interval", "0"), "--interval"),
        (("--mtbf", "6h", "--write", "5min", "--work", "0"), "--work"),
        (("--mtbf", "6h", "--write", "5min", "--campaigns", "1"), "--campaigns"),
        (("--mtbf", "1s", "--write", "1ms", "--campaigns", "100k", "--simulate"), "--campaigns"),
        (("--mtbf", "6h", "--size", "1TB"), "--storage-bandwidth"),
        (("--mtbf", "6h", "--write", "1s", "--optimizer", "sgd"), "--optimizer"),
        (("--mtbf", "6h", "--size", "1TB", "--storage-bandwidth", "1GB/s", "--ranks", "4"), "--ranks"),
        (("--mtbf", "6h", "--size", "1TB", "--storage-bandwidth", "0"), "--storage-bandwidth"),
        (("--mtbf", "6h", "--write", "1s", "--storage-bandwidth", "1GB/s"), "--write"),
        (("--mtbf", "6h", "--write", "1e300"), "--write"),
    ],
)  # fmt: skip
def test_bad_input_names_its_flag(words: tuple[str, ...], flag: str) -> None:
    assert run("checkpoint", *words).refusal().startswith(f"{flag}: ")


def test_no_progress_exits_with_1() -> None:
    session = run("checkpoint", "--mtbf", "1min", "--write", "1h", "--json")
    assert session.code == 1
    assert "leave no time" in session.json()["why"]


def test_the_minimum_of_the_curve_is_the_stated_overhead() -> None:
    found = lockstep.checkpoint(mtbf="6h", write="5min")
    assert min(overhead for _, overhead in found.curve) == pytest.approx(found.overhead_frac)
    assert found.no_failure_frac == pytest.approx(
        math.exp(-found.to_dict()["run"]["expected_wall_s"] / 21_600), abs=1e-9
    )


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    for words in ((), ("--simulate",), ("--delta-write", "9s")):
        picture = tmp_path / "overhead.svg"
        assert run(*QUESTION, *words, "--plot", str(picture), "--json").code == 0
        assert picture.read_text().lstrip().startswith("<?xml")


def test_the_write_time_is_read_from_a_kept_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKSTEP_RUNS", str(tmp_path))
    words = ("checkpoint", "--mtbf", "6h", "--restart", "10min", "--json")
    assert run(*words, "--write", "run:last").refusal() == f"--write: there are no runs in {tmp_path}"
    with RunStore(tmp_path).start("train", {}) as writer:
        writer.finish({"checkpoints": {"saves": 3, "write_s": 300.0}})
    assert run(*words, "--write", "run:last").json() == run(*words, "--write", "5min").json()
    with RunStore(tmp_path).start("train", {}) as writer:
        writer.finish({"checkpoints": {"saves": 0}})
    assert "saved no checkpoint" in run(*words, "--write", "run:last").refusal()
    for saves in ([3, 300.0], "three", {"saves": 3}, {"saves": 3, "write_s": "long"}, {"saves": 3, "write_s": None}):
        with RunStore(tmp_path).start("train", {}) as writer:
            writer.finish({"checkpoints": saves})
        assert run(*words, "--write", "run:last").refusal().startswith("--write: run 2")
