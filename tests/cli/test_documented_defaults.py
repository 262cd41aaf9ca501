"""A default that --help names is the one that holds: written out, it changes nothing in the answer."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import Any

import pytest
import typer

import lockstep
from cli_programs.questions import COMMANDS, LINK
from cli_runner import run
from effort import share
from lockstep.base.units import parse_bandwidth_Bps, parse_size_B, parse_time_s
from lockstep.show.cli.app import build
from lockstep.show.verbs import VERBS
from lockstep.show.verbs.execute import _pipeline

GPT2 = ("gpt2", "--cluster", "dgx-a100-40gb:1", "--batch", "64")
ASKED: dict[str, tuple[str, ...]] = {
    **COMMANDS,
    "plan": ("plan", *GPT2),
    "estimate": ("estimate", *GPT2, "--dp", "8"),
    "campaign": ("campaign", *GPT2, "--tokens", "1G", "--device-mtbf", "1y", "--write", "1min", "--power", "400"),
    "scaling": ("scaling", "gpt2", "-c", "ethernet-25-v100:2", "--batch", "64", "--tokens", "1G"),
    "speedup": ("speedup", "--compute", "10s", "--size", "200MB", *LINK),
    "converge": ("converge", "index-bits", "--sweep", "elems=1000000"),
    "trace": ("trace", "pipeline", "--stages", "2", "--microbatches", "2", "-o", "trace.json"),
    "stragglers": ("stragglers", "--workers", "16", "--law", "lognormal:mean=50ms,cv=0.2"),
}
"""A good question of every verb that neither starts processes nor needs what others left behind."""
REPAIRED = ("checkpoint", "--nodes", "64", "--node-mtbf", "100d", "--write", "1min", "--repair", "1d")
INSTEAD: dict[tuple[str, str], tuple[str, ...]] = {
    ("checkpoint", "--spares"): REPAIRED,
    ("checkpoint", "--grow"): (*REPAIRED, "--fewest-nodes", "32"),
    ("checkpoint", "--replica-nodes"): (*REPAIRED, "--fewest-nodes", "32"),
    ("checkpoint", "--optimizer"): ("checkpoint", "gpt2", "-c", "dgx-h100:64", "--storage-bandwidth", "1GB/s"),
    ("overlap", "--bucket-size"): tuple(word for word in COMMANDS["overlap"] if word != "--sweep"),
    ("estimate", "--overlap-ep"): (
        "estimate", "deepseek-v2-lite", "-c", "dgx-h100:2", "--batch", "256", "--seq", "4096", "--ep", "4", "--pp", "2",
        "--schedule", "dualpipe", "--vpp", "2",
    ),
    ("estimate", "--engine"): ("estimate", *GPT2, "--micro-batch", "1,2"),
    ("balance", "--seed"): ("balance", "--speeds", "lognormal:mean=3,cv=0.2", "--workers", "4", "--batch", "60"),
    ("collective", "--shards"): (
        "collective", "parameter-server", "--ranks", "8", "--size", "1MB", "--density", "10%", *LINK
    ),
    ("campaign", "--scaling-law"): ("campaign", *GPT2, "--loss", "3", "--device-mtbf", "1y"),
    ("campaign", "--epochs"): ("campaign", *GPT2, "--samples", "50k", "--device-mtbf", "1y"),
}  # fmt: skip
BESIDE: dict[tuple[str, str], tuple[str, ...]] = {
    ("stragglers", "--slow-factor"): ("--slow", "2"),
    ("checkpoint", "--replaced"): ("--repair", "1d", "--spares", "1"),
    ("campaign", "--spares"): ("--repair", "1d"),
    ("campaign", "--grow"): ("--repair", "1d", "--fewest-nodes", "1"),
    ("campaign", "--replaced"): ("--repair", "1d", "--spares", "1"),
    ("campaign", "--sample-size"): ("--data-bandwidth", "1GB/s"),
    ("estimate", "--as"): ("--trace", "step.json.gz"),
    ("estimate", "--recompute-modules"): ("--recompute", "selective"),
    ("estimate", "--sharding"): ("--zero", "1"),
    ("estimate", "--gradient-sync"): ("--zero", "2"),
}
"""Questions, and words, without which the one that is left out would mean nothing."""
SAID = {"half of it": "1s", "--gradient-bytes": "4"}
"""Defaults in words, as a value."""
IN_WORDS = re.compile(
    r"^(the|its|all|as |what|those|drops|three|4 times|large |"
    r"\$|replaced|--restart|measured|half$|each|20 of|5 min plus|8 for)"
)


def documented(verbs: set[str]) -> list[tuple[str, str, str]]:
    """(verb, flag, default) of every flag whose help names a value; of flags that several verbs share, once."""
    command: Any = typer.main.get_command(build([verb for verb in VERBS if verb in verbs]))
    found: dict[tuple[str, str], tuple[str, str, str]] = {}
    for verb in sorted(verbs, key=lambda one: (one == "plan", one != "estimate", one)):
        for one in command.commands[verb].params:
            named = re.search(r"\(default: ([^,;)]+)[^)]*\)$", getattr(one, "help", None) or "")
            if named and not IN_WORDS.match(named[1]):
                found.setdefault((one.opts[0], one.help), (verb, one.opts[0], SAID.get(named[1], named[1])))
    return list(found.values())


@cache
def answered(*words: str) -> dict[str, Any]:
    session = run(*words, "--json")
    assert session.code in (0, 1), session.err
    return session.json()


def base(verb: str, flag: str) -> tuple[str, ...]:
    """The question with what the flag needs, and without the flag itself."""
    words = [*INSTEAD.get((verb, flag), ASKED[verb]), *BESIDE.get((verb, flag), ())]
    while flag in words:
        place = words.index(flag)
        del words[place : place + 2]
    return tuple(words)


@pytest.mark.parametrize(("verb", "flag", "default"), share(documented(set(ASKED)), 3))
def test_passing_a_documented_default_changes_nothing(
    verb: str, flag: str, default: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCKSTEP_RUNS", str(tmp_path))
    words = base(verb, flag)
    written: tuple[str, ...] = (flag, default.replace(" ", ""))
    if default in ("on", "off"):
        written = (flag if default == "on" else f"--no-{flag.removeprefix('--')}",)
    elif flag.startswith("[") or not flag.startswith("-"):
        written = (default,)
    assert answered(*words, *written) == answered(*words)


REAL = {"execute", "bench", "rig", "train", "reproduce", "fit", "runs"}
NAMES = {"--async": "async_frac", "--sizes": "sizes"}
PARSE = (parse_time_s, parse_size_B, parse_bandwidth_Bps)


@pytest.mark.parametrize(("verb", "flag", "default"), documented(REAL & set(VERBS)))
def test_documented_defaults_equal_the_defaults_of_the_function(verb: str, flag: str, default: str) -> None:
    """Of verbs that start processes: what the function says itself; None there means that it is chosen inside."""
    name = NAMES.get(flag, flag.strip("-").replace("-", "_"))
    asked = inspect.signature(inspect.unwrap(getattr(lockstep, verb))).parameters
    usual = (asked if name in asked else inspect.signature(_pipeline).parameters)[name].default
    assert usual is None or _equal(usual, default), usual


def _equal(usual: Any, default: str) -> bool:
    if str(usual) == default:
        return True
    for parse in PARSE:
        try:
            if parse(usual, "") == parse(default.replace(" ", ""), ""):
                return True
        except ValueError:
            continue
    return False
