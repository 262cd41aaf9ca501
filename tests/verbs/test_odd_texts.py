"""An odd text in any keyword that takes text is answered or refused there; no answer holds NaN or infinity."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lockstep
from effort import drawn
from lockstep.base.errors import BadInput, Infeasible
from lockstep.show.verbs import VERBS
from lockstep.show.verbs.words.kinds import Kind, signature
from lockstep.show.verbs.words.quantity import Unit

from .test_wrong_values import GOOD, kinds_of

ODD = (
    "", " ", "-", "--x", "0x10", "0b1", "1_0", "+4", "-1", "٤", "ü💥", "\ud800", "\0", "a\nb", "[/red]", "{}", "%s",
    ":", ",", "=", "a=", "=a", "a:b:c", "a,b,,", "1..", "..2", "..", "../..", "/", "~", "*", "@", "#", "'", '"',
    "null", "file:///x", "\u202e", "9" * 5000, "x" * 100_000, "é" * 200,
)  # fmt: skip
TEXTS, FINITE = 600, 450
PROCESSES = {"capture", "train", "reproduce", "execute", "bench", "rig", "ui"}
"""Verbs that start processes or a server: tests/measure and tests/fuzz try their words."""
ALONE: dict[str, dict[str, Any]] = {
    "case": {"name": "bloom-176b"}, "validate": {"tables": "korthikanti_2022"},
    "converge": {"experiment": "index-bits"},
    "claims": {}, "catalog": {}, "stack": {}, "support": {}, "runs": {"action": "list"},
    "find": {"top": 3},
    "sweeps": {"action": "list"},
}  # fmt: skip
"""Cheap questions of verbs that `GOOD` has none for."""
ASKED = {name: words for name, words in {**GOOD, **ALONE}.items() if name not in PROCESSES}


def test_every_verb_is_covered() -> None:
    assert {*ASKED, *PROCESSES} == {*VERBS}


def texts() -> Iterator[tuple[str, Kind, str]]:
    """Verb, keyword and text, of every keyword that takes text or a number."""
    for verb in ASKED:
        for kind in kinds_of(verb):
            if any(part is str or isinstance(part, Unit) for part in kind.parts):
                yield from ((verb, kind, text) for text in ODD)


def answer(verb: str, words: dict[str, Any]) -> Any:
    """What the verb says, with the words that stand for further arguments in their place."""
    function: Callable[..., Any] = getattr(lockstep, verb)
    known = signature(function)
    if known.rest is None or known.rest.name not in words:
        return function(**words)
    given = [words.pop(name, "show") for name in known.positional]
    return function(*given, words.pop(known.rest.name), **words)


def named(value: object) -> str:
    """A short name of a case: texts by their place among the odd ones."""
    return value.name if isinstance(value, Kind) else f"text{ODD.index(value)}" if value in ODD else str(value)


@pytest.mark.parametrize(("verb", "kind", "text"), random.Random(49).sample([*texts()], drawn(TEXTS)), ids=named)
def test_unusual_text_is_answered_or_refused_at_a_keyword(
    verb: str, kind: Kind, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCKSTEP_RUNS", str(tmp_path / "runs"))
    words = {**ASKED[verb], kind.name: text}
    try:
        answer(verb, words)
    except Infeasible:
        return
    except BadInput as error:
        # A number may be right alone and wrong beside another, whose keyword is named then.
        told = str(error)
        assert any(name in told or name.replace("_", "-") in told for name in (kind.where, *signature_of(verb))), told
        assert len(told) < 2500


def signature_of(verb: str) -> list[str]:
    """Names of the verb's keywords, and of files that it was given."""
    return [*(one.name for one in kinds_of(verb)), "missing.txt"]


LONG = {("claims", "run"), ("claims", "all")}
"""Keywords that run every experiment of the lab."""
NUMBERS = (
    "1", "2", "3", "4", "8", "16", "64", "1000", "1e6", "0.5", "0.1", "10%", "100%", "0", "1MB", "1GB", "1B", "5us",
    "1ms", "10s", "1h", "30d", "25GB/s", "1T", "600T", "4,8", "1e-6", "1e12",
)  # fmt: skip
NAMES: dict[str, tuple[Any, ...]] = {
    "model": ("gpt2", "llama3-8b", "mixtral-8x7b", "resnet50", "bert-large", "vit-b-16", "t5-base"),
    "cluster": ("dgx-h100", "dgx-a100-40gb:2", "rtx-4090:4", "ethernet-25-v100:2"),
    "dtype": ("bf16", "fp8", "fp16", "fp32"), "train": ("full", "dpo", "grpo", "lora:r=16"),
    "stack": ("megatron-te", "torchtitan", "deepspeed", "hf-trainer"), "recompute": ("full", "selective"),
    "schedule": ("gpipe", "1f1b", "zb-h1", "interleaved", "dualpipe"), "offload": ("optimizer", "parameters"),
    "optimizer": ("sgd", "adamw", "muon"), "op": ("all-gather", "all-to-all", "broadcast", "reduce-scatter"),
    "law": ("normal:mean=1s,cv=0.1", "pareto:minimum=1s,shape=1.5", "constant:value=0s", "exponential:mean=1ms"),
    "jitter": ("lognormal:mean=1,cv=0.05",), "mitigation": ("drop:1", "backup:2", "local:4"),
    "speeds": ("1", "4,2,1", "2x1,3x5"), "mfu_convention": ("causal", "6n"), "objective": ("time", "cost"),
}  # fmt: skip
"""Values that are good in some questions; others are refused."""


def questions() -> Iterator[tuple[str, dict[str, Any]]]:
    """A good question of a verb with one to three of its keywords changed."""
    draw = random.Random(50)
    while True:
        verb = draw.choice([*ASKED])
        words = dict(ASKED[verb])
        changing = [one for one in kinds_of(verb) if one.name in NAMES or one.unit is not None or bool in one.parts]
        changing = [one for one in changing if (verb, one.name) not in LONG]
        for kind in draw.sample(changing, min(len(changing), draw.randint(0, 3))):
            pool = NAMES.get(kind.name, NUMBERS if kind.unit is not None else (True, False))
            words[kind.name] = draw.choice(pool)
        yield verb, words


def faults(value: Any, path: str = "") -> Iterator[str]:
    """Where a plain answer holds a number that is none."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from faults(one, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for place, one in enumerate(value):
            yield from faults(one, f"{path}[{place}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{path}={value}"


def test_no_answer_contains_nan_or_infinity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCKSTEP_RUNS", str(tmp_path / "runs"))
    answered = dict.fromkeys(ASKED, 0)
    asked = questions()
    for _ in range(drawn(FINITE)):
        verb, words = next(asked)
        try:
            found = answer(verb, dict(words)).to_dict()
        except (BadInput, Infeasible):
            continue
        answered[verb] += 1
        assert [*faults(found)] == [], (verb, words)
    assert sum(answered.values()) > drawn(FINITE) / 4
