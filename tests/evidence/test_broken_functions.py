"""Functions that decide, broken one at a time: a check of the item that rests on them must notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lockstep.check.evidence.claims.decide import Bench, seconds
from lockstep.check.evidence.claims.deciders.pipelines import busy, busy_frac
from lockstep.check.evidence.claims.deciders.table import lab_name
from lockstep.check.evidence.claims.entry import Check, Entry
from lockstep.check.evidence.claims.shelf import entries, find_entries
from lockstep.learn.lab import find_experiment

Broken = Callable[[Any], Any]
"""The function as it is -> the broken one."""


def scaled(factor: float) -> Broken:
    """All that it returns times a factor."""
    return lambda real: lambda *given, **words: factor * real(*given, **words)


def other(broken: Callable[..., Any]) -> Broken:
    """Another function in its place."""
    return lambda real: broken


def words(**changed: Callable[[Any], Any]) -> Broken:
    """Called with these words changed, by keyword or else by default."""

    def broken(real: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            return real(*given, **{**named, **{name: change(named.get(name, 0)) for name, change in changed.items()}})

        return call

    return broken


def _more(amount: int) -> Callable[[Any], Any]:
    return lambda value: value + amount


def _algorithm(**changed: Broken) -> Broken:
    """Algorithms whose closed form or program is broken."""

    def broken(real: Any) -> Any:
        def call(op: str, name: str) -> Any:
            found = real(op, name)
            return replace(found, **{part: change(getattr(found, part)) for part, change in changed.items()})

        return call

    return broken


def _slower(real: Any) -> Any:
    """A closed form with a third more bytes."""

    def call(*given: Any, **named: Any) -> Any:
        found = real(*given, **named)
        return replace(found, critical_B=1.33 * found.critical_B)

    return call


def _more_microbatches(real: Any) -> Any:
    return lambda name, stages, microbatches, **named: real(name, stages, microbatches + stages, **named)


DECIDERS, LAB = "lockstep.check.evidence.claims.deciders", "lockstep.learn.lab"
MUTANTS: list[tuple[str, str, Broken, str]] = [
    (f"{DECIDERS}.steps", "descend", words(delay=_more(1)), "E4"),
    (f"{DECIDERS}.steps", "descend", words(delay=_more(1)), "E7"),
    (f"{DECIDERS}.steps", "best_step", other(lambda delay, condition: (1.0, 0.99)), "T8"),
    (f"{DECIDERS}.steps", "largest_stable_step", other(lambda delay, momentum=0.0: 1 / (delay + 1)), "A.16"),
    (f"{LAB}.descent.bounded", "asynchronous", lambda real: lambda times_s, bound=None: real(times_s, 0), "A.6"),
    (f"{DECIDERS}.scaling", "stragglers", words(comm_s=lambda value: 1.3 * value), "T5"),
    (f"{DECIDERS}.scaling", "stragglers", words(comm_s=lambda value: 0.0), "A.8"),
    (f"{DECIDERS}.scaling", "stragglers", words(comm_s=lambda value: 0.0), "B.17"),
    (f"{DECIDERS}.scaling", "stragglers", words(comm_s=lambda value: 2 * value), "A.18"),
    (f"{DECIDERS}.scaling", "stragglers", words(comm_s=lambda value: 0.0), "T10"),
    (f"{DECIDERS}.scaling", "asynchronous",
     other(lambda times: SimpleNamespace(batch_s=np.mean(times), delays=(3.0,))), "B.9"),
    (f"{DECIDERS}.checkpoints", "exact_s", other(lambda write, mtbf: (2 * write * mtbf) ** 0.5), "B.15"),
    (f"{DECIDERS}.checkpoints", "overhead_frac", scaled(1.3), "B.15"),
    (f"{DECIDERS}.checkpoints", "young_s", scaled(2**-0.5), "E11"),
    (f"{DECIDERS}.checkpoints", "first_order_overhead_frac", scaled(0.5), "E11"),
    (f"{DECIDERS}.pipelines", "pipeline", _more_microbatches, "B.6"),
    (f"{DECIDERS}.pipelines", "pipeline", _more_microbatches, "A.4"),
    (f"{DECIDERS}.pipelines", "pipeline", _more_microbatches, "B.13"),
    (f"{DECIDERS}.pipelines", "pipeline", _more_microbatches, "E3"),
    (f"{DECIDERS}.network", "get", _algorithm(terms=_slower), "A.3"),
    (f"{DECIDERS}.network", "get", _algorithm(terms=_slower), "E5"),
    (f"{DECIDERS}.network", "get", _algorithm(terms=_slower), "C.4"),
    (f"{DECIDERS}.network", "get", _algorithm(terms=_slower), "E6"),
    (f"{DECIDERS}.network", "lower_bound_s", scaled(0.5), "B.4"),
    (f"{DECIDERS}.network", "hierarchical_crossing", scaled(2.0), "B.12"),
    (f"{DECIDERS}.network", "messages", lambda real: lambda n, p, name: real(n + 1, p, name), "A.11"),
    (f"{DECIDERS}.network", "experts", words(skew=lambda value: 0.0), "B.19"),
    (f"{DECIDERS}.tensors", "tensor_layer", lambda real: lambda shape, ranks, *rest, **named: replace(
        real(shape, ranks, *rest, **named), sent_B=1.0), "A.13"),
    (f"{LAB}.descent.workers", "outer_gradient", other(lambda start, ends, weights=None: start - ends[0]), "A.9"),
    (f"{LAB}.experiments.local.local_period", "run_s", lambda real: lambda steps, period, compute_s, exchange_s: real(
        steps, 1, compute_s, exchange_s), "C.7"),
    (f"{LAB}.descent.delayed", "descend", words(noise_std=lambda value: 2 * value), "T1"),
    (f"{LAB}.descent.delayed", "descend", words(delay=_more(1)), "T2"),
    (f"{LAB}.experiments.staleness.delay_adaptive", "factor",
     lambda real: lambda step_size, delay: real(step_size, 0), "T3"),
    (f"{LAB}.experiments.compression.aggregation_error", "_biased_gap", scaled(2.0), "T7"),
    (f"{LAB}.experiments.batch.noise_scale", "mean_and_error", lambda real: lambda values: (
        1.5 * real(values)[0], real(values)[1]), "T6"),
]  # fmt: skip


@pytest.mark.parametrize(("module", "name", "broken", "item"), MUTANTS, ids=[f"{one[3]}-{one[1]}" for one in MUTANTS])
def test_a_broken_function_is_noticed(
    module: str, name: str, broken: Broken, item: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = import_module(module)
    _forget()
    entry = next(one for one in entries() if one.id == item)
    for check in entry.every_check():
        if check.by.startswith("lab "):
            # An experiment that is imported while a function is broken would keep the broken one.
            find_experiment(lab_name(check.by)[0])
    monkeypatch.setattr(home, name, broken(getattr(home, name)))
    try:
        assert not _as_known(entry)
    finally:
        _forget()


def _as_known(entry: Entry) -> bool:
    """Whether all checks come out as known; the cheapest first, up to the first that does not."""
    bench = Bench()
    cheapest = sorted(entry.every_check(), key=lambda one: seconds([one]))
    try:
        return all(check.as_known(bench.find(check.by)) for check in cheapest)
    except Exception:  # a broken function that stops the run is noticed too
        return False


def _forget() -> None:
    """What deciders keep from one call to the next."""
    from lockstep.check.evidence.claims.deciders import steps

    for kept in (steps._race, steps._trained):
        kept.cache_clear()


def test_compression_that_forgets_its_factor_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from lockstep.learn.methods.compression import RandomK

    monkeypatch.setattr(RandomK, "factor", lambda self, elems: 1.0)
    (entry,) = find_entries("A.7")
    assert not _as_known(entry)
    assert not find_experiment("compression-noise").answer({}).agrees


def test_a_best_period_without_its_penalty_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from lockstep.learn.lab.experiments.local import local_period

    monkeypatch.setattr(
        local_period, "best_period", lambda c, compute_s, exchange_s: (exchange_s / c / compute_s) ** 0.5
    )
    assert not find_experiment("local-period").answer({}).agrees


def test_the_closed_form_of_busy_devices_is_what_schedules_do() -> None:
    assert busy_frac(4, 8, 1) == pytest.approx(busy(4, 8, "1f1b"), rel=1e-12)
    for stages, microbatches, chunks in ((4, 8, 2), (8, 16, 4), (3, 6, 2)):
        found = busy(stages, microbatches, "interleaved", chunks=chunks)
        assert busy_frac(stages, microbatches, chunks) == pytest.approx(found, rel=1e-12)


def test_checks_of_one_item_are_distinct() -> None:
    for entry in entries():
        keys = [(check.by, check.claimed) for check in entry.every_check()]
        assert len(set(keys)) == len(keys), entry.id
        assert all(isinstance(check, Check) for check in entry.every_check())
