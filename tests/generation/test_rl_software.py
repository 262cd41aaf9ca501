"""Configurations for software of reinforcement learning: read back, counted by hand, and refused with reasons."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import lockstep
from lockstep.base.errors import Infeasible, LockstepError
from lockstep.decide.planner.imports import recognised
from lockstep.decide.planner.rl_export import RL_SOFTWARE
from lockstep.describe.workload import model

MACHINE = ("qwen2.5-7b", "dgx-h100:2")
ASKED: dict[str, Any] = {"prompts": 64, "group": 16, "prompt_tokens": 512, "response": 2048, "train_batch": 256}
APART: dict[str, Any] = {"split": 8, "staleness": 2}
PLAIN: dict[str, Any] = {"train": "grpo:beta=0", "train_batch": 1024}
"""What prime-rl trains: no reference, one update."""
PLAINLY = {"zero": 0}
"""What a word of a layout is where it is not given, if not 1."""


def files(software: str, **words: Any) -> dict[str, str]:
    found = lockstep.rollout(*MACHINE, **ASKED | words, software=software)
    assert found.configuration is not None
    assert found.configuration.software == software
    return dict(found.configuration.files)


def flags(text: str) -> dict[str, str]:
    """Of a command whose options are --NAME VALUE or --NAME."""
    words = shlex.split(text.replace("\\\n", " "), comments=True)[3:]
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        if word.startswith("--"):
            value = words[at + 1] if at + 1 < len(words) else "--"
            found[word[2:]] = "" if value.startswith("--") else value
    return found


@pytest.mark.parametrize(
    ("software", "trainer", "placed"),
    [
        ("verl", "zero=3,micro-batch=2", {}),
        ("verl", "zero=3,recompute=full,micro-batch=4", APART),
        ("verl", "tp=2,pp=2,zero=1,sequence-parallel,micro-batch=1", {}),
        ("verl", "tp=4,zero=1,sequence-parallel,recompute=full,micro-batch=2", APART),
        ("verl", "pp=2,zero=1,micro-batch=1,recompute=selective", APART),
        ("nemo-rl", "zero=3,micro-batch=2", {}),
        ("nemo-rl", "zero=3,recompute=full,micro-batch=4", APART),
        ("nemo-rl", "tp=4,zero=1,sequence-parallel,micro-batch=2", {}),
        ("nemo-rl", "tp=2,pp=2,zero=1,sequence-parallel,micro-batch=1", APART),
    ],
)
def test_what_is_written_is_read_back_as_the_same_trainer(software: str, trainer: str, placed: dict[str, Any]) -> None:
    found = lockstep.rollout(*MACHINE, **ASKED | placed, trainer=trainer, software=software)
    assert found.configuration is not None
    assert found.step is not None
    ((name, text),) = found.configuration.files.items()
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(("defaults", "#")))
    read = recognised(text, name, model(MACHINE[0]))
    assert read is not None
    layout = found.step.trainer.layout
    flags = {"tp": layout.tp, "pp": layout.pp, "cp": layout.cp, "micro_batch": layout.micro_batch, "zero": layout.zero}
    assert {name: read.layout.get(name, PLAINLY.get(name, 1)) for name in flags} == flags
    assert read.layout.get("recompute", "none") == layout.recompute
    assert bool(read.layout.get("sequence_parallel")) == layout.sequence_parallel
    assert (read.words["batch"], read.words["seq"]) == (256, 2560)
    assert read.words["gpus"] == found.step.trainer.cluster.num_devices


def test_numbers_of_trl_make_up_updates_and_generations() -> None:
    written = files("trl", trainer="zero=3,micro-batch=2", train="grpo:beta=0.04")
    said = yaml.safe_load(written["trl-grpo.yaml"])
    ranks = yaml.safe_load(written["accelerate.yaml"])["num_processes"]
    update = said["per_device_train_batch_size"] * said["gradient_accumulation_steps"] * ranks
    assert (update, said["generation_batch_size"], said["num_generations"]) == (256, 64 * 16, 16)
    assert said["beta"] > 0
    assert said["vllm_mode"] == "colocate"
    assert yaml.safe_load(files("trl", trainer="zero=3", train="grpo:beta=0")["trl-grpo.yaml"])["beta"] == 0


def test_a_server_of_trl_is_named_beside_its_trainer() -> None:
    found = lockstep.rollout(
        "llama3-8b", "dgx-h100:2", **ASKED, trainer="zero=3", split=8, rollout_tp=8, software="trl"
    )
    assert found.configuration is not None
    text = found.configuration.files["trl-grpo.yaml"]
    assert "trl vllm-serve --model" in text
    assert "--tensor_parallel_size 8" in text
    assert yaml.safe_load(text)["vllm_mode"] == "server"


@pytest.mark.parametrize("placed", [{}, {"split": 8}, APART])
def test_engines_and_trainers_of_openrlhf_fill_the_devices(placed: dict[str, Any]) -> None:
    said = flags(files("openrlhf", trainer="zero=3", rollout_tp=2, **placed)["openrlhf.sh"])
    trains = int(said["actor.num_nodes"]) * int(said["actor.num_gpus_per_node"])
    generates = int(said["vllm.num_engines"]) * int(said["vllm.tensor_parallel_size"])
    assert (generates, trains) == ((8, 8) if placed else (16, 16))
    assert ("train.colocate_all" in said) == ("vllm.enable_sleep" in said) == (not placed)
    assert said.get("train.async_queue_size") == ("2" if placed == APART else None)
    assert int(said["rollout.batch_size"]) * int(said["rollout.n_samples_per_prompt"]) == 4 * int(
        said["train.batch_size"]
    )


def test_nodes_of_prime_rl_are_those_of_the_step() -> None:
    said = tomllib.loads(files("prime-rl", trainer="zero=3,recompute=full", **APART, **PLAIN)["prime-rl.toml"])
    assert said["deployment"] == {
        "type": "multi_node", "gpus_per_node": 8, "num_train_nodes": 1, "num_infer_nodes": 1,
    }  # fmt: skip
    assert said["orchestrator"].pop("train") == {"sampling": {"max_completion_tokens": 2048}}
    assert said["orchestrator"] == {"batch_size": 1024, "group_size": 16, "max_off_policy_steps": 2}
    assert said["inference"]["parallel"] == {"tp": 1, "dp": 8}
    assert said["trainer"]["model"]["ac"]["mode"] == "full"


@pytest.mark.parametrize(
    ("software", "words", "why"),
    [
        ("verl", {"split": 8}, "give --staleness 1 or more"),
        ("verl", {"group": 32, "prompts": 32, "train_batch": 16}, "no whole number of groups of 32"),
        ("trl", APART, "waits for the answers"),
        ("trl", {"split": 8}, "it talks to one server"),
        ("openrlhf", {"weights_dtype": "fp8"}, "engines in fp8"),
        ("openrlhf", {"trainer": "pp=2"}, "pp=2 of the trainer"),
        ("prime-rl", PLAIN, "give --split"),
        ("prime-rl", APART | {"train_batch": 1024}, "a reference model"),
        ("nemo-rl", {"trainer": "zero=2"}, "zero 2"),
        ("nemo-rl", {"train": "rloo"}, "rloo (--train rloo)"),
        ("verl", {"train": "grpo,lora:r=16"}, "adapters"),
        ("verl", {"experts_dtype": "fp8"}, "experts in fp8"),
    ],
)
def test_what_software_does_not_run_is_refused_with_the_reason(software: str, words: dict[str, Any], why: str) -> None:
    with pytest.raises(Infeasible, match=why.replace("(", r"\(").replace(")", r"\)")):
        files(software, **{"trainer": "zero=3"} | words)


@pytest.mark.parametrize("software", sorted(RL_SOFTWARE))
def test_a_plan_for_software_is_one_that_it_runs_and_no_worse_than_any(software: str) -> None:
    words = {"trainer": "plan", "software": software} | (APART | PLAIN if software == "prime-rl" else {})
    found = lockstep.rollout(*MACHINE, **ASKED | words)
    assert found.step is not None
    assert found.step.fits
    assert RL_SOFTWARE[software].refuses_step(found) is None
    layout = found.step.trainer.layout
    if software in ("trl", "prime-rl", "openrlhf"):
        assert layout.pp == 1


def test_a_search_keeps_to_steps_that_software_runs() -> None:
    words = ASKED | {"trainer": "zero=3", "search": True, "software": "verl"}
    found = lockstep.rollout(*MACHINE, **words)
    alone = [lockstep.rollout(*MACHINE, **ASKED, trainer="zero=3", software="verl", rollout_tp=tp) for tp in (1, 2, 4)]
    assert found.step is not None
    assert all(one.colocated for one in found.choices), "verl has no step apart without staleness"
    assert found.step.step_time_s == min(one.step.step_time_s for one in alone if one.step is not None)
    with pytest.raises(Infeasible, match="waits for the answers"):
        lockstep.rollout(*MACHINE, **words | {"software": "trl", "staleness": 1})


def test_files_are_written_where_they_are_wanted(tmp_path: Path) -> None:
    found = lockstep.rollout(*MACHINE, **ASKED, trainer="zero=3", software="trl", export=tmp_path / "run")
    assert found.configuration is not None
    assert {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "run").iterdir()} == dict(
        found.configuration.files
    )
    for words, why in (({"export": tmp_path}, "--for verl"), ({"software": "verl2"}, "verl")):
        with pytest.raises(LockstepError, match=why):
            lockstep.rollout(*MACHINE, **ASKED, trainer="zero=3", **words)
