"""`stack` takes a file and `way` other ways on every verb that has them; what keeps a question keeps their contents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lockstep
from cli_runner import run
from lockstep.base.errors import BadInput
from lockstep.show.verbs import VERBS
from lockstep.show.verbs.words.calling import keywords

from .test_odd_texts import ASKED

TAKING = [verb for verb in VERBS if "stack" in keywords(getattr(lockstep, verb))]
HALVES = """like = "torchtitan"
[ways]
gate = "mine"
norm = "written"
[habits]
repeated_heads = false
[switches]
mfu_convention = "causal"
[gate.mine]
forward = ["several kernels 9"]
backward = ["several kernels 20 x1.5"]
"""
RUN: dict[str, Any] = {"batch": 16, "seq": 2048}
MACHINE = "dgx-a100-80gb:1"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(HALVES)
    return path


def test_stack_and_way_are_accepted_by_the_same_verbs() -> None:
    assert {"plan", "estimate", "campaign", "compare", "report", "export", "support"} <= set(TAKING)
    assert [verb for verb in VERBS if "way" in keywords(getattr(lockstep, verb))] == TAKING


@pytest.mark.parametrize("verb", TAKING)
def test_every_verb_accepts_a_stack_file_and_ways(
    verb: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = {**ASKED[verb], "stack": str(file), "way": "norm=one"}
    if verb == "export":
        words["to"] = "torchtitan-cli"
    if verb == "rollout":
        words |= {"trainer": "plan", "cluster": "dgx-h100:1", "prompts": 64}
    answers = [_answer(verb, {**words, **changes}) for changes in ({}, {"stack": file, "way": {"norm": "one"}})]
    assert answers[0] == answers[1]
    for wrong, said in (("nrom=one", "did you mean norm"), ("norm=onee", "did you mean one"), ("norm", "SLOT=WAY")):
        with pytest.raises(BadInput, match=f"--way.*{said}"):
            _answer(verb, {**words, "way": wrong})
    file.write_text(HALVES.replace("written", "writen"))
    with pytest.raises(BadInput, match=r"mine.toml:4.*did you mean written"):
        _answer(verb, words)


def _answer(verb: str, words: dict[str, Any]) -> Any:
    return getattr(lockstep, verb)(**words).to_dict()


def test_a_way_option_replaces_the_way_and_is_noted() -> None:
    one = lockstep.estimate("llama3-8b", MACHINE, stack="torchtitan", way="norm=written, rotary = one", **RUN)
    software = one.job.recipe.software
    assert (software.name, software.ways["norm"].name, software.ways["rotary"].name) == ("torchtitan", "written", "one")
    said = one.assumptions()
    assert "norm runs as 'written', not as torchtitan's own 'split'" in said
    assert "rotary runs as 'one', not as torchtitan's own 'complex'" in said
    assert one.to_dict()["own_stack"] == {"like": "torchtitan", "ways": {"norm": "written", "rotary": "one"}}
    same = lockstep.estimate("llama3-8b", MACHINE, stack="torchtitan", way="norm=split", **RUN)
    usual = lockstep.estimate("llama3-8b", MACHINE, stack="torchtitan", **RUN)
    assert same.job == usual.job
    assert "own_stack" not in usual.to_dict()
    loss: list[dict[str, Any]] = [
        {"way": "loss=eager"},
        {"cross_entropy": "eager"},
        {"way": "loss=half", "cross_entropy": "eager"},
    ]
    found = [lockstep.estimate("llama3-8b", MACHINE, stack="torchtitan", tp=1, **RUN, **words) for words in loss]
    assert len({(one.step_time_s, float(one.memory.total_B)) for one in found}) == 1
    assert found[0].to_dict()["own_stack"]["switches"] == {"cross_entropy": "eager"}
    with pytest.raises(BadInput, match="says twice"):
        lockstep.estimate("llama3-8b", MACHINE, way="norm=one,norm=split", **RUN)


@pytest.mark.parametrize("said", ['[ways]\nloss = "half"', '[switches]\ncross_entropy = "half"'])
def test_the_loss_follows_the_option_then_the_way_then_the_file(said: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'like = "torchtitan"\n{said}\n')

    def peak(**words: Any) -> tuple[float, float]:
        one = lockstep.estimate("llama3-8b", MACHINE, tp=1, **{"stack": path, **RUN, **words})
        return one.step_time_s, float(one.memory.total_B)

    alone = {word: peak(stack="torchtitan", cross_entropy=word) for word in ("half", "eager", "upcast")}
    assert len({*alone.values()}) == len(alone)
    assert peak() == alone["half"]
    assert peak(cross_entropy="eager") == alone["eager"]
    assert peak(way="loss=upcast") == alone["upcast"]
    assert peak(way="loss=upcast", cross_entropy="eager") == alone["eager"]


def test_a_stack_file_is_named_with_its_changes(file: Path) -> None:
    found = lockstep.estimate("llama3-8b", MACHINE, stack=file, **RUN)
    answer = found.to_dict()
    assert (answer["stack"], answer["support"]) == ("mine", "extrapolated")
    said = "\n".join(answer["assumptions"])
    for sentence in (
        "mine is like torchtitan (a file of one's own)",
        "gate runs as 'mine', not as torchtitan's own",
        "repeated_heads is False, not True",
        "mfu_convention is causal, which torchtitan leaves alone",
    ):
        assert sentence in said


def test_a_plan_compares_stack_files_and_ways(file: Path, tmp_path: Path) -> None:
    found = lockstep.plan("llama3-8b", MACHINE, stack=f"{file},torchtitan", way="norm=one;norm=written", **RUN)
    assert found.best.job.recipe.software.ways["norm"].name == "one"
    out = tmp_path / "plan.yaml"
    best = lockstep.plan("llama3-8b", MACHINE, stack=f"{file},hf-trainer", **RUN, out=out).best
    file.unlink()
    assert lockstep.estimate(out).step_time_s == best.step_time_s


@pytest.mark.parametrize("given", ["file", "file and way", "way"])
def test_a_saved_plan_does_not_need_the_stack_file(given: str, file: Path, tmp_path: Path) -> None:
    words = {"stack": "torchtitan" if given == "way" else str(file)} | ({} if given == "file" else {"way": "norm=one"})
    out = tmp_path / "plan.yaml"
    plan = lockstep.plan("llama3-8b", MACHINE, **words, **RUN, out=out)
    file.unlink()
    read = lockstep.estimate(out)
    assert read.job == plan.best.job
    assert read.to_dict() == lockstep.estimate(plan.best.job.model.name, MACHINE, **_again(read), **RUN).to_dict()
    assert (read.step_time_s, float(read.memory.total_B)) == (plan.best.step_time_s, float(plan.best.memory.total_B))
    same = lockstep.compare(str(out), str(out))
    assert same.difference_s == 0.0
    assert same.a.step_time_s == pytest.approx(plan.best.step_time_s, rel=1e-12)
    assert lockstep.report(out).plan.best.step_time_s == plan.best.step_time_s
    exported = [lockstep.export(one, to="torchtitan-cli").to_dict() for one in (out, plan)]
    assert exported[0]["step_time_s"] == exported[1]["step_time_s"] == plan.best.step_time_s


def _again(found: Any) -> dict[str, Any]:
    """The words of the same question with what a JSON answer says of its software."""
    answer = json.loads(json.dumps(found.to_dict()))
    kept = ("tp", "pp", "dp", "micro_batch", "zero", "recompute")
    used = {name: answer["layout"][name] for name in kept if answer["layout"][name] not in (None, 0, "none")}
    return {"stack": answer["own_stack"], **used}


def test_a_json_answer_contains_enough_to_repeat_the_question(file: Path) -> None:
    first = lockstep.estimate("llama3-8b", MACHINE, stack=file, way="rotary=one", tp=2, micro_batch=1, **RUN)
    own = json.loads(json.dumps(first.to_dict()))["own_stack"]
    file.unlink()
    again = lockstep.estimate("llama3-8b", MACHINE, stack=own, tp=2, micro_batch=1, **RUN)
    assert again.to_dict() == first.to_dict()
    assert again.job == first.job


def test_a_resumed_sweep_uses_the_original_stack_file(file: Path, tmp_path: Path) -> None:
    store = tmp_path / "sweep.jsonl"
    words: dict[str, Any] = {"stack": str(file), "way": "rotary=one", "tp": 2, "micro_batch": 1, "seq": 2048}
    first = lockstep.estimate("llama3-8b", MACHINE, batch="16,32", store=store, **words)
    file.write_text(HALVES.replace(" 9", " 90"))
    assert lockstep.sweeps("resume", str(store)).to_dict() == first.to_dict()
    assert lockstep.sweeps("show", str(store)).to_dict() == first.to_dict()
    file.unlink()
    assert lockstep.sweeps("resume", str(store), engine="processes:2").to_dict() == first.to_dict()


def test_compare_accepts_a_stack_file_or_a_way_as_a_change(file: Path) -> None:
    found = lockstep.compare("llama3-8b", f"stack={file}", MACHINE, stack="torchtitan", tp=2, micro_batch=1, **RUN)
    changed = {one["setting"]: (one["a"], one["b"]) for one in found.changed}
    assert changed["stack"] == ("torchtitan", "mine")
    assert changed["gate"] == ("apart", "mine")
    assert found.in_common, "the file is like torchtitan, whose errors cancel"
    way = lockstep.compare("llama3-8b", "way=norm=written", MACHINE, stack="torchtitan", tp=2, micro_batch=1, **RUN)
    assert way.in_common
    assert [one["setting"] for one in way.changed] == ["norm"]


def test_the_command_line_accepts_stack_files_and_ways(file: Path) -> None:
    words = ("estimate", "llama3-8b", "-c", MACHINE, "--batch", "16", "--seq", "2048", "--micro-batch", "1")
    asked = run(*words, "--stack", str(file), "--way", "norm=one,rotary=one", "--json").json()
    more = {"stack": file, "way": {"norm": "one", "rotary": "one"}}
    assert asked["step_time_s"] == lockstep.estimate("llama3-8b", MACHINE, **RUN, **more, micro_batch=1).step_time_s
    refused = run(*words, "--stack", str(file), "--way", "norms=one")
    assert (refused.code, "did you mean norm?" in refused.err) == (2, True)
    assert run(*words, "--stack", "mine.tmol").err.startswith("error: --stack: unknown software stack")
    assert "mine.toml: there is no such file" in run(*words, "--stack", "nowhere/mine.toml").err


def test_cluster_all_lists_devices_supported_by_the_stack_file(file: Path) -> None:
    file.write_text('like = "torchtitan"\nvendors = ["Google"]\n')
    found = lockstep.estimate("gpt2", "all:8", stack=file, batch=64, tp=1)
    assert {row.given["cluster"].partition(":")[0][:3] for row in found.rows} == {"tpu"}


def test_stack_comparison_lists_the_changes_of_the_file(file: Path) -> None:
    found = lockstep.stack("torchtitan", file)
    rows = {(one.kind, one.name) for one in found.differences or ()}
    assert rows == {("way", "gate"), ("way", "norm"), ("habit", "repeated_heads"), ("switch", "mfu_convention")}
    answer = run("stacks", "torchtitan", str(file), "--json").json()
    assert answer | {"schema": 1} == json.loads(json.dumps(found.to_dict())) | {"schema": 1}
    gate = next(one for one in answer["differences"] if one["name"] == "gate")
    assert (gate["a"]["way"], gate["b"]["way"], gate["b"]["passes"]) == ("apart", "mine", [9.0, 20.0])
    assert lockstep.stack("torchtitan", "torchtitan").differences == ()
    shown = run("stack", "torchtitan", str(file)).out
    assert "mine (like torchtitan)" in shown
    assert "repeated_heads" in shown
    assert len(lockstep.stack().stacks) == len(run("stack", "--json").json()["stacks"]) > 10
    alone = run("stack", "torchtitan").out
    assert "complex" in alone
    assert "apply_rotary_emb" in alone
