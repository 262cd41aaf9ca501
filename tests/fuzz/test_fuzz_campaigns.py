"""Numbers at the edges for the verbs about whole runs: an answer, a no, or one located line; never a traceback."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from cli_runner import run
from effort import ALL

EXAMPLES = settings(max_examples=60 if ALL else 24, derandomize=True, deadline=None)
VALUES = (
    "0", "-1", "1", "2", "0.5", "1e-300", "1e-9", "1e300", "9" * 400, "nan", "inf", "", "x", "1s", "10min", "30d",
    "1000y", "5%", "150%", "1GB/s", "1TB", "4M", "15T", "$3", "1e15",
)  # fmt: skip
CHECKPOINT = (
    "--mtbf", "--node-mtbf", "--rack-mtbf", "--nodes", "--write", "--restart", "--detection", "--async", "--interval",
    "--work", "--silent-mtbf", "--silent-delay", "--repair", "--spares", "--fewest-nodes", "--replica-nodes",
    "--replaced", "--local-write", "--local-frac", "--delta-write", "--every",
)  # fmt: skip
CAMPAIGN = (
    "--mtbf", "--node-mtbf", "--software-mtbf", "--detection", "--restart", "--write", "--storage-bandwidth",
    "--async", "--interval", "--straggler-cv", "--eval-every", "--eval-tokens", "--data-bandwidth", "--sample-size",
    "--silent-mtbf", "--silent-delay", "--repair", "--spares", "--fewest-nodes", "--price", "--pue", "--carbon",
    "--power", "--reserved-discount", "--spot-discount", "--preemption", "--warmup-steps", "--ramp-from",
    "--ramp-tokens", "--critical-batch-tokens",
)  # fmt: skip
SPEEDUP = ("--compute", "--size", "--serial", "--workers", "--latency", "--bandwidth")


def words(flags: tuple[str, ...]) -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.sampled_from(flags), st.sampled_from(VALUES), min_size=1, max_size=3)


def answered(verb: str, base: dict[str, str], changed: dict[str, str], *more: str) -> None:
    """Exit 0 with finite JSON, 1 with a reason, or 2 with one located line."""
    given_words = [f"{flag}={value}" for flag, value in {**base, **changed}.items()]
    session = run(verb, *more, *given_words, "--json")
    if session.code == 2:
        assert session.refusal()
    else:
        assert session.code in (0, 1)
        json.loads(session.out, parse_constant=lambda name: (_ for _ in ()).throw(AssertionError(name)))


@EXAMPLES
@given(words(CHECKPOINT))
def test_checkpoint_answers_or_refuses_any_number(changed: dict[str, str]) -> None:
    answered("checkpoint", {"--mtbf": "6h", "--write": "1min", "--nodes": "16", "--campaigns": "20"}, changed)


@EXAMPLES
@given(words(CHECKPOINT))
def test_simulated_checkpoint_answers_or_refuses_any_number(changed: dict[str, str]) -> None:
    base = {"--mtbf": "6h", "--write": "1min", "--nodes": "16", "--campaigns": "20", "--work": "10d"}
    answered("checkpoint", base, changed, "--simulate")


@EXAMPLES
@given(words(CAMPAIGN))
def test_campaign_answers_or_refuses_any_number(changed: dict[str, str]) -> None:
    base = {"--cluster": "dgx-a100-80gb:2", "--batch": "64", "--tokens": "1T", "--campaigns": "20", "--dp": "16"}
    answered("campaign", base, changed, "gpt2")


@EXAMPLES
@given(words(SPEEDUP))
def test_speedup_answers_or_refuses_any_number(changed: dict[str, str]) -> None:
    base = {"--compute": "1s", "--size": "1MB", "--latency": "1us", "--bandwidth": "1GB/s", "--workers": "64"}
    answered("speedup", base, changed)
