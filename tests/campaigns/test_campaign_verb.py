"""`campaign`: keys of the contract, formula inside the simulation's interval, advice that is true, refusals."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import lockstep
from cli_runner import run
from effort import ALL
from lockstep.base.store import RunStore

BAR = ("campaign", "llama3-70b", "--cluster", "dgx-h100:64", "--batch-tokens", "4M", "--tokens", "15T")
SMALL = ("campaign", "llama3-8b", "-c", "dgx-h100:8", "--batch", "512", "--tp", "2", "--zero", "1")
TOKENS = (*SMALL, "--tokens", "2T")


@pytest.fixture
def alone_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the campaign that is asked for: no other hardware, operation or quantities are tried beside it."""
    for name in ("changes", "tornado"):
        monkeypatch.setattr(import_module("lockstep.decide.campaigns.campaign"), name, lambda scenario: ())


@pytest.fixture(scope="module")
def answer() -> dict[str, object]:
    return run(*BAR, "--json").json()


def test_keys_of_the_contract(answer: dict[str, object]) -> None:
    keys = {"days", "ci95_days", "gpu_hours", "cost", "goodput_frac", "failures", "breakdown", "sensitivity"}
    assert keys <= set(answer)


def test_seventy_billion_parameters_in_one_command(answer: dict) -> None:
    assert answer["bound_by"] == "compute"
    assert len(answer["highest_leverage"]) == 3
    assert sum(answer["breakdown"].values()) == pytest.approx(answer["days"])
    assert answer["breakdown"][answer["bottleneck"]] == max(
        days for name, days in answer["breakdown"].items() if name != "compute"
    )
    assert answer["gpu_hours"] == pytest.approx(answer["days"] * 24 * 512)
    plan = lockstep.plan("llama3-70b", "dgx-h100:64", batch_tokens="4M", tokens="15T")
    assert answer["days"] > plan.best.campaign(15e12)[0]
    assert answer["days"] * answer["goodput_frac"] == pytest.approx(plan.best.campaign(15e12)[0], rel=1e-6)


def test_mean_days_lie_inside_the_confidence_interval_and_the_range(answer: dict) -> None:
    low, high = answer["ci95_days"]
    assert low <= answer["days"] <= high
    assert answer["interval"]["low"] < low < high < answer["interval"]["high"]


def test_changes_are_ranked_by_saving_and_each_saves_time(answer: dict) -> None:
    saved = [one["saved_days"] for one in answer["changes"]]
    assert saved == sorted(saved, reverse=True)
    assert min(saved) > 0
    for one in answer["changes"]:
        assert one["days"] + one["saved_days"] == pytest.approx(answer["days"])
        if one["cost"] is not None:
            assert one["cost"] + one["saved_cost"] == pytest.approx(answer["cost"])


def test_worse_hardware_lengthens_the_run_and_better_hardware_shortens_it(answer: dict) -> None:
    bars = {bar["name"]: bar for bar in answer["sensitivity"]}
    for name in ("peak_flops", "intra_bw", "inter_bw", "mtbf", "storage_bandwidth"):
        assert bars[name]["low"]["days"] > answer["days"] > bars[name]["high"]["days"]
    assert bars["recovery"]["low"]["days"] < answer["days"] < bars["recovery"]["high"]["days"]
    assert bars["price"]["low"]["cost"] == pytest.approx(0.8 * answer["cost"])
    assert bars["price"]["high"]["days"] == answer["days"]


def test_command_and_function_give_the_same_answer() -> None:
    found = lockstep.campaign("llama3-8b", "dgx-h100:8", batch=512, tp=2, zero=1, tokens="2T")
    assert run(*TOKENS, "--json").json()["days"] == found.to_dict()["days"]
    of_estimate = lockstep.campaign(found.scenario.estimate, tokens=2e12)
    assert of_estimate.run.days == found.run.days


def test_same_seed_same_bytes_other_seed_other_runs() -> None:
    first, again, other = (run(*TOKENS, "--seed", seed, "--json").out for seed in ("3", "3", "4"))
    assert first == again != other


@pytest.mark.parametrize("mtbf", ["2h", "12h", "4d"])
def test_formula_and_simulation_agree(mtbf: str) -> None:
    """At one fixed seed; thousands of runs, and the interval 1.7 times as wide as 95 % (1 in 1,000)."""
    words = {"batch": 512, "tp": 2, "zero": 1, "tokens": "100G", "campaigns": 20_000 if ALL else 5_000}
    found = lockstep.campaign("llama3-8b", "dgx-h100:8", **words, mtbf=mtbf, seed=5)
    low, high = found.ci95_days
    assert abs(found.run.days - (low + high) / 2) < 1.7 * (high - low) / 2
    assert found.simulated is not None
    for name, seconds in found.run.losses.by_name().items():
        drawn = getattr(found.simulated, f"{name}_s")
        error = drawn.std() / len(drawn) ** 0.5
        assert seconds == pytest.approx(drawn.mean(), abs=3.3 * error + 1e-9)


LOCAL = ("--local-write", "2s", "--local-frac", "90%")
COMPUTED = ("--storage-bandwidth", "10GB/s")


@pytest.mark.parametrize(
    "saved",
    [("--write", "1min"), ("--write", "1min", *LOCAL), ("--write", "1min", *LOCAL, "--local-restart", "1min"),
     ("--write", "1min", *LOCAL, "--every", "7"), ("--write", "1min", *LOCAL, "--async", "80%"),
     ("--write", "1min", "--delta-write", "5s"), ("--write", "1min", "--delta-write", "5s", "--every", "4"),
     ("--write", "1min", "--delta-write", "5s", "--silent-mtbf", "2d", "--silent-delay", "3h"),
     (*COMPUTED, "--copies", "2"), (*COMPUTED, "--copies", "4", "--local-frac", "50%", "--every", "9"),
     ("--rank-bandwidth", "100MB/s"), ("--rank-bandwidth", "100MB/s", "--ranks", "8", "--local-restart", "9s", *LOCAL)],
)  # fmt: skip
def test_campaign_and_checkpoint_agree_on_the_cost_of_saving(saved: tuple[str, ...], alone_asked: None) -> None:
    """The same words about failures and saving, the same useful work: the same goodput, losses and cycle."""
    common = ("--mtbf", "6h", "--restart", "10min", "--detection", "5min", *saved)
    ours = run(*TOKENS, *common, "--campaigns", "2", "--json").json()
    work_s = ours["days"] * ours["goodput_frac"] * 86_400
    which = () if "--write" in saved else ("llama3-8b",)
    alone = run("checkpoint", *which, "-c", "dgx-h100:8", *common, "--work", f"{work_s!r}s", "--json").json()
    assert ours["days"] * 86_400 == pytest.approx(alone["run"]["expected_wall_s"], rel=1e-12)
    assert ours["checkpoint"]["interval_s"] == pytest.approx(alone["interval_s"], rel=1e-9)
    for name in ("every", "write_s", "kept_checkpoints"):
        assert ours["checkpoint"][name] == pytest.approx(alone[name])
    for name, frac in alone["losses_frac"].items():
        assert ours["breakdown"][name] / ours["days"] == pytest.approx(frac, rel=1e-9, abs=1e-15)


def test_write_time_is_read_from_a_kept_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKSTEP_RUNS", str(tmp_path))
    assert run(*TOKENS, "--write", "run:last").refusal().startswith("--write: ")
    with RunStore(tmp_path).start("train", {}) as writer:
        writer.finish({"checkpoints": {"saves": 3, "write_s": 42.0}})
    assert run(*TOKENS, "--write", "run:last", "--json").json()["checkpoint"]["write_s"] == 42.0


@pytest.mark.parametrize(
    ("words", "said"), [(LOCAL, "local checkpoints of 2 s"), (("--delta-write", "5s"), "deltas of 5 s"),
                        (("--copies", "2"), "copies to peers of")]
)  # fmt: skip
def test_the_table_lists_every_cause_of_lost_time(words: tuple[str, ...], said: str, alone_asked: None) -> None:
    shown = " ".join(run(*TOKENS, "--mtbf", "3h", *words).out.split())
    assert said in shown
    assert "of work, between them a checkpoint of" in shown
    assert "copies in the memory of a peer" not in shown


def test_offers_are_priced_with_their_discounts() -> None:
    words = ("--reserved-discount", "40%", "--spot-discount", "70%", "--preemption", "2d")
    offers = {one["name"]: one for one in run(*TOKENS, *words, "--json").json()["offers"]}
    assert offers["reserved"]["cost"] == pytest.approx(0.6 * offers["on demand"]["cost"])
    assert offers["spot"]["days"] > offers["on demand"]["days"]
    assert offers["spot"]["cost"] == pytest.approx(
        0.3 * offers["on demand"]["cost"] * offers["spot"]["days"] / offers["on demand"]["days"]
    )
    spared = run(*TOKENS, *words, "--repair", "1d", "--spares", "2", "--json").json()
    assert spared["offers"][0]["cost"] == pytest.approx(spared["cost"])
    assert spared["cost"] > spared["gpu_hours"] * spared["offers"][0]["price_per_hour_usd"]
    preempted = run(*TOKENS, "--mtbf", "6h", "--json").json()["days"]
    alone = run(*TOKENS, "--mtbf", "1000y", *words[2:-1], "2d", "--json").json()
    spot = next(one for one in alone["offers"] if one["name"] == "spot")
    assert spot["days"] == pytest.approx(preempted, rel=1e-3)


def test_targets_by_loss_and_by_compute() -> None:
    optimal = run(*SMALL, "--compute-optimal", "--json").json()
    same = run(*SMALL, "--loss", repr(optimal["loss"]), "--json").json()
    assert same["tokens"] == pytest.approx(optimal["tokens"], rel=1e-6)
    kaplan = run(*SMALL, "--compute-optimal", "--scaling-law", "kaplan", "--json").json()
    assert kaplan["tokens"] < optimal["tokens"]
    tight = run(*TOKENS, "--critical-batch-tokens", "4194304", "--json").json()
    assert tight["tokens"] == pytest.approx(4e12)


def test_parts_of_a_cluster_fail_and_come_back() -> None:
    words = ("--device-mtbf", "640d", "--software-mtbf", "10d", "--repair", "1d", "--spares", "1")
    answer = run(*TOKENS, *words, "--warmup-steps", "2000", "--json").json()
    assert answer["mtbf_s"] == pytest.approx(5 * 86_400)
    assert answer["breakdown"]["degraded"] > 0
    assert answer["warmup"]["days"] == pytest.approx(answer["days"] * 2000 / answer["steps"])
    shown = " ".join(run(*TOKENS, *words, "--warmup-steps", "2000").out.split())
    assert "missing nodes" in shown
    assert "warms up over 2,000 steps" in shown


def test_unknown_failure_rates_are_reported_and_not_guessed() -> None:
    words = ("campaign", "bert-large", "-c", "dgx-v100:2", "--batch", "256", "--tokens", "1G")
    answer = run(*words, "--json").json()
    assert (answer["failures"], answer["simulated"], answer["mtbf_s"]) == (0.0, None, None)
    assert any("how often these devices do is not known" in said for said in answer["assumptions"])
    assert "No failures are counted" in run(*words).out


def test_the_table_names_bottleneck_and_changes() -> None:
    shown = " ".join(run(*BAR).out.split())
    assert "Bound by compute" in shown
    assert "Biggest savings: " in shown
    assert "nan" not in shown.lower()


def test_the_tornado_is_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "tornado.svg"
    assert run(*TOKENS, "--plot", str(picture), "--json").code == 0
    assert picture.read_text().lstrip().startswith("<?xml")


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        ((), "--tokens"),
        (("--tokens", "1T", "--loss", "2"), "--tokens"),
        (("--tokens", "0"), "--tokens"),
        (("--tokens", "1"), "--tokens"),
        (("--tokens", "1e30"), "--tokens"),
        (("--tokens", "1T", "--async", "1", "--interval", "1s"), "--interval"),
        (("--tokens", "1T", "--scaling-law", "kaplan"), "--scaling-law"),
        (("--loss", "2", "--scaling-law", "moore"), "--scaling-law"),
        (("--tokens", "1T", "--mtbf", "1h", "--law", "exponential:mean=1h"), "--mtbf"),
        (("--tokens", "1T", "--mtbf", "0"), "--mtbf"),
        (("--tokens", "1T", "--law", "gauss:mean=1h"), "--law"),
        (("--tokens", "1T", "--write", "1s", "--storage-bandwidth", "1GB/s"), "--write"),
        (("--tokens", "1T", "--write", "0"), "--write"),
        (("--tokens", "1T", "--async", "2"), "--async"),
        (("--tokens", "1T", "--interval", "0"), "--interval"),
        (("--tokens", "1T", "--eval-every", "10"), "--eval-tokens"),
        (("--tokens", "1T", "--ramp-from", "1M"), "--ramp-from"),
        (("--tokens", "1T", "--ramp-from", "1M", "--ramp-tokens", "2T"), "--ramp-tokens"),
        (("--tokens", "1T", "--warmup-steps", "1G"), "--warmup-steps"),
        (("--tokens", "1T", "--spot-discount", "60%"), "--spot-discount"),
        (("--tokens", "1T", "--reserved-discount", "1"), "--reserved-discount"),
        (("--tokens", "1T", "--pue", "0.5"), "--pue"),
        (("--tokens", "1T", "--price", "0"), "--price"),
        (("--tokens", "1T", "--campaigns", "1"), "--campaigns"),
        (("--tokens", "1T", "--straggler-cv", "1e400"), "--straggler-cv"),
        (("--tokens", "1T", "--tp", "3"), "--tp"),
        (("--tokens", "1T", "--spares", "1"), "--spares"),
        (("--tokens", "1T", "--repair", "1d", "--replica-nodes", "2"), "--replica-nodes"),
        (("--tokens", "1T", "--repair", "1d", "--fewest-nodes", "9"), "--fewest-nodes"),
        (("--tokens", "1T", "--silent-mtbf", "1d"), "--silent-delay"),
        (("--tokens", "1T", "--local-write", "1s"), "--local-write"),
        (("--tokens", "1T", "--local-restart", "1s"), "--local-restart"),
        (("--tokens", "1T", "--local-write", "1s", "--local-frac", "2", "--mtbf", "1d"), "--local-frac"),
        (("--tokens", "1T", *LOCAL, "--delta-write", "1s"), "--delta-write"),
        (("--tokens", "1T", *LOCAL, "--copies", "2"), "--copies"),
        (("--tokens", "1T", "--copies", "3"), "--copies"),
        (("--tokens", "1T", "--copy-bandwidth", "1GB/s"), "--copy-bandwidth"),
        (("--tokens", "1T", "--every", "4"), "--every"),
        (("--tokens", "1T", "--delta-write", "1s", "--every", "1G"), "--every"),
        (("--tokens", "1T", "--ranks", "8"), "--ranks"),
        (("--tokens", "1T", "--ranks", "65", "--rank-bandwidth", "1GB/s"), "--ranks"),
        (("--tokens", "1T", "--write", "1s", "--rank-bandwidth", "1GB/s"), "--write"),
    ],
)  # fmt: skip
def test_bad_input_names_its_flag(words: tuple[str, ...], flag: str) -> None:
    assert run(*SMALL, *words).refusal().startswith(f"{flag}: ")


def test_a_run_that_never_ends_exits_with_1() -> None:
    session = run(*TOKENS, "--mtbf", "5min", "--json")
    assert session.code == 1
    assert "does not end" in session.json()["why"]


def test_a_layout_that_does_not_fit_is_reported() -> None:
    words = ("campaign", "llama3-70b", "-c", "dgx-h100:8", "--batch", "64", "--tokens", "1T", "--tp", "8")
    assert "does not fit in memory" in " ".join(run(*words).out.split())


def test_an_unreachable_loss_exits_with_1() -> None:
    session = run(*SMALL, "--loss", "1.5", "--json")
    assert session.code == 1
    assert "never gets below" in session.json()["why"]
