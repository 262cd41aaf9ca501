"""`lockstep experts`: load, drops and all-to-all of a mixture-of-experts layer."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.options import required, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import LINK, RANKS, SEED, given

_ROUTER = "Router"
WORDS = {
    "experts": required(("--experts",), "E", "Number of routed experts."),
    "top_k": text("--top-k", "K", "Experts per token. (default: 2)"),
    "tokens": required(("--tokens",), "T", "Tokens of all ranks together."),
    "capacity_factor": text(
        "--capacity-factor", "C", "Capacity of an expert, as a multiple of the mean load. (default: drops nothing)"
    ),
    "token_size": text("--token-size", "S", "Bytes per token sent. (default: 8192, 4096 wide in bf16)"),
    "shared": text("--shared", "N", "Shared experts, which see every token. (default: 0)"),
    "placement": text(
        "--placement", "P", "Placement of experts on ranks: contiguous, round-robin or balanced. (default: contiguous)"
    ),
    "skew": text("--skew", "Z", "Zipf exponent of the experts' popularity. (default: 0)", panel=_ROUTER),
    "temperature": text(
        "--temperature", "T", "Router temperature; above 1 it flattens the popularity. (default: 1)", panel=_ROUTER
    ),
    "noise": text(
        "--noise", "G", "Scale of the Gumbel noise; at 0 all tokens are routed alike. (default: 1)", panel=_ROUTER
    ),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep experts --experts 64 --top-k 2 --tokens 64k --skew 0.6 --capacity-factor 1.25 --ranks 8 "
        + "--latency 2us --bandwidth 300GB/s\n\n"
        + "lockstep experts --experts 256 --top-k 8 --tokens 128k --ranks 64 -c dgx-h100:8 --placement balanced"
    )(experts)


@takes(WORDS, RANKS, SEED, LINK)
def experts(as_json: bool, **words: Any) -> None:
    """Route tokens to experts: load, drops, bytes, and the all-to-all, balanced and skewed."""
    from lockstep import api

    show(api.experts(**given(words)), as_json, "experts")  # type: ignore[arg-type]
