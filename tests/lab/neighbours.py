"""Settings around the defaults of every experiment of the lab, and what the experiments say there.

    python tests/lab/neighbours.py [--experiment NAME] [--pairs 200] [--seed 0] [--limit 60]

Every numeric setting is halved and doubled alone, then pairs of settings are drawn, each times 1/4, 1/2, 2 or 4, within
what each setting allows. A run that refuses its settings together is as good as one that agrees; one whose checks fail,
or that ends in any other error, is printed. `--limit` is in processor
seconds for one run, which is then counted as unfinished.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, fields
from typing import Any

from lockstep.base.errors import BadInput
from lockstep.learn.lab import EXPERIMENTS, find_experiment

FACTORS = (0.25, 0.5, 2.0, 4.0)


@dataclass(frozen=True)
class Trial:
    """One experiment with some settings moved."""

    experiment: str
    settings: Mapping[str, Any]
    seed: int = 0

    def __str__(self) -> str:
        pairs = "".join(f" --set {name}={_text(value)}" for name, value in self.settings.items())
        return f"{self.experiment}{pairs}" + (f" --seed {self.seed}" if self.seed else "")


def _text(value: Any) -> str:
    return ",".join(map(_text, value)) if isinstance(value, tuple) else f"{value:.15g}"


def numeric(experiment: str) -> list[Field[Any]]:
    """The settings that are numbers, or several numbers."""
    return [one for one in fields(find_experiment(experiment).settings) if _is_number(one.default)]


def _is_number(default: Any) -> bool:
    one = default[0] if isinstance(default, tuple) else default
    return isinstance(one, int | float) and not isinstance(one, bool)


def scaled(one: Field[Any], factor: float) -> Any:
    """The default times the factor, of a list every value, within what is allowed."""
    if isinstance(one.default, tuple):
        return tuple(_scaled(one, value, factor) for value in one.default)
    return _scaled(one, one.default, factor)


def _scaled(one: Field[Any], value: float, factor: float) -> float:
    rules, moved = one.metadata, value * factor
    if isinstance(value, int):
        moved = round(moved)
    for key, end in (("least", max), ("most", min)):
        if rules[key] is not None:
            moved = end(moved, rules[key])
    if (rules["below"] is not None and moved >= rules["below"]) or (
        rules["above"] is not None and moved <= rules["above"]
    ):
        moved = value
    return type(value)(moved)


def singles(experiment: str, factors: tuple[float, ...] = (0.5, 2.0)) -> Iterator[Trial]:
    """Every numeric setting halved and doubled alone."""
    for one in numeric(experiment):
        for factor in factors:
            if (moved := scaled(one, factor)) != one.default:
                yield Trial(experiment, {one.name: moved})


def pairs(count: int, seed: int = 0, experiments: tuple[str, ...] = EXPERIMENTS) -> Iterator[Trial]:
    """Drawn pairs of settings, the experiments in turn."""
    draw = random.Random(seed)
    several = [name for name in experiments if len(numeric(name)) >= 2]
    for place in range(count if several else 0):
        name = several[place % len(several)]
        yield Trial(name, {one.name: scaled(one, draw.choice(FACTORS)) for one in draw.sample(numeric(name), 2)})


def answer(trial: Trial) -> str:
    """`agrees`, `refused: ...` with the setting, or what failed."""
    try:
        found = find_experiment(trial.experiment).answer(trial.settings, trial.seed)
    except BadInput as refused:
        return f"refused: {refused}"
    failed = [one for one in found.checks if not one.ok]
    return (
        "agrees"
        if not failed
        else "fails: "
        + "; ".join(
            f"{one.what}: expected {one.relation} {one.expected:.9g}, got {one.got:.9g} "
            f"(se {one.standard_error:.3g}, allowed {one.allowed:.3g}{', false law' if one.false_law else ''})"
            for one in failed
        )
    )


class _OutOfTimeError(Exception):
    pass


def _ring(signum: int, frame: object) -> None:
    raise _OutOfTimeError


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--experiment", choices=EXPERIMENTS)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--factors", type=float, nargs="*", default=(0.5, 2.0))
    parser.add_argument("--limit", type=int, default=60)
    asked = parser.parse_args()
    names = (asked.experiment,) if asked.experiment else EXPERIMENTS
    trials = [trial for name in names for trial in singles(name, tuple(asked.factors))] + list(
        pairs(asked.pairs, asked.seed, names)
    )
    signal.signal(signal.SIGPROF, _ring)
    counts: dict[str, int] = {}
    for trial in trials:
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, asked.limit)
        try:
            said = answer(trial)
        except _OutOfTimeError:
            said = f"unfinished after {asked.limit} s"
        except Exception as error:
            said = f"error: {type(error).__name__}: {error}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        kind = said.split(":", 1)[0].split(" after", 1)[0]
        counts[kind] = counts.get(kind, 0) + 1
        if kind != "agrees":
            print(f"{time.process_time() - started:6.1f} s  {trial}\n    {said}", flush=True)
    print(f"{len(trials)} runs: " + ", ".join(f"{number} {kind}" for kind, number in counts.items()))
    return 1 if counts.get("fails") or counts.get("error") else 0


if __name__ == "__main__":
    sys.exit(main())
