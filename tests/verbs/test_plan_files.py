"""A plan that is written to a file is the same question and layout for every verb about a run."""

import random
from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep.base.errors import BadInput, Infeasible, UnknownName

VERBS = ("estimate", "memory", "roofline", "sensitivity", "campaign", "export")
QUESTION: dict[str, Any] = {"batch": 32, "seq": 2048}


def written(folder: Path, model: str = "llama3-8b", cluster: str = "dgx-a100-80gb:1", **words: Any) -> tuple[Path, Any]:
    path = folder / "plan.yaml"
    return path, lockstep.plan(model, cluster, **{**QUESTION, **words}, out=path)


@pytest.mark.parametrize("seed", range(12))
def test_a_random_plan_file_round_trips(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    words: dict[str, Any] = {
        "batch": draw.choice((16, 64)),
        "dtype": draw.choice(("bf16", "fp16", "bf16,fp16")),
        "optimizer": draw.choice(("adamw", "adamw-8bit")),
        "pp": draw.choice((None, 2, "1,4")),
        "tp": draw.choice((None, 2)),
        "objective": draw.choice(("time", "robust", "cost")),
        "offload": draw.choice((None, "none,optimizer")),
        "software": draw.choice((None, "megatron", "torchtitan")),
        "stack": draw.choice((None, "megatron-2022")),
    }
    model = draw.choice(("llama3-8b", "gpt2", "mixtral-8x7b"))
    try:
        path, plan = written(tmp_path, model, draw.choice(("dgx-a100-80gb:1", "dgx-h100:2")), **words)
    except Infeasible:
        assert words["software"] is not None
        return
    read = lockstep.estimate(path)
    assert (read.layout, read.job.devices, read.job.model) == (plan.best.layout, plan.job.devices, plan.job.model)
    assert read.step_time_s == plan.best.step_time_s
    assert float(read.memory.total_B) == float(plan.best.memory.total_B)


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_about_a_run_reads_plan_files(name: str, tmp_path: Path) -> None:
    path, plan = written(tmp_path, software="megatron")
    words: dict[str, Any] = {"tokens": "1B", "campaigns": 10} if name == "campaign" else {}
    layout = {name: value for name, value in plan.best.layout.to_dict().items() if name not in ("stages", "mtp_stage")}
    alone = {**words, "stack": plan.job.recipe.software.name, **({"to": "megatron"} if name == "export" else {})}
    used = {word: value for word, value in layout.items() if word in ("tp", "pp", "dp", "micro_batch", "zero")}
    verb = getattr(lockstep, name)
    if plan.best.layout.recompute != "none":
        used["recompute"] = plan.best.layout.recompute
    if plan.best.layout.sequence_parallel:
        used["sequence_parallel"] = True
    assert verb(path, **words).to_dict() == verb("llama3-8b", "dgx-a100-80gb:1", **QUESTION, **used, **alone).to_dict()


def test_explicit_options_override_those_of_the_plan_file(tmp_path: Path) -> None:
    path, plan = written(tmp_path, tp=2)
    assert lockstep.estimate(path, micro_batch=1, batch=64).job.recipe.batch == 64
    wider = lockstep.estimate(path, tp=4)
    assert (wider.layout.tp, wider.layout.dp * 2) == (4, plan.best.layout.dp)
    assert lockstep.estimate(path, cluster="dgx-a100-80gb:2", batch=256).job.devices == 16
    again = lockstep.plan(path)
    assert again.best.step_time_s <= plan.best.step_time_s * 1.03
    assert lockstep.estimate(path, batch_tokens="128k").job.recipe.batch == 64


def test_model_files_are_found_relative_to_the_plan_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "models" / "own.yaml"
    model.parent.mkdir()
    model.write_text(
        "name: own\nlayers: 4\nhidden: 512\nvocab: 1024\nmax_positions: 4096\n"
        "attention: {heads: 8, head_dim: 64}\nmlp: {ffn: 2048, activation: gelu, gated: false}\n"
    )
    monkeypatch.chdir(tmp_path)
    path, plan = written(Path("models"), str(model.relative_to(tmp_path)))
    monkeypatch.chdir(tmp_path.parent)
    assert lockstep.estimate(tmp_path / path).step_time_s == plan.best.step_time_s


@pytest.mark.parametrize(
    ("before", "after", "error", "said"),
    [
        ("zero:", "zeroo:", UnknownName, "did you mean zero"),
        ("  batch: 32", "  batsh: 32", UnknownName, "did you mean batch"),
        ("  batch: 32", "  batch: many", BadInput, "many"),
        ("model:", "modle:", UnknownName, "did you mean model"),
        ("schema: 1", "schema: 2", BadInput, "reads schema 1"),
        ("question:", "question: none\nlayout2:", UnknownName, "layout2"),
    ],
)
def test_errors_in_a_plan_file_are_refused_at_their_line(
    before: str, after: str, error: type[BadInput], said: str, tmp_path: Path
) -> None:
    path, _ = written(tmp_path)
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    line = 1 + text[: text.index(before)].count("\n") + after.count("\n")
    with pytest.raises(error, match=said) as caught:
        lockstep.estimate(path)
    assert caught.value.where == f"{path}:{line}"


def test_a_file_cannot_name_an_object(tmp_path: Path) -> None:
    from lockstep.describe.workload import model

    with pytest.raises(BadInput, match="name of the catalog or a path"):
        lockstep.plan(model("gpt2"), "dgx-h100:1", batch=8, out=tmp_path / "plan.yaml")
    with pytest.raises(BadInput, match=r"must end in \.yaml"):
        lockstep.plan("gpt2", "dgx-h100:1", batch=8, out=tmp_path / "plan.json")
