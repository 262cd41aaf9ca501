"""`python tools/first_sight/generation.py decode`: an entry of the ledger of first sights for a table of generation.

What is asked of a row, and how it is read, is in `check/validation/served.py`. Errors are of the time of a token;
`first` asks for the time to the first token of the serving table. The interval is that of training steps, as
generation had none of its own; a row fits where the pool holds one sequence.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from ask import figures, ledger_entry
from published import rows

from lockstep.check.validation.served import Served, decode_rows, serving_rows
from lockstep.decide.planner.interval import spread_on
from lockstep.price.generation import pool_of, steady

FILES = {
    "decode": "rl_decode_mlenergy.csv",
    "serving": "rl_serving_silicon.csv",
    "first": "rl_serving_silicon.csv",
}


def questions(which: str) -> list[Served]:
    """The questions of a table."""
    read = decode_rows if which == "decode" else serving_rows
    return read(rows(FILES[which]))


def answer(which: str, case: Served) -> tuple[float, bool, bool]:
    """Signed error, whether the measured time lies in the interval, whether the weights and a sequence fit."""
    found = steady(case.engine, case.sequences, case.prompt, case.response)
    predicted, measured = found.token_s, case.token_s
    if which == "decode":
        predicted = found.step_s
    elif which == "first":
        predicted, measured = found.first_token_s, case.first_token_s or 0.0
    spread = spread_on(case.engine.cluster.device)
    away = np.log(measured / predicted)
    inside = -spread.below <= away <= np.log1p(spread.above)
    fits = pool_of(case.engine).sequences(case.prompt + case.response) > 0
    return predicted / measured - 1.0, bool(inside), fits


def main() -> None:
    """Prints an entry, and to the error stream its 90th percentile."""
    parser = argparse.ArgumentParser()
    parser.add_argument("which", choices=FILES)
    which = parser.parse_args().which
    cases = questions(which)
    answers = [answer(which, case) for case in cases]
    table = FILES[which].removesuffix(".csv") + ("_first_token" if which == "first" else "")
    print(ledger_entry(table, answers, [case.group for case in cases], {}))
    far = np.quantile(np.abs([one[0] for one in answers]), 0.9)
    print(f"{len(answers)} rows, {figures(answers)}, p90 {far:.3f}", file=sys.stderr)


if __name__ == "__main__":
    main()
