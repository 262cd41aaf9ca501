"""Bad words on the command line, for every verb: exit code 2, one located line, nothing on stdout, no traceback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_runner import Session, run
from effort import ALL, share

RUNS = ("plan", "guide", "estimate", "memory", "roofline", "sensitivity", "cite", "export", "campaign", "scaling")
"""Verbs about a training run."""
BASE = {"--cluster": "dgx-h100", "--batch": "8"}
REQUIRED = {"export": {"--to": "megatron"}, "campaign": {"--tokens": "1B"}}


def asked(verb: str, model: str = "gpt2", **changed: str | None) -> Session:
    """`verb` with good words, some of them changed; None leaves one out."""
    flags = {**BASE, **REQUIRED.get(verb, {})} | {f"--{name.replace('_', '-')}": text for name, text in changed.items()}
    # An equals sign, as a value may begin with a dash.
    return run(verb, model, *(f"{flag}={text}" for flag, text in flags.items() if text is not None))


BAD_WORDS = [
    ({"cluster": "dgx-h10"}, "--cluster: unknown cluster 'dgx-h10'; did you mean dgx-h100"),
    ({"cluster": "dgx-h100:0"}, "at least 1"),
    ({"cluster": "dgx-h100:-1"}, "negative"),
    ({"cluster": "dgx-h100:1.5"}, "whole number"),
    ({"cluster": "dgx-h100:"}, "number of nodes"),
    ({"cluster": "dgx-h100:x"}, "number of nodes"),
    ({"cluster": "dgx-h100:1e12"}, ""),
    ({"cluster": ""}, "--cluster"),
    ({"cluster": "x" * 300}, "--cluster: unknown cluster"),
    ({"cluster": None}, "--cluster"),
    ({"gpus": "0"}, "--gpus: must be at least 1"),
    ({"gpus": "12"}, "--gpus: 12 devices do not fill whole units"),
    ({"gpus": "1e300"}, "--gpus"),
    ({"gpus": "8GB"}, "--gpus: 'GB' is not a unit of count"),
    ({"batch": None}, "--batch: give --batch"),
    ({"batch": "0"}, "--batch: must be at least 1"),
    ({"batch": "-4"}, "--batch"),
    ({"batch": "2.5"}, "--batch: expected a whole number"),
    ({"batch": "nan"}, "--batch: 'nan' is not a count"),
    ({"batch": "inf"}, "--batch"),
    ({"batch": "1e400"}, "--batch"),
    ({"batch": "10ms"}, "--batch: 'ms' is not a unit of count"),
    ({"batch": "9" * 400}, "--batch"),
    ({"batch_tokens": "4M"}, "not both"),
    ({"batch": None, "batch_tokens": "5"}, "--batch-tokens: 5 tokens are less than one sequence"),
    ({"batch": None, "batch_tokens": "1e30"}, "--batch-tokens"),
    ({"batch": None, "batch_tokens": "-4M"}, "--batch-tokens"),
    ({"batch": None, "batch_tokens": "4MB"}, "--batch-tokens: 'MB' is not a unit of count"),
    ({"seq": "0"}, "--seq"),
    ({"seq": "1e18"}, "--seq: must be at most"),
    ({"seq": "8k tokens"}, "--seq"),
    ({"dtype": "fp9"}, "--dtype: h100-sxm has no peak rate"),
    ({"optimizer": "adamW2"}, "--optimizer: unknown optimizer 'adamW2'; did you mean adamw"),
    ({"gradient_bytes": "3"}, "--gradient-bytes"),
    ({"parameter_bytes": "0"}, "--parameter-bytes: must be above 0 and at most 8 bytes"),
    ({"reduce_bytes": "9"}, "--reduce-bytes"),
    ({"dispatch_bytes": "-1"}, "--dispatch-bytes"),
    ({"cached_bytes": "nan"}, "--cached-bytes"),
    ({"cached_attention_bytes": "2MB"}, "--cached-attention-bytes"),
    ({"overlap_device": "1"}, "--overlap-device: must be below 1"),
]


def by_verb(verbs: tuple[str, ...], cases: Sequence[tuple[Any, str]]) -> list[Any]:
    """Each case with a third of the verbs, not the same ones as the case before."""
    return [
        pytest.param(verb, *one, id=f"{verb} {one[0]}"[:60])
        for place, one in enumerate(cases)
        for verb in share(verbs, 3, place)
    ]


@pytest.mark.parametrize(("verb", "changed", "message"), by_verb(RUNS, BAD_WORDS))
def test_invalid_options_are_refused_at_their_flag(verb: str, changed: dict[str, str | None], message: str) -> None:
    if verb == "cite" and changed == {"cluster": None}:
        message = "--cluster"
    assert message in asked(verb, **changed).refusal()


LAYOUT_VERBS = ("estimate", "memory", "roofline", "sensitivity", "cite", "export", "campaign")
BAD_LAYOUTS = [
    ({"tp": "5"}, "--tp: tp=5 does not divide 12 attention heads; try 4 or 6"),
    ({"tp": "0"}, "--tp: must be at least 1"),
    ({"tp": "16"}, "--tp"),
    ({"pp": "13"}, "--pp"),
    ({"pp": "3"}, "--pp: tp*pp*cp = 1*3*1 = 3 does not divide the 8 devices"),
    ({"pp": "1e9"}, "--pp"),
    ({"dp": "3"}, "--micro-batch: dp*micro_batch = 3*1 = 3 does not divide the batch of 8"),
    ({"dp": "4"}, "--dp: dp*tp*pp*cp"),
    ({"ep": "2"}, "--ep"),
    ({"cp": "3"}, "--cp"),
    ({"micro_batch": "3"}, "--micro-batch"),
    ({"vpp": "2", "pp": "2", "schedule": "1f1b"}, "--schedule"),
    ({"schedule": "1f2b"}, "--schedule: unknown pipeline schedule '1f2b'; did you mean 1f1b"),
    ({"zero": "4"}, "--zero: zero must be 0, 1, 2 or 3"),
    ({"zero": "-1"}, "--zero"),
    ({"shard": "3"}, "--shard: shard=3 does not divide"),
    ({"recompute": "some"}, "--recompute: unknown recompute 'some'"),
    ({"offload": "disk"}, "--offload: unknown offload 'disk'"),
    ({"order": "tp-dp"}, "--order"),
    ({"order": "tp-tp-tp-tp-tp"}, "--order"),
]


@pytest.mark.parametrize(("verb", "changed", "message"), by_verb(LAYOUT_VERBS, BAD_LAYOUTS))
def test_layouts_that_break_a_rule_are_refused_at_their_flag(verb: str, changed: dict[str, str], message: str) -> None:
    assert message in asked(verb, **changed).refusal()


@pytest.mark.parametrize("verb", RUNS)
@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("gpt-2x", "MODEL: unknown model 'gpt-2x'; did you mean gpt2"),
        ("", "MODEL"),
        ("no/such/config.json", "no such file"),
        ("no/such/folder", "config.json itself"),
        ("\x00", "MODEL"),
        ("a" * 5000, "MODEL"),
    ],
    ids=["close", "empty", "no-file", "folder", "nul", "long"],
)
def test_invalid_models_are_refused_by_name(verb: str, model: str, message: str) -> None:
    assert message in asked(verb, model).refusal()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pln",), "unknown command 'pln'; did you mean plan?"),
        (("",), "unknown command"),
        (("plan",), "must be given: MODEL ("),
        (("plan", "gpt2"), "--cluster: give the cluster to train on"),
        (("plan", "gpt2", "--cluster"), "--cluster"),
        (("plan", "gpt2", "--clutser", "x"), "--clutser: no such flag; did you mean --cluster?"),
        (("plan", "gpt2", "-c", "dgx-h100", "--batch", "8", "more"), "more"),
        (("plan", "gpt2", "-c", "dgx-h100", "--batch", "8", "--json=1"), "--json"),
        (("plan", "gpt2", "-c", "dgx-h100", "--batch", "8", "--objective", "fame"), "--objective"),
        (
            ("plan", "gpt2", "-c", "dgx-h100", "--batch", "8", "--deadline", "1d"),
            "--deadline: a deadline needs --tokens",
        ),
        (("plan", "gpt2", "-c", "dgx-h100", "--batch", "8", "--tokens", "1B", "--deadline", "1GB"), "--deadline: 'GB'"),
        (("plan", "gpt2", "-c", "dgx-h100", "--batch", "8", "--tokens", "0"), "--tokens: must be more than zero"),
        (("plan", "gpt2", "-c", "dgx-h100", "--batch", "8", "--tokens", "8000"), "--tokens: must be from one step"),
        (("plan", "gpt2", "-c", "dgx-h100", "--batch", "8", "--offload", ""), "--offload: unknown offload"),
        (("plan", "gpt2", "-c", "dgx-h100", "--batch", "8", "--top", "0"), "--top"),
        (("plan", "gpt2", "-c", "dgx-h100", "--batch", "8", "--top", "1e9"), "--top"),
        (("plan", "gpt2", "-c", "dgx-h100", "--batch", "8", "--offload", "disk"), "--offload"),
        (("plan", "resnet50", "-c", "dgx-h100", "--batch", "8", "--seq", "8"), "--seq"),
        (("estimate", "resnet50", "-c", "dgx-h100", "--batch", "8", "--tp", "2"), "--tp"),
        (("export", "gpt2", "-c", "dgx-h100", "--batch", "8"), "--to: name the tool to write for"),
        (("export", "gpt2", "-c", "dgx-h100", "--batch", "8", "--to", "megatorn"), "--to"),
        (("cite", "gpt2"), "--cluster: give the cluster"),
        (("catalog", "modles"), "SHELF: unknown shelf 'modles'; did you mean models?"),
        (("validate", "narayanan"), "TABLE: unknown table 'narayanan'; did you mean narayanan_sc21"),
        (("--verson",), "--verson: no such flag; did you mean --version?"),
    ],
    ids=lambda value: " ".join(value)[:50] if isinstance(value, tuple) else "",
)
def test_invalid_commands_are_refused_by_name(arguments: tuple[str, ...], message: str) -> None:
    assert message in run(*arguments).refusal()


NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(str),
    st.sampled_from(["0", "1", "2", "8", "9007199254740993", "1e308", "1e-308", "4M", "1/2", "0x10", "8_", "1 2", ""]),
    st.text(max_size=12),
)
FLAGS = ("gpus", "batch", "seq", "tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch", "zero", "shard", "gradient_bytes")
PLAN_FLAGS = ("gpus", "batch", "seq", "tokens", "top")


FEWER = settings(max_examples=50 if ALL else 20)


@pytest.mark.parametrize("verb", ["estimate", "memory"])
@FEWER
@given(changed=st.dictionaries(st.sampled_from(FLAGS), NUMBERS, min_size=1, max_size=3))
def test_any_number_gives_an_estimate_or_one_message(verb: str, changed: dict[str, str]) -> None:
    session = run(
        verb, "gpt2", "--json", *(f"--{name.replace('_', '-')}={text}" for name, text in _with_base(changed).items())
    )
    if session.code == 2:
        assert session.refusal()
    else:
        assert session.code in (0, 1)
        assert session.json()["memory"]["fits"] is (session.code == 0)


@FEWER
@given(changed=st.dictionaries(st.sampled_from(PLAN_FLAGS), NUMBERS, min_size=1, max_size=2))
def test_any_number_gives_a_plan_or_one_message(changed: dict[str, str]) -> None:
    session = run("plan", "gpt2", "--json", *(f"--{name}={text}" for name, text in _with_base(changed).items()))
    if session.code == 2:
        assert session.refusal()
    else:
        assert session.code in (0, 1)
        assert session.json()


def _with_base(changed: dict[str, str]) -> dict[str, str]:
    return {"cluster": "dgx-h100", "batch": "8"} | changed


def test_a_seed_without_a_claim_to_run_is_refused() -> None:
    assert run("claims", "--seed", "3").refusal().startswith("--seed: nothing runs here")
