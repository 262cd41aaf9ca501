"""`train`: the list, the keys of the contract, refusals that name the flag, a picture; and that training learns."""

import io
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

import lockstep
from cli_runner import run, shell
from lockstep.base.errors import Stopped
from lockstep.base.store import RunStore
from lockstep.run.train import MODELS, StoppedRun, Task, all_methods, find_method
from lockstep.run.train.result import Lateness, Step
from lockstep.show.verbs.train import Training, _usual_batch
from lockstep.show.views.train import render
from lockstep.simulate.failures.stragglers import LateRank

SHORT = ("--steps", "3", "--batch", "8")


def test_the_list_names_every_method_and_what_can_be_set() -> None:
    listed = run("train", "--json").json()["methods"]
    assert [one["name"] for one in listed] == [one.name for one in all_methods()]
    for one in listed:
        assert {"name", "family", "summary", "source", "settings", "neutral", "models"} <= set(one)
        assert set(one["neutral"] or ()) <= {setting["name"] for setting in one["settings"]}
        assert set(one["models"]) <= set(MODELS)
    table = run("train").out
    assert all(one.name in table for one in all_methods())


def test_listing_the_methods_needs_no_torch() -> None:
    code = (
        "import sys; from lockstep.show.cli import main\ntry: main(['train'])\nfinally: print('torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stdout.endswith("False\n"), found.stderr


def test_keys_of_the_contract() -> None:
    answer = run("train", "synchronous,accumulation", *SHORT, "--set", "microbatches=2", "--json").json()
    assert len(answer["runs"]) == 2
    for one in answer["runs"]:
        assert {"method", "final_loss", "accuracy_frac", "step_time_s", "bytes_per_step_B", "settings"} <= set(one)
        assert [len(one[name]) for name in ("loss", "time_s", "sent_B")] == [3, 3, 3]
        assert one["final_loss"] == one["loss"][-1]
        assert one["bytes_per_step_B"] == sum(one["sent_B"]) / 3 / one["ranks"] > 0
    assert answer["runs"][1]["settings"] == {"microbatches": 2}
    assert any("not a network" in line for line in answer["assumptions"])
    assert {"cores", "scheduling", "congestion_control", "foreign_cores"} <= set(answer["runs"][0]["machine"])


def test_a_setting_with_several_values_runs_each_and_counts_to_a_target() -> None:
    """Two values of one method and one run of another; a loss above the first is reached in the first full window."""
    words = ("--steps", "20", "--batch", "8", "--set", "period=1,4", "--target")
    found = run("train", "local-sgd,synchronous", *words, "9", "--json").json()
    assert [one["settings"].get("period") for one in found["runs"]] == [1, 4, None]
    assert [one["run"] for one in found["reached"]] == ["local-sgd period=1", "local-sgd period=4", "synchronous"]
    for one, reached in zip(found["runs"], found["reached"], strict=True):
        assert (reached["steps"], reached["time_s"]) == (20, sum(one["time_s"]))
    shown = run("train", "local-sgd", *words, "0.001").out
    assert shown.count("not reached") == 2
    assert "local-sgd period=4" in shown


def test_several_seeds_show_the_seconds_of_every_run() -> None:
    """By name without the method that all have: to the target where it is reached, of the median step without one."""
    words = ("local-sgd", "--steps", "20", "--batch", "8", "--set", "period=1,4", "--seed", "0,1")
    for more in ((), ("--target", "9")):
        found = run("train", *words, *more, "--json").json()
        assert [row["seed"] for row in found["rows"]] == [0, 1]
        for row in found["rows"]:
            assert [one["run"] for one in row["seconds"]] == ["period=1", "period=4"]
            for one, trained in zip(row["seconds"], row["runs"], strict=True):
                assert one["time_s"] == (sum(trained["time_s"]) if more else trained["step_time_s"]) > 0
    shown = run("train", *words).out
    assert "time by run" in shown
    assert shown.count("period=1") == shown.count("period=4") == 1
    two = run("train", "local-sgd,synchronous", *words[1:5], "--json").json()
    assert [one["run"] for one in two["seconds"]] == ["local-sgd", "synchronous"]


def test_a_table_and_a_picture(tmp_path: Path) -> None:
    shown = run("train", "synchronous", *SHORT, "--plot", str(tmp_path / "loss.svg"))
    assert shown.code == 0
    assert "right on test data" in shown.out.splitlines()[0]
    assert len(shown.out.splitlines()) < 24
    assert (tmp_path / "loss.svg").read_text().count("<path") > 10


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing",), "METHOD: unknown training method"),
        (("synchronous", "--set", "period=2"), "--set: unknown setting 'period'; try one of: algorithm, bucket_B"),
        (
            ("synchronous", "--ranks", "3", "--batch", "64"),
            "--batch: 64 samples do not split into 3 equal parts; try 63 or 66",
        ),
        (("synchronous", "--batch", "2000"), "--batch: a batch of 2000 is more than the 1438 samples there are"),
        (("synchronous", "--model", "vgg"), "--model: unknown model 'vgg'"),
        (("tensor-parallel", "--model", "cnn"), "--model: tensor-parallel trains mlp, gpt, not cnn"),
        (("tensor-parallel", "--model", "gpt", "--ranks", "3"), "--ranks: 3 ranks do not divide 4 attention heads"),
        (("pipeline", "--set", "schedule=zb-v", "--layers", "3"), "--layers: zb-v on 2 ranks cuts 4 virtual stages"),
        (
            ("pipeline", "--set", "schedule=chimera", "--set", "microbatches=1"),
            "--set schedule: chimera cannot run with",
        ),
        (
            ("random-k", "--set", "scaled=true"),
            "--set error_feedback: random-k is not a contraction with these settings",
        ),
        (("top-k", "--set", "keep_frac=2"), "--set keep_frac"),
        (("hogwild", "--optimizer", "adam"), "--optimizer: ranks that share weights"),
        (("parameter-server", "--ranks", "1"), "--ranks: parameter-server needs at least 2 ranks"),
        (("synchronous", "--timeout", "0"), "--timeout: must be above 0"),
        (("accumulation", "--set", "microbatches=5"), "5 micro-batches do not divide a share of 32 samples"),
        (("synchronous", "--optimizer", "muon"), "--optimizer: unknown optimizer 'muon'"),
        (("synchronous", "--learning-rate", "0"), "--learning-rate: must be above 0"),
        (("synchronous", "--steps", "0"), "--steps"),
        (("synchronous", "--every", "💥"), "--every: needs a folder: --checkpoint DIR"),
        (("synchronous", "--every", ""), "--every: needs a folder"),
        (("synchronous", "--keep", "-1"), "--keep: needs a folder"),
        (("synchronous", "--keep", "1e400"), "--keep: needs a folder"),
        (("synchronous", "--checkpoint", ""), "--checkpoint: must name a folder"),
        (("synchronous", "--tensorboard", ""), "--tensorboard: must name a folder"),
        (("synchronous", "--model", ""), "--model: unknown model"),
        (("synchronous", "--timeout", "1e30"), "--timeout: must be at most 30 d"),
        (("--set", "a=b"), "METHOD: --set and --plot need a method"),
    ],
)
def test_refusals_name_the_flag(words: tuple[str, ...], message: str) -> None:
    assert message in run("train", *words).refusal()


def test_training_learns_and_repeats_itself() -> None:
    """Digits by the MLP in 60 steps: chance is 10 %; the same seed gives the same bits, another one others."""
    words = {"steps": 60, "optimizer": "momentum", "ranks": 2}
    first, again = lockstep.train("synchronous, synchronous", **words).runs
    (other,) = lockstep.train("synchronous", steps=1, seed=1).runs
    assert first.loss[0] == pytest.approx(math.log(10), rel=0.1)
    assert first.accuracy_frac > 0.8
    assert first.loss == again.loss
    assert first.loss[0] != other.loss[0]
    assert first.weights.tobytes() == again.weights.tobytes()


def test_a_diverging_run_is_reported_without_nan() -> None:
    words = ("train", "synchronous", "--learning-rate", "100", "--steps", "12")
    shown, answer = run(*words), run(*words, "--json").json()
    assert "diverged" in shown.out
    assert "nan" not in shown.out
    assert answer["runs"][0]["final_loss"] is None


def test_train_runs_in_a_separate_process() -> None:
    assert shell("train", "synchronous", *SHORT, "--json").json()["runs"][0]["replicas_equal"]


def test_a_straggler_makes_the_others_wait_and_changes_no_bit() -> None:
    words = {"ranks": 2, "steps": 6, "batch": 8}
    plain = lockstep.train("synchronous", **words).runs[0]  # type: ignore[arg-type]
    (late,) = lockstep.train("synchronous", straggler="1:30ms", **words).runs  # type: ignore[arg-type]
    assert plain.lateness is None
    assert late.lateness is not None
    assert late.weights.tobytes() == plain.weights.tobytes()
    assert late.lateness.late_s >= 0.9 * 0.030
    assert late.lateness.predicted_s == late.lateness.on_time_s + 0.030
    shown = run("train", "synchronous", "--steps", "4", "--batch", "8", "--straggler", "0:5ms").out
    assert "rank 0 by 5 ms in every second step" in shown


def test_lateness_excludes_the_straggler_and_the_first_step() -> None:
    """Steps 2, 4, 6 are late; a resumed run goes on counting."""
    times_s = (9.0, 3.0, 1.0, 3.0, 1.0, 4.0)
    steps = [[Step(0.0, time_s, 0) for time_s in times_s], [Step(0.0, 7.0, 0)] * 6]
    found = Lateness.of(LateRank(1, delay_s=2.0), steps, 0)
    assert (found.on_time_s, found.late_s, found.growth_s, found.predicted_s) == (1.0, 3.0, 2.0, 3.0)
    shifted = Lateness.of(LateRank(1, delay_s=2.0), steps, 1)
    assert (shifted.on_time_s, shifted.late_s) == (3.0, 1.0)


@pytest.mark.parametrize(
    ("straggler", "why"),
    [
        ("2:1ms", "rank 2 is not one of 0 to 1"),
        ("1:2x", "delayed by a time"),
        ("soon", "is not a straggler; write rank and delay"),
    ],
)
def test_stragglers_that_cannot_be_measured(straggler: str, why: str) -> None:
    message = run("train", "synchronous", "--steps", "4", "--straggler", straggler).refusal()
    assert message.startswith("--straggler: ")
    assert why in message


@pytest.mark.parametrize("methods", ["synchronous", "parameter-server", "accumulation,parameter-server"])
def test_the_default_batch_splits_over_any_number_of_ranks(methods: str) -> None:
    chosen = [find_method(name) for name in methods.split(",")]
    for ranks in range(2, 17):
        shares = [Task(batch=_usual_batch(chosen, ranks)).share(ranks - one.helpers) for one in chosen]
        assert all(share % 4 == 0 for share in shares)
    assert _usual_batch(chosen, 1 + chosen[0].helpers) == 64


def press_ctrl_c_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a person would press it: while the launcher waits for the next step."""

    @contextmanager
    def pressed(title: str) -> Iterator[Callable[[int, int], None]]:
        def report(done: int, total: int) -> None:
            if done == steps:
                raise KeyboardInterrupt

        yield report

    monkeypatch.setattr("lockstep.show.views.train.progress", pressed)


@pytest.mark.parametrize("method", ["synchronous", "pipeline", "parameter-server"])
def test_ctrl_c_keeps_the_losses_so_far(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where rank 0 sees no loss; and the run is kept as one that was stopped."""
    press_ctrl_c_after(3, monkeypatch)
    words = ("train", method, "--steps", "6", "--batch", "8", "--json", "--runs", str(tmp_path))
    shown = run(*words)
    assert shown.code == 130
    assert shown.err == "stopped by Ctrl-C\n"
    answer = shown.json()
    assert answer["runs"] == []
    stopped = answer["stopped"]
    assert (stopped["method"], stopped["first_step"], stopped["steps_done"], stopped["steps"]) == (method, 0, 3, 6)
    assert [len(stopped[name]) for name in ("loss", "time_s", "sent_B")] == [3, 3, 3]
    assert all(loss > 0 for loss in stopped["loss"])
    kept = RunStore(tmp_path).read("last")
    assert (kept.status, kept.reason) == ("stopped", "stopped by Ctrl-C")
    assert [event["loss"] for event in kept.measurements] == stopped["loss"]


def test_ctrl_c_keeps_the_finished_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    press_ctrl_c_after(5, monkeypatch)
    picture = tmp_path / "loss.svg"
    shown = run("train", "synchronous,accumulation", *SHORT, "--plot", str(picture))
    assert shown.code == 130
    assert "accumulation: stopped by Ctrl-C after 2 of 3 steps" in shown.out
    assert "synchronous: loss" in shown.out
    assert "no picture was drawn" in shown.err
    assert not picture.exists()
    (last,) = (line.split() for line in shown.out.splitlines() if line.split()[:1] == ["2"])
    assert 0 < float(last[1]) < 10


@pytest.mark.parametrize("done", [1, 5, 12, 13, 1000])
def test_long_loss_curves_are_thinned_keeping_both_ends(done: int) -> None:
    steps = tuple(Step(1.0 / (1 + number), 0.1, 8) for number in range(done))
    stopped = StoppedRun("synchronous", Task(steps=2000), 2, {}, 20, steps)
    out = Console(file=io.StringIO(), width=80)
    render(Training((), stopped), out)
    shown = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert shown[0] == f"synchronous: stopped by Ctrl-C after {20 + done:,} of 2,000 steps"
    rows = [line.split() for line in shown[4:]]
    assert rows[0] == ["21", "1.0000"]
    assert rows[-1] == [f"{20 + done:,}", f"{1.0 / done:.4f}"]
    assert len(rows) == min(done, 12)


def test_ctrl_c_before_the_first_step_just_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    def press(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lockstep.run.train.train", press)
    with pytest.raises(KeyboardInterrupt) as caught:
        lockstep.train("synchronous", steps=3)
    assert not isinstance(caught.value, Stopped)
    assert run("train", "synchronous", "--steps", "3").code == 130


@pytest.mark.parametrize("place", ["file", "file/saves", "/proc/saves"])
def test_an_unusable_checkpoint_folder_is_refused_before_the_first_step(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refusal = run("train", "synchronous", "--steps", "9", "--checkpoint", str(tmp_path / place)).refusal()
    assert refusal.startswith("--checkpoint: no checkpoint can be written in ")


def test_a_run_that_was_killed_after_its_last_checkpoint_is_resumed(tmp_path: Path) -> None:
    """Nothing is left to do but the evaluation, and a straggler that is not measured is said."""
    words = ("train", "synchronous", "--steps", "4", "--batch", "8", "--checkpoint", str(tmp_path))
    whole = run(*words, "--json").json()["runs"][0]
    shown = run(*words, "--resume", "--plot", str(tmp_path / "loss.svg"))
    assert shown.code == 0
    assert "synchronous: no step was left to do in 4 steps" in shown.out
    assert "resumed after 4 steps" in shown.out
    answer = run(*words, "--resume", "--straggler", "1:1ms", "--json").json()
    (again,) = answer["runs"]
    for name in ("test_loss", "accuracy_frac", "parameters", "replicas_equal"):
        assert again[name] == whole[name]
    assert (again["loss"], again["final_loss"], again["step_time_s"], again["lateness"]) == ([], None, None, None)
    assert any("the late rank was not measured" in line for line in answer["assumptions"])
    assert "holds a checkpoint after 4 steps already, got 3" in run(*words, "--steps", "3", "--resume").refusal()


def test_the_last_step_is_saved(tmp_path: Path) -> None:
    words = ("train", "synchronous", "--batch", "8", "--checkpoint", str(tmp_path), "--every", "3")
    assert "2 saves of " in run(*words, "--steps", "4").out
    assert "resumed after 4 steps" in run(*words, "--steps", "5", "--resume").out


def test_saved_and_skipped_checkpoints_are_reported(tmp_path: Path) -> None:
    words = ("train", "synchronous", "--batch", "8", "--checkpoint", str(tmp_path), "--every", "2")
    shown = run(*words, "--steps", "4").out
    assert "2 saves of " in shown
    newest = tmp_path / "step-00000004" / "rank-0.npz"
    newest.write_bytes(newest.read_bytes()[:-1])
    shown = " ".join(run(*words, "--steps", "6", "--resume").out.split())
    assert "skipped step-00000004: rank-0.npz is damaged" in shown
    assert "resumed after 2 steps" in shown
