"""What people type for a quantity or a machine is understood, or answered with what was meant, at its field."""

from __future__ import annotations

import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.show.web.typed import typed
from ui.asking import Client

SMALL = {"model": "gpt2", "cluster": "dgx-h100:1", "batch": "64"}
"""A question that is answered fast."""
UNDERSTOOD = {
    "batch_tokens": {"4,000,000": "4000000", "4 000 000": "4000000", "4M tokens": "4M"},
    "tokens": {"15 trillion": "15T", "1.5 Billion tokens": "1.5B", "4.000.000": "4000000", "1.5e12": "1.5e12"},
    "seq": {"8k tokens": "8k", "8,192": "8192"},
    "batch": {"1,024 sequences": "1024", "1.5k": "1.5k"},
    "tokens_per_s": {"43.7k tokens/s": "43.7k"},
    "price": {"$2.50": "2.50"},
    "cluster": {
        "512 H100": "dgx-h100:64",
        "8 x A100": "dgx-a100-80gb:1",
        "4 4090": "rtx-4090:4",
        "64 nodes of dgx-h100": "dgx-h100:64",
        "h100:16": "dgx-h100:2",
    },
    "stages": {"15,16,15,15": "15,16,15,15"},
}
"""What is typed, and the word that is asked, by field."""


@pytest.mark.parametrize("name", UNDERSTOOD)
def test_quantities_and_machines_are_understood(name: str) -> None:
    for said, meant in UNDERSTOOD[name].items():
        assert typed({name: said}) == {name: meant}
        assert typed({name: f" {meant} "}) == {name: meant}


def test_what_is_understood_is_what_is_asked(client: Client) -> None:
    """The command below the answer has the words that the command line takes."""
    words = {**SMALL, "batch": "64 sequences", "seq": "1k tokens", "tokens": "15 billion", "cluster": "8 H100"}
    plain = {**SMALL, "seq": "1024", "tokens": "15B"}
    assert client.json("/ask.json", words)["plans"] == client.json("/ask.json", plain)["plans"]
    shell = client.json("/data/ask", words)["shell"]
    assert "--cluster dgx-h100:1 --batch 64 --seq 1k --tokens 15B" in shell


@pytest.mark.parametrize(
    ("field", "said", "told"),
    [
        ("cluster", "dgx-h100:-1", "'dgx-h100:-1': number of nodes after the colon: a count cannot be negative"),
        ("cluster", "512 bananas", "unknown cluster '512 bananas'"),
        ("batch", "4,5", "takes one value here"),
        (
            "batch_tokens",
            "64 sequences",
            "takes a number of tokens, got '64 sequences'; another field is for sequences",
        ),
        ("tokens", "many", "'many' is not a count; write it like 2048, 4M or 15T"),
        ("model", "gpt", "did you mean gpt2"),
    ],
)
def test_what_is_not_understood_is_refused_at_its_field(field: str, said: str, told: str, client: Client) -> None:
    answer = client.json("/data/ask", {**SMALL, field: said})
    assert answer["where"] == field
    assert told in answer["error"]


def test_the_command_line_says_what_is_meant() -> None:
    with pytest.raises(BadInput, match="did you mean dgx-h100:64"):
        lockstep.estimate("gpt2", "512 H100", batch=64)
    with pytest.raises(BadInput, match="'dgx-h100:x': number of nodes after the colon: 'x' is not a count"):
        lockstep.estimate("gpt2", "dgx-h100:x", batch=64)
    found = lockstep.campaign("gpt2", "dgx-h100:1", batch=64, tokens="15 billion", repair="2 hours")
    assert found.run.work.tokens == 15e9


def test_a_number_of_thousands_of_digits_is_no_machine() -> None:
    with pytest.raises(BadInput, match="unknown cluster"):
        lockstep.estimate("gpt2", "9" * 5000, batch=64)
