"""What an answer leaves out is said in its verdict and in JSON; software that runs an objective may be planned for."""

from __future__ import annotations

import itertools

import pytest

import lockstep
from cli_runner import run
from lockstep.base.errors import Infeasible
from lockstep.decide.planner.uncounted import not_counted, said_not_counted

MACHINE = ("llama3-8b", "dgx-h100:4")
ASKED = {"batch": 256, "seq": 2048, "zero": 3, "dp": 32}
REFERENCES, REWARDS = ("model", "none", "precomputed", "apart"), ("model", "none", "apart")


def left_out(train: str) -> str:
    found = lockstep.estimate(*MACHINE, train=train, **ASKED)
    assert found.to_dict()["not_counted"] == list(not_counted(found.job))
    return "; ".join(not_counted(found.job))


@pytest.mark.parametrize("name", ["dpo", "grpo", "ppo"])
def test_every_part_of_an_objective_is_priced_or_reported_as_not_counted(name: str) -> None:
    for reference, reward, generation in itertools.product(REFERENCES, REWARDS, ("0", "60%")):
        settings = f"reference={reference}" if name == "dpo" else f"reference={reference},reward={reward}"
        settings += "" if name == "dpo" else f",generation={generation}"
        said = left_out(f"{name}:{settings}")
        assert ("reference" in said) == (reference in ("apart", "precomputed"))
        assert ("the time to generate" in said) == (name != "dpo" and generation == "0")
        assert ("engine" in said) == (name != "dpo")
        assert ("reward model" in said) == (name != "dpo" and reward == "apart")
        assert ("rewards by rules" in said) == (name != "dpo" and reward == "none")
        assert said.endswith("loading data")


@pytest.mark.parametrize("verb", ["estimate", "memory", "plan"])
def test_the_verdict_states_that_generation_is_not_counted(verb: str) -> None:
    words = (verb, "llama3-8b", "-c", "dgx-h100:4", "--batch", "256", "--seq", "2048", "--train")
    layout = () if verb == "plan" else ("--zero", "3")
    told = " ".join(run(*words, "grpo", *layout).out.split())
    verdict = told.split("What fills the memory")[0].split("Best layouts")[0].split("Where the time goes")[0]
    assert "Not counted: the time to generate answers, rewards by rules, the memory of the engine" in verdict
    assert "`lockstep rollout` predicts generation and its engine." in verdict
    assert "lockstep rollout" not in run(*words, "dpo", *layout).out
    assert "Not counted" not in run(*words, "full", *layout).out
    assert "the time to generate answers" in run(*words, "grpo", *layout, "--json").json()["not_counted"]


def test_the_text_of_an_answer_states_what_is_not_counted() -> None:
    found = lockstep.estimate(*MACHINE, train="grpo", **ASKED)
    assert said_not_counted(found.job) in str(found)
    plain = lockstep.estimate(*MACHINE, **ASKED)
    assert said_not_counted(plain.job) == ""
    assert not_counted(plain.job) == ("loading data",)


@pytest.mark.parametrize("software", ["hf", "fsdp"])
@pytest.mark.parametrize("train", ["dpo", "grpo", "grpo:reference=none", "dpo,lora:r=16"])
def test_software_on_which_trl_runs_is_planned_for(software: str, train: str) -> None:
    found = lockstep.plan(*MACHINE, software=software, train=train, batch=256, seq=2048)
    text, layout = lockstep.export(found).text, found.best.layout
    name = train[:3].upper() if train.startswith("dpo") else "GRPO"
    each = layout.micro_batch // (2 if name == "DPO" else 1)
    assert f"{name}Config: per_device_train_batch_size={each}," in text
    assert f"{name}Trainer" in text
    # The newest Trainer's default is TRL's; the paper's form is that of software without a trainer for it.
    assert ("beta=0" in text) == (train == "grpo:reference=none" or (train, software) == ("grpo", "hf"))


@pytest.mark.parametrize(("train", "said"), [
    ("kto", "KTOTrainer"), ("reward", "RewardTrainer"), ("rloo:beta=0", "RLOOConfig: beta=0"),
    ("grpo:beta=0.04,iterations=2,steps-per-generation=4", "GRPOConfig: num_iterations=2"),
    ("grpo:generation-batch=64", "GRPOConfig: generation_batch_size=64"),
])  # fmt: skip
def test_other_trainers_are_named_with_their_settings(train: str, said: str) -> None:
    found = lockstep.plan(*MACHINE, software="hf", train=train, batch=256, seq=2048)
    assert said in lockstep.export(found).text


def test_software_without_a_trainer_of_an_objective_still_refuses_it() -> None:
    for software, train in (("hf", "ppo"), ("megatron", "dpo"), ("torchtitan", "grpo")):
        with pytest.raises(Infeasible, match=train):
            lockstep.plan(*MACHINE, software=software, train=train, batch=256, seq=2048)
