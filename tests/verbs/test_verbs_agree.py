"""Step time, throughput and memory of a question are the same to the last digit whichever verb is asked, and how."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import lockstep
from cli_runner import run
from effort import share
from lockstep.base.errors import Infeasible
from lockstep.base.types.plain import Json
from lockstep.show.verbs.words.plan_file import layout_options

QUESTIONS = 200
MODELS = ("llama3-8b", "llama3-70b", "gpt2", "gpt3-6b7", "mixtral-8x7b", "deepseek-v2-lite", "bert-large", "vit-l-16",
          "resnet50", "qwen3-4b", "gemma2-9b", "palm-8b")  # fmt: skip
IMAGES = ("vit-l-16", "resnet50")
CLUSTERS = ("dgx-h100:1", "dgx-h100:2", "dgx-h100:4", "dgx-a100-80gb:2", "dgx-a100-40gb:1", "rtx-4090:4", "dgx-b200:1")
STACKS = (None, None, "megatron-te", "torchtitan", "hf-trainer", "deepspeed", "nanotron")
PINS: tuple[Json, ...] = (
    {}, {}, {}, {"tp": 2}, {"pp": 2}, {"micro_batch": 1}, {"zero": 3}, {"recompute": "full", "zero": 1},
    {"tp": 2, "sequence_parallel": True}, {"cp": 2}, {"dp": 4}, {"pp": 2, "schedule": "zb-h1"},
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A question that some layout may answer."""

    model: str
    cluster: str
    words: Json
    pins: Json

    def __str__(self) -> str:
        return " ".join((self.model, self.cluster, *(f"{name}={value}" for name, value in self.all.items())))

    @property
    def all(self) -> Json:
        """Every word of the plan."""
        return self.words | self.pins


def questions() -> list[Asked]:
    """The same 200 every time."""
    draw = random.Random(49)
    found = []
    for _ in range(QUESTIONS):
        model = draw.choice(MODELS)
        words: Json = {"batch": draw.choice((16, 32, 64, 96, 128))}
        if model not in IMAGES:
            words["seq"] = draw.choice((512, 384, 1000, 256) if model in ("gpt2", "bert-large") else (1024, 2048, 1536))
        stack = draw.choice(STACKS)
        pins = draw.choice(PINS if model not in IMAGES else PINS[:3])
        found.append(Asked(model, draw.choice(CLUSTERS), words | ({"stack": stack} if stack else {}), pins))
    return found


def flags(words: Json) -> Iterator[str]:
    """The words as a command line has them."""
    for name, value in words.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            yield flag if value else f"--no-{flag.removeprefix('--')}"
        else:
            text = "-".join(value) if name == "order" else ",".join(map(str, value)) if name == "stages" else str(value)
            yield from (flag, text)


def figures(verb: str, answer: Json) -> Json:
    """Step time, tokens per second and bytes on the fullest device, those that the answer has."""
    if verb == "plan":
        answer = answer["plans"][0]
    if verb == "sensitivity":
        answer = answer["now"]
    if verb == "compare":
        answer = answer["a"]
    held = answer["memory"]["total_B"] if "memory" in answer else answer.get("memory_B")
    found = {"step_time_s": answer.get("step_time_s"), "tokens_per_s": answer.get("tokens_per_s"), "memory_B": held}
    return {name: value for name, value in found.items() if value is not None}


VERBS: dict[str, tuple[str, ...]] = {
    "estimate": (),
    "memory": (),
    "sensitivity": (),
    "campaign": ("--tokens", "100M", "--campaigns", "2"),
    "compare": (),
}


def answers(asked: Asked, words: Json) -> Iterator[tuple[str, Json]]:
    """What every verb but plan says on the command line, and `estimate` and `memory` in Python."""
    for verb, more in VERBS.items():
        both = ("micro_batch=1",) if verb == "compare" else ()
        session = run(verb, asked.model, *both, "-c", asked.cluster, *flags(words), *more, "--json")
        assert session.code == 0, (verb, session.err)
        yield verb, figures(verb, session.json())
    yield "estimate in Python", figures("estimate", lockstep.estimate(asked.model, asked.cluster, **words).to_dict())
    yield "memory in Python", figures("memory", lockstep.memory(asked.model, asked.cluster, **words).to_dict())


@pytest.mark.parametrize("asked", share(questions(), 25), ids=str)
def test_every_verb_has_the_same_numbers(asked: Asked) -> None:
    session = run("plan", asked.model, "-c", asked.cluster, *flags(asked.all), "--top", "1", "--json")
    try:
        best = lockstep.plan(asked.model, asked.cluster, top=1, **asked.all).best
    except Infeasible:
        assert session.code == 1
        return
    right = figures("plan", session.json())
    assert right == {
        "step_time_s": best.step_time_s, "tokens_per_s": best.tokens_per_s, "memory_B": float(best.memory.total_B)
    }  # fmt: skip
    words = asked.words | (layout_options(best.layout) if asked.pins else {})
    for verb, found in answers(asked, words):
        assert found == {name: right[name] for name in found}, verb
        assert found, verb


def test_most_questions_have_an_answer() -> None:
    """And all kinds are among them."""
    drawn = questions()
    assert len(drawn) == QUESTIONS
    assert {one.model for one in drawn} == {*MODELS}
    assert {one.cluster for one in drawn} == {*CLUSTERS}
