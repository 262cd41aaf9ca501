"""One wrong value among good ones is refused at its keyword, for every verb and every keyword, before anything starts.

The wrong values follow from the declared type of a keyword, so that a new option is tried without a word here.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lockstep
from cli_runner import run
from effort import drawn
from lockstep.base.errors import BadInput
from lockstep.describe.hardware import cluster as find_cluster
from lockstep.price.layout import Layout
from lockstep.show.verbs import VERBS
from lockstep.show.verbs.words.kinds import Kind, signature
from lockstep.show.verbs.words.quantity import Unit

DRAWS = 3000
SCALING: Callable[..., Any] = lockstep.scaling
TENSOR: Callable[..., Any] = lockstep.tensor
RUN = {"model": "gpt2", "cluster": "dgx-h100", "batch": 8}
LINK = {"latency": "5us", "bandwidth": "25GB/s"}
GOOD: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("plan", "estimate", "memory", "guide", "roofline", "sensitivity", "cite"), RUN),
    "scaling": {**RUN, "tokens": "1B"},
    "export": {**RUN, "to": "megatron"},
    "report": {**RUN, "out": "never-written.html"},
    "campaign": {**RUN, "tokens": "1B"},
    "compare": {"a": "gpt2", "b": "gpt2", "cluster": "dgx-h100", "batch": 8},
    "messages": {"workers": 8, "params": 1000},
    "collective": {"op": "all-reduce", "ranks": 4, "size": "1MB", **LINK},
    "crossover": {"op": "all-reduce", "ranks": 4, **LINK},
    "pipeline": {"stages": 4, "microbatches": 8},
    "overlap": {"layers": 4, "ranks": 4, "backward": "1s", "gradients": "1GB", **LINK},
    "rollout": {"model": "gpt2", "cluster": "l40s:1", "prompts": 4, "prompt_tokens": 16, "response": "32"},
    "tensor": {"ranks": 4, "hidden": 64, "heads": 8, "seq": 64, "flops": "600T", **LINK},
    "experts": {"experts": 8, "tokens": 64, "ranks": 4, **LINK},
    "stragglers": {"workers": 8, "law": "exponential:mean=1"},
    "balance": {"speeds": "4,2", "batch": 6},
    "checkpoint": {"size": "1GB", "mtbf": "1d", "storage_bandwidth": "1GB/s"},
    "speedup": {"compute": "10ms", "size": "1MB", **LINK},
    "trace": {"what": "all-reduce", "out": "never-written.json", "ranks": 4, "size": "1MB", **LINK},
    "train": {"method": "synchronous"},
    "reproduce": {"method": "synchronous"},
    "execute": {"what": "all-reduce", "ranks": 2, "size": "1KB"},
    "bench": {"op": "all-reduce", "ranks": 2},
    "diagnose": {**RUN, "measured": "100ms"},
    "watch": {**RUN, "file": str(Path(__file__).parents[2] / "examples" / "watched.log")},
    "fit": {"file": "missing.txt"},
    "calibrate": {"cluster": "dgx-h100"},
}
"""Keywords of a question that can be answered, or at least read; a verb that is not here has none that it needs."""


class Unknown:
    """An object of a class that nothing takes."""


def _wrong_everywhere() -> list[Any]:
    return [
        Unknown(), Unknown, b"8", bytearray(b"8"), {8}, frozenset({"a"}), {"a": object()}, 8j, (one for one in (8,)),
        np.array([8.0, 9.0]), np.datetime64("2026-01-01"), datetime.datetime(2026, 1, 1), datetime.timedelta(1), range,
        [[8, [9]]], [Unknown()], [None], [float("nan")], Decimal("8"), Fraction(1, 2), "8\0", "\0", NotImplemented, ...,
        float("nan"), float("inf"), -float("inf"), np.float64("nan"), np.float32("inf"),
    ]  # fmt: skip


def _fits(value: Any, part: Any) -> bool:
    """Whether a value of `_wrong_everywhere` is right for one member of a type after all."""
    return part in (Any, object) or (callable(value) and _called(part))


def _called(part: Any) -> bool:
    return getattr(part, "__name__", "") in ("Callable", "Progress")


def wrong_values(kind: Kind) -> list[Any]:
    """Values that a keyword must refuse, by what it takes."""
    names = {getattr(part, "__name__", type(part).__name__) for part in kind.parts}
    numeric = any(isinstance(part, Unit) for part in kind.parts) or names & {"int", "float"}
    found = [value for value in _wrong_everywhere() if not any(_fits(value, part) for part in kind.parts)]
    if "Mapping" in names:
        found = [value for value in found if not isinstance(value, dict)]
    found += [] if "bool" in names else [True, False]
    found += [] if numeric else [8, 8.5, -1, 10**400, np.int64(8)]
    found += [] if "Path" in names else [Path("8")]
    found += [] if "Layout" in names else [Layout()]
    found += [] if "Cluster" in names else [machine()]
    found += [] if "str" in names or numeric else ["", "yes"]
    if any(isinstance(part, Unit) for part in kind.parts):
        found += [-1, -0.5, -(10**400), 10**400, "", " ", "nan", "inf", "-1", "1e400", "8 parsecs", np.int64(-3)]
    return found


@cache
def machine() -> Any:
    return find_cluster("dgx-h100")


def refusal(verb: str, kind: Kind, value: Any) -> bool | str:
    """True where the value is refused at its keyword, else what happened."""
    function: Callable[..., Any] = getattr(lockstep, verb)
    words, given = {**GOOD.get(verb, {}), kind.name: value}, list[Any]()
    if kind.name.endswith("_mtbf") and kind.name != "silent_mtbf":
        words.pop("mtbf", None)
    known = signature(function)
    if kind is known.rest:
        given = [words.pop(name, "show") for name in known.positional] + [words.pop(kind.name)]
    told = f"{verb}({kind.name}={value!r:.60})"
    try:
        found = function(*given, **words)
    except BadInput as error:
        return _names(str(error), kind) or f"{told} does not name it: {error}"
    except Exception as error:
        return f"{told} raised {type(error).__name__}: {error}"
    return f"{told} answered {found!r:.100}"


def _names(said: str, kind: Kind) -> bool:
    return kind.where in said or kind.name in said or kind.name.replace("_", "-") in said


def kinds_of(verb: str) -> list[Kind]:
    """Every keyword of a verb, and what else it is given."""
    known = signature(getattr(lockstep, verb))
    return [*known.kinds.values(), *([known.rest] if known.rest else [])]


def every_wrong_value() -> list[tuple[str, Kind, int]]:
    """Verb, keyword, and which of its wrong values."""
    return [
        (verb, kind, place) for verb in VERBS for kind in kinds_of(verb) for place in range(len(wrong_values(kind)))
    ]


@pytest.fixture(autouse=True)
def _nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No process and no server: a value that is refused is refused before."""
    import socketserver
    import subprocess

    def started(*_: object, **__: object) -> None:
        raise AssertionError("something was started")

    monkeypatch.setattr(subprocess, "Popen", started)
    monkeypatch.setattr(socketserver.TCPServer, "__init__", started)
    monkeypatch.chdir(tmp_path)


def test_one_wrong_value_is_refused_at_its_keyword() -> None:
    for verb, kind, place in random.Random(49).sample(every_wrong_value(), drawn(DRAWS)):
        assert refusal(verb, kind, wrong_values(kind)[place]) is True


@pytest.mark.parametrize("number", [np.int64(4), np.int8(4), np.uint16(4), np.float32(4), np.float64(4), np.array(4)])
def test_numpy_numbers_are_accepted(number: Any) -> None:
    answer = lockstep.messages(workers=number, params=1000)
    assert answer.to_dict() == lockstep.messages(workers=4, params=1000).to_dict()


def test_a_number_that_is_not_finite_never_reaches_an_answer() -> None:
    with pytest.raises(BadInput, match=r"^--weak: expected True or False, got nan$"):
        SCALING("gpt2", "dgx-h100", batch=8, weak=float("nan"))


def test_all_missing_options_are_named_at_once() -> None:
    told = ("--hidden (Width of the layer)", "--heads (", "--seq (Tokens per sequence")
    shell = run("tensor", "--ranks", "8").refusal()
    with pytest.raises(BadInput) as caught:
        TENSOR(ranks=8)
    assert all(one in shell and one in str(caught.value) for one in told)
    assert "--ranks" not in shell
    nothing = run("plan", "gpt2").refusal()
    assert "--cluster: give the cluster" in nothing
    assert "give --batch (sequences" in nothing
    everything = run("plan").refusal()
    assert all(one in everything for one in ("must be given: MODEL (", "--cluster (", "--batch (sequences"))
    assert "--cluster" not in run("plan", "-c", "dgx-h100").refusal()
    assert "--latency and --bandwidth, or --cluster; --flops, or --cluster" in shell
    assert "--flops" not in run("tensor", "--ranks", "8", "-c", "dgx-h100").refusal()


@pytest.mark.parametrize("several", ["1..2", "1,2"])
@pytest.mark.parametrize(("verb", "word"), [("cite", "zero"), ("export", "etp"), ("diagnose", "cp"), ("rig", "ranks")])
def test_a_verb_with_one_answer_refuses_several_values(verb: str, word: str, several: str) -> None:
    with pytest.raises(BadInput, match=rf"^--{word}: takes one number such as .*, not a list or a range"):
        getattr(lockstep, verb)(**{**GOOD.get(verb, {}), word: several})


def test_a_change_is_an_option_of_a_run() -> None:
    with pytest.raises(BadInput, match=r"^B: unknown option 'tpp'; did you mean tp"):
        lockstep.compare("gpt2", {"tpp": 2}, "dgx-h100", batch=8)
    with pytest.raises(BadInput, match=r"^B: unknown option ''"):
        lockstep.compare("gpt2", {"": 2}, "dgx-h100", batch=8)


def test_numbers_in_a_list_of_names_are_refused() -> None:
    with pytest.raises(BadInput, match=r"^--schedule: expected text, got 1"):
        lockstep.plan("gpt2", "dgx-h100", batch=8, schedule=[1, 2])


def test_text_too_long_for_a_path_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^--against"):
        lockstep.diagnose(**GOOD["diagnose"], against="8" * 500)
