"""The same seeds, the same bits; every source parts two runs where the arithmetic says it must, and only there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cli_runner import run
from lockstep.base.errors import BadInput
from lockstep.run.reproduce import SOURCES, Digests, Parting, Reproduction, Trial, first_parting, reproduce
from lockstep.run.train import Task

TASK = Task(steps=3, batch=16, dropout_frac=0.1)


@pytest.fixture(scope="module")
def on_four() -> Reproduction:
    return reproduce("synchronous", TASK, 4)


@pytest.fixture(scope="module")
def on_two() -> Reproduction:
    return reproduce("synchronous", TASK, 2, switch=["rank-order", "reduction-order", "data-order"])


@pytest.mark.parametrize(
    ("together", "culprits"),
    [(None, ("data-order", "dtype")), (0, ("data-order", "dtype")), (1, ("data-order",)), (3, ("data-order", "dtype"))],
)
def test_each_identified_source_alone_makes_the_runs_differ(together: int | None, culprits: tuple[str, ...]) -> None:
    """`together`: the step at which all sources together part the runs; 0: they do not, None: not tried."""

    def trial(name: str, step: int) -> Trial:
        return Trial((name,), Parting(step, 0, "w") if step else None, 0.0)

    alone = trial("data-order", 1), trial("dtype", 3), trial("rank-order", 0)
    all_of_them = None if together is None else trial("all", together)
    found = Reproduction("synchronous", TASK, 2, trial("nothing", 0), all_of_them, alone)
    assert (found.reproducible, found.culprits) == (True, culprits)


def test_the_same_seeds_give_the_same_bits(on_four: Reproduction) -> None:
    assert on_four.reproducible
    assert on_four.again.largest_difference == 0


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_makes_runs_on_four_ranks_differ(on_four: Reproduction, name: str) -> None:
    trial = next(one for one in on_four.alone if one.name == name)
    assert trial.parting is not None
    assert trial.parting.step == 1
    assert name in on_four.culprits
    # Rounding is of the order of 1e-8; other samples and other inputs are other mathematics.
    assert (trial.largest_difference < 1e-6) == (name in ("reduction-order", "rank-order", "dtype"))


def test_sums_of_two_numbers_do_not_depend_on_order(on_two: Reproduction) -> None:
    """With two ranks there is nothing to reorder: a + b = b + a, to the bit. So only the data can have done it."""
    alone = {trial.name: trial for trial in on_two.alone}
    assert alone["rank-order"].parting is None
    assert alone["reduction-order"].parting is None
    assert on_two.together is not None
    assert on_two.together.parting is not None
    assert on_two.culprits == ("data-order",)


def test_sharded_state_is_compared_on_every_rank() -> None:
    found = reproduce("zero-1", Task(steps=2, batch=16, optimizer="adam"), 2, switch=["data-order"])
    assert found.reproducible
    assert found.culprits == ("data-order",)


def _digests(changes: dict[tuple[int, int, str], str] | None = None) -> list[Digests]:
    """Two ranks, three steps, two tensors, some of them changed."""
    made = []
    for rank in range(2):
        steps = [{name: (changes or {}).get((step, rank, name), "same") for name in ("a", "b")} for step in range(3)]
        made.append(Digests(tuple(steps), np.zeros(1)))
    return made


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({(1, 1, "a"): "x", (2, 0, "a"): "x"}, {"step": 2, "rank": 1, "tensor": "a"}),
        ({(0, 1, "a"): "x", (0, 0, "b"): "x"}, {"step": 1, "rank": 0, "tensor": "b"}),
        ({(2, 1, "b"): "x"}, {"step": 3, "rank": 1, "tensor": "b"}),
    ],
)
def test_the_first_differing_step_and_tensor_are_found(changes: dict[Any, str], where: dict[str, Any]) -> None:
    found = first_parting(_digests(), _digests(changes))
    assert found is not None
    assert found.to_dict() == where
    assert first_parting(_digests(changes), _digests(changes)) is None


def test_methods_without_a_choice_of_all_reduce_refuse_reduction_order() -> None:
    with pytest.raises(BadInput, match="zero-1 has no choice of all-reduce"):
        reproduce("zero-1", TASK, 2, switch=["reduction-order"])


def test_reproduce_answers_and_refuses() -> None:
    answer = run("reproduce", "--ranks", "2", "--steps", "2", "--switch", "data-order", "--json").json()
    assert answer["reproducible"] is True
    assert answer["rows"][0]["parting"] == {"step": 1, "rank": 0, "tensor": "0.0.weight"}
    assert answer["together"] is None
    assert run("reproduce", "--switch", "data").refusal().startswith("--switch: unknown source of difference 'data'")
    assert run("reproduce", "nothing").refusal().startswith("METHOD: unknown training method")
    assert run("reproduce", "--steps", "0").refusal().startswith("--steps: ")


@pytest.mark.parametrize(("switch", "trials"), [(["data-order"], 2), (["data-order", "rank-order"], 4)])
def test_several_sources_are_switched_together_and_alone(
    switch: list[str], trials: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the run that they are compared with: once unchanged, two or more together, each alone."""

    class StartedError(Exception):
        pass

    def start(worker: object, ranks: int, arguments: tuple[list[object]], **words: object) -> None:
        raise StartedError(len(arguments[0]))

    monkeypatch.setattr("lockstep.run.reproduce.launch", start)
    with pytest.raises(StartedError) as started:
        reproduce("synchronous", TASK, 2, switch=switch)
    assert started.value.args == (1 + trials,)
