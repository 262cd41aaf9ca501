"""Continuous batching: the closed form where lengths are equal, what must hold of any run, and the tail of laws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lockstep.base.errors import BadInput, UnknownName
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Transformer, model
from lockstep.price.generation import Engine, Passes, equal_s, pool_of, read_lengths, simulate_answers, steady
from lockstep.price.generation.equal import reach_sum
from lockstep.simulate.play.law import Empirical


def _passes(name: str, **words: object) -> Passes:
    found = model(name)
    assert isinstance(found, Transformer)
    return Passes(Engine(model=found, cluster=cluster("dgx-h200:1"), **words))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def small() -> Passes:
    return _passes("llama3-8b")


CASES = [
    ("llama3-8b", {}), ("gemma3-27b", {"tp": 2}), ("qwen3-next-80b-a3b", {"tp": 4}), ("gpt-oss-120b", {"tp": 2}),
    ("qwen3-30b-a3b", {"dp": 2, "ep": 2}), ("llama3-8b", {"pp": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "words"), CASES)
@pytest.mark.parametrize(("answers", "most", "group"), [(100, 32, 1), (96, 32, 8), (5, 64, 1)])
def test_equal_lengths_take_what_the_closed_form_says(
    name: str, words: dict[str, object], answers: int, most: int, group: int
) -> None:
    passes = _passes(name, **words)
    pool = pool_of(passes.engine)
    found = simulate_answers(passes, pool, 900, np.full(answers, 700), most, group)
    assert found.total_s == pytest.approx(equal_s(passes, answers, most, 900, 700, group), rel=1e-9)
    assert found.preempted == 0


def test_a_step_at_a_time_gives_the_same() -> None:
    """The sums over steps against a loop over them, with windows in the middle of growing contexts."""
    passes = _passes("gemma3-27b")
    lengths, prompt = np.array([300, 40, 7, 250]), 1000
    context, left = np.full(4, prompt + 1), lengths - 1
    seconds = float(passes.prefill_s(4, prompt))
    while len(left):
        reach = {window: float(np.minimum(context, window or 10**9).sum()) for window in passes.context_s}
        seconds += float(passes.step_s(len(left), reach))
        context, left = context + 1, left - 1
        context, left = context[left > 0], left[left > 0]
    found = simulate_answers(passes, pool_of(passes.engine), prompt, lengths, 4)
    assert found.total_s == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(("start", "steps", "window"), [(5, 7, 0), (5, 7, 8), (5, 7, 3), (5, 7, 100), (5, 0, 8)])
def test_sums_of_growing_contexts(start: int, steps: int, window: int) -> None:
    summed = sum(min(start + step, window or 10**9) for step in range(steps))
    assert reach_sum(start, steps, window) == summed


def test_every_token_is_made_once_and_every_answer_ends(small: Passes) -> None:
    lengths = read_lengths("lognormal:mean=500,cv=1.5", 4096).draw(np.random.default_rng(3), 400)
    found = simulate_answers(small, pool_of(small.engine), 200, lengths, 64, 4)
    assert found.tokens.sum() == lengths.sum()
    assert found.in_flight.max() <= 64
    assert np.all(found.end_s > 0)
    assert found.end_s.max() == found.total_s
    assert np.all(np.diff(found.start_s) >= 0)
    alone = [equal_s(small, 1, 1, 200, int(length)) for length in (lengths.min(), lengths.max())]
    assert found.end_s.min() >= 0.999 * alone[0]
    assert found.total_s >= alone[1]


def test_a_full_pool_preempts_and_still_answers_everything() -> None:
    """A pool for about forty whole answers of 128 in flight: none is lost, and time is not shorter than with room."""
    roomy, tight = _passes("llama3-8b"), _passes("llama3-8b", memory_frac=0.185)
    lengths = read_lengths("lognormal:mean=1k,cv=0.5").draw(np.random.default_rng(1), 200)
    few, many = (simulate_answers(one, pool_of(one.engine), 100, lengths, 128) for one in (tight, roomy))
    assert 0 < pool_of(tight.engine).sequences(1100) < 128
    assert few.preempted > 0 == many.preempted
    assert few.tokens.sum() == lengths.sum()
    assert few.total_s > many.total_s
    held = pool_of(tight.engine)
    assert few.in_flight.max() <= held.sequences(100)


def test_shared_prompts_are_filled_in_once(small: Passes) -> None:
    pool = pool_of(small.engine)
    apart, shared = (simulate_answers(small, pool, 4000, np.full(64, 100), 64, group) for group in (1, 16))
    assert shared.prefill_s < apart.prefill_s / 8
    assert shared.total_s < apart.total_s


def test_a_pool_that_holds_no_answer_says_so() -> None:
    passes = _passes("llama3-8b", memory_frac=0.14)
    pool = pool_of(passes.engine)
    assert pool.sequences(1000) > 0
    with pytest.raises(BadInput, match="does not hold an answer of 1,000,100 tokens"):
        simulate_answers(passes, pool, 100, np.array([10**6]), 4)
    with pytest.raises(BadInput, match="does not hold a prompt"):
        simulate_answers(passes, pool, 10**6, np.array([10]), 4)


def test_steady_engines_and_long_runs_agree(small: Passes) -> None:
    """Answers that end one after another, as a long run of many lengths has them, against the closed form."""
    lengths = read_lengths("exponential:mean=400").draw(np.random.default_rng(0), 6000)
    found = simulate_answers(small, pool_of(small.engine), 300, lengths, 64)
    closed = steady(small.engine, 64, 300, float(lengths.mean()))
    # Contexts of sequences in flight are those of lengths weighted by themselves: twice as long as the mean's half.
    inside = small.equal_step_s(64, 300 + float(np.mean(lengths**2) / np.mean(lengths) / 2))
    expected = float(inside) + 64 / float(lengths.mean()) * closed.prompt_s
    span = found.end_s[np.argsort(found.end_s)[5500]]
    assert span * 64 / lengths[np.argsort(found.end_s)[:5500]].sum() == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("number", [1, 16, 512])
def test_the_longest_of_many_is_that_of_the_exact_law(number: int) -> None:
    """Uniform and exponential laws have closed forms; a cut at c is the integral of 1 - F^n up to c."""
    uniform = read_lengths("uniform:low=100,high=1100")
    assert uniform.expected_longest(number) == pytest.approx(100 + 1000 * number / (number + 1))
    exponential = read_lengths("exponential:mean=1000")
    assert exponential.expected_longest(number) == pytest.approx(1000 * sum(1 / one for one in range(1, number + 1)))
    cut = read_lengths("exponential:mean=1000", 3000)
    grid = np.linspace(0, 3000, 200_001)
    exact = float(np.trapezoid(1 - (1 - np.exp(-grid / 1000)) ** number, grid))
    assert cut.expected_longest(number) == pytest.approx(exact, rel=2e-4)


@pytest.mark.parametrize(("k", "n"), [(1, 3), (2, 3), (3, 3), (5, 16)])
def test_orders_of_percentiles_are_those_of_drawn_answers(k: int, n: int) -> None:
    law = read_lengths("percentiles:p10=500,p50=1k,p90=4k").law
    drawn = np.sort(law.draw(np.random.default_rng(5), 200_000 * n).reshape(-1, n), axis=1)[:, k - 1]
    assert law.expected_order_s(k, n) == pytest.approx(float(drawn.mean()), rel=0.01)


def test_the_longest_of_a_file_and_of_percentiles(tmp_path: Path) -> None:
    path = tmp_path / "answers.txt"
    path.write_text("10\n20\n\n40\n", encoding="utf-8")
    found = read_lengths(str(path))
    assert isinstance(found.law, Empirical)
    assert found.expected_longest(2) == pytest.approx((10 * 1 + 20 * 3 + 40 * 5) / 9)
    straight = read_lengths("percentiles:p0=100,p100=1100")
    shares = (np.arange(100_000) + 0.5) / 100_000
    assert straight.expected_longest(9) == pytest.approx(np.mean(100 * 11**shares ** (1 / 9)), rel=1e-4)
    assert straight.mean == pytest.approx(1000 / np.log(11))
    level = read_lengths("percentiles:p10=50,p20=50,p80=50")
    assert level.mean == pytest.approx(50)


def test_draws_follow_their_law() -> None:
    drawn = read_lengths("lognormal:mean=1k,cv=1", 8192).draw(np.random.default_rng(0), 100_000)
    assert drawn.min() >= 1
    assert drawn.max() == 8192
    assert drawn.mean() == pytest.approx(read_lengths("lognormal:mean=1k,cv=1", 8192).mean, rel=0.01)
    assert np.unique(read_lengths("2k").draw(np.random.default_rng(0), 9)).tolist() == [2048]


@pytest.mark.parametrize(
    "text", ["", "0", "-5", "lognormal:mean=1k", "percentiles:p10=5", "percentiles:p10=5,p50=2", "none.txt", "11M"]
)
def test_lengths_that_are_none(text: str) -> None:
    with pytest.raises(BadInput):
        read_lengths(text)


def test_unknown_laws_are_named() -> None:
    with pytest.raises(UnknownName, match="lognormal"):
        read_lengths("lognorml:mean=1k,cv=1")
