"""`compare`: plan files, case studies, models and changes of them stand for the estimates that they describe."""

from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep.base.errors import BadInput, UnknownName

QUESTION: dict[str, Any] = {"cluster": "dgx-h100:2", "batch": 64}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("plans")
    lockstep.plan("llama3-8b", **QUESTION, out=folder / "a.yaml")
    lockstep.plan("llama3-8b", **QUESTION, tp=8, out=folder / "b.yaml")
    return folder / "a.yaml", folder / "b.yaml"


def test_plan_files_give_their_estimates(files: tuple[Path, Path]) -> None:
    found = lockstep.compare(*files)
    assert (found.a.step_time_s, found.b.step_time_s) == tuple(lockstep.estimate(file).step_time_s for file in files)
    assert found.to_dict() == lockstep.compare(*map(lockstep.estimate, files)).to_dict()


def test_options_apply_to_both_runs(files: tuple[Path, Path]) -> None:
    found = lockstep.compare(*files, batch=128)
    assert found.a.step_time_s == lockstep.estimate(files[0], batch=128).step_time_s
    assert found.b.step_time_s == lockstep.estimate(files[1], batch=128).step_time_s


@pytest.mark.parametrize("changes", ["tp=2 pp=2", "tp=2 cluster=dgx-h200:2", "batch-tokens=1M", "sequence-parallel=no"])
def test_changes_are_applied_after_the_options_of_a(changes: str) -> None:
    words: dict[str, Any] = {**QUESTION, "tp": 4, "zero": 1, "sequence_parallel": True}
    said = {name.replace("-", "_"): value for name, value in (part.split("=") for part in changes.split())}
    if "sequence_parallel" in said:
        said["sequence_parallel"] = False
    asked = {**words, **said}
    if "batch_tokens" in said:
        del asked["batch"]
    found = lockstep.compare("llama3-8b", changes, **words)
    assert found.b.step_time_s == lockstep.estimate("llama3-8b", **asked).step_time_s
    assert lockstep.compare("llama3-8b", said, **words).b == found.b


def test_changes_start_from_the_planned_layout() -> None:
    plan = lockstep.plan("llama3-8b", **QUESTION)
    for a, words in ((plan, {}), (plan.best, {}), ("llama3-8b", QUESTION)):
        other = 1 if plan.best.layout.micro_batch > 1 else 2
        found = lockstep.compare(a, f"micro-batch={other}", **words)
        assert found.a.step_time_s == plan.best.step_time_s
        assert [one["setting"] for one in found.changed] == ["micro_batch"]


def test_an_unset_micro_batch_follows_the_batch() -> None:
    """The one that was found for A does not divide the batch among B's replicas."""
    words: dict[str, Any] = {"cluster": "dgx-h100", "batch": 8}
    changed = {one["setting"]: one for one in lockstep.compare("gpt2", "tp=2", **words).changed}
    wanted = changed["micro_batch"]["a"]
    assert wanted * changed["dp"]["b"] > 8
    assert 8 % (changed["micro_batch"]["b"] * changed["dp"]["b"]) == 0
    for changes, more in ((f"tp=2 micro-batch={wanted}", {}), ("tp=2", {"tp": 4, "micro_batch": wanted})):
        with pytest.raises(BadInput, match="--micro-batch"):
            lockstep.compare("gpt2", changes, **words, **more)


def test_the_micro_batch_of_a_plan_file_follows_the_batch_too(tmp_path: Path) -> None:
    """Sixteen replicas of two sequences each became sixty-four, for which a batch of 64 leaves one."""
    lockstep.plan("gpt2", "dgx-h100:2", batch=64, micro_batch=2, tp=1, pp=1, cp=1, out=tmp_path / "plan.yaml")
    changed = {one["setting"]: one for one in lockstep.compare(tmp_path / "plan.yaml", "cluster=dgx-h100:8").changed}
    assert (changed["micro_batch"]["a"], changed["micro_batch"]["b"], changed["dp"]["b"]) == (2, 1, 64)


def test_a_change_outside_the_layout_is_planned_again() -> None:
    found = lockstep.compare("llama3-8b", "cluster=dgx-a100-40gb:2", **QUESTION)
    assert found.b.step_time_s == lockstep.plan("llama3-8b", "dgx-a100-40gb:2", batch=64).best.step_time_s


def test_dp_follows_from_the_other_degrees(files: tuple[Path, Path]) -> None:
    assert lockstep.compare(files[0], "tp=2").b.settings["dp"] == 8


def test_case_studies_by_name_and_by_file(tmp_path: Path) -> None:
    from importlib import resources

    text = (
        resources.files("lockstep.check.validation.cases")
        .joinpath("studies/gpt3-175b-megatron.yaml")
        .read_text("utf-8")
    )
    (tmp_path / "own.yaml").write_text(text, encoding="utf-8")
    found = lockstep.compare("case:gpt3-175b-megatron", tmp_path / "own.yaml")
    assert found.same
    assert found.a.devices == 1024


@pytest.mark.parametrize(
    ("b", "where", "kind"),
    [
        ("tp=3", "--tp", BadInput),
        ("tpp=2", "B", UnknownName),
        ("tp=2 pp", "B", BadInput),
        ("tp=2 tp=4", "B", BadInput),
        ("sequence-parallel=perhaps", "B", BadInput),
        ("no-such-model", "B", BadInput),
    ],
)
def test_bad_input_is_located(b: str, where: str, kind: type[BadInput]) -> None:
    with pytest.raises(kind) as caught:
        lockstep.compare("llama3-8b", b, **QUESTION, tp=2)
    assert caught.value.where == where


def test_an_estimate_accepts_only_changes_of_its_layout() -> None:
    found = lockstep.estimate("llama3-8b", **QUESTION, tp=2)
    with pytest.raises(BadInput, match="give a MODEL"):
        lockstep.compare(found, "batch=128")
    with pytest.raises(BadInput, match="no effect on an estimate"):
        lockstep.compare(found, "tp=4", batch=128)
