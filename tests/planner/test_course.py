"""Epochs over a data set against the libraries that make them: rows, micro-batches, steps; padding and time.

The rows of epochs.jsonl were counted with transformers 5.24.0 (Trainer.set_initial_training_values), accelerate
(BatchSamplerShard) and TRL 1.16.0 (pack_dataset, RepeatSampler), for settings drawn by a seed. Lengths of samples that
are packed are numpy's lognormal draws of the seed in the row.
"""

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lockstep
from lockstep import workload
from lockstep.base.errors import BadInput
from lockstep.decide.planner.course import Course
from lockstep.decide.planner.estimate import estimate
from lockstep.decide.planner.samples import PACKINGS, Samples, best_fit, read_samples, split
from lockstep.describe.hardware import cluster
from lockstep.price.layout import Job, Layout, Recipe

ROWS = [json.loads(line) for line in Path(__file__).with_name("epochs.jsonl").read_text("utf-8").splitlines()]
MODEL = workload.model("llama3-8b")


def asked(row: dict[str, Any]) -> tuple[Course, Job, Layout]:
    """The run of a row in words of Lockstep."""
    settings = {
        "generations": row.get("generations"),
        "iterations": row.get("iterations"),
        "steps-per-generation": row.get("steps_per_generation"),
    }
    said = ",".join(f"{name}={value}" for name, value in settings.items() if value is not None)
    samples = None
    if "seed" in row:
        drawn = np.random.default_rng(row["seed"]).lognormal(math.log(row["mean"]), 0.8, row["samples"])
        samples = Samples(row["samples"], np.maximum(1, drawn.astype(int)))
    course = Course(row["samples"], row["epochs"], samples, row.get("packing", "none"))
    recipe = Recipe.by(
        "trl",
        seq=row.get("seq", 2048),
        batch=row["micro_batch"] * row["dp"] * row["accumulation"],
        train=f"grpo:{said}" if said else "full",
    )
    return course, Job(MODEL, course.recipe(recipe), row["dp"]), Layout(dp=row["dp"], micro_batch=row["micro_batch"])


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: f"{row['kind']} {row['samples']} {row['micro_batch']}x{row['dp']}"
)
def test_steps_are_those_of_the_trainers(row: dict[str, Any]) -> None:
    course, job, layout = asked(row)
    found = course.steps(job, layout)
    assert (found.steps_per_epoch, found.steps) == (row["steps_per_epoch"], row["steps"])
    left = row["micro_batches"] % row["accumulation"]
    assert found.closing == (found.steps // found.steps_per_epoch if left else 0)
    assert found.closing_microbatches == (left if found.closing else 0)
    if course.samples is not None:
        rows = course.samples.rows(course.packing, row["seq"])
        assert (len(rows.tokens), rows.tokens.sum()) == (row["rows"], row["tokens"])


def test_other_software_runs_from_one_epoch_into_the_next() -> None:
    recipe = Recipe.by("megatron", seq=2048, batch=8)
    found = Course(20, 2).steps(Job(MODEL, recipe, 1), Layout(micro_batch=2))
    assert (found.steps, found.closing) == (5, 0)


def test_a_closing_step_takes_less_than_a_whole_one_and_more_than_its_share() -> None:
    """The update and what else a step does once are in both."""
    machine, recipe = cluster("dgx-h100", gpus=1), Recipe.by("trl", seq=2048, batch=8, train="lora:r=16")
    one = estimate(Job(MODEL, recipe, 1), machine, Layout(micro_batch=2, recompute="full"))
    seconds = one.campaign(Course(20, 1))[0] * 86_400
    assert one.step_time_s * (2 + 2 / 4) < seconds < one.step_time_s * 3
    assert one.campaign(Course(16, 1))[0] * 86_400 == pytest.approx(2 * one.step_time_s)


@pytest.mark.parametrize("packing", PACKINGS)
def test_no_token_is_lost_but_those_cut(packing: str) -> None:
    lengths = np.random.default_rng(3).integers(1, 300, 2500)
    rows = Samples(2500, lengths).rows(packing, 128)
    assert rows.tokens.max() <= 128
    assert rows.tokens.sum() == pytest.approx(lengths.sum() * (1 - rows.cut_frac))
    assert (rows.cut_frac == 0) == (packing in ("bfd-split", "wrapped"))


def test_best_fit_needs_few_rows_and_leaves_no_two_that_fit_in_one() -> None:
    lengths = np.random.default_rng(5).integers(1, 100, 900)
    rows = np.sort(best_fit(lengths, 100))
    assert rows[0] + rows[1] > 100
    assert math.ceil(lengths.sum() / 100) <= len(rows) <= 1.23 * lengths.sum() / 100 + 1


def test_pieces_of_split_samples_are_whole_but_the_last() -> None:
    assert sorted(split(np.array([250, 100, 7]), 100).tolist()) == [7, 50, 100, 100, 100]


def _padded(packing: str, micro_batch: int, dp: int = 1, zero: int = 0) -> tuple[float, float]:
    lengths = np.random.default_rng(7).integers(1, 1001, 8000)
    course = Course(8000, 1, Samples(8000, lengths), packing)
    recipe = course.recipe(Recipe.by("trl", seq=1000, batch=micro_batch * dp * 4))
    found = course.steps(Job(MODEL, recipe, dp), Layout(dp=dp, micro_batch=micro_batch, zero=zero))
    return found.row_tokens, found.padding_frac


@pytest.mark.parametrize("micro_batch", [1, 2, 8])
def test_rows_are_padded_to_the_longest_of_a_micro_batch(micro_batch: int) -> None:
    """Of uniform lengths up to L the longest of n has n / (n + 1) L, and the mean L / 2."""
    row_tokens, padding_frac = _padded("none", micro_batch)
    longest = micro_batch / (micro_batch + 1) * 1000
    assert row_tokens == pytest.approx(longest, rel=0.03)
    assert padding_frac == pytest.approx(1 - 500 / longest, abs=0.02)


def test_replicas_wait_for_the_longest_and_more_often_where_they_gather_parameters() -> None:
    alone, together, gathering = _padded("none", 1)[0], _padded("none", 1, 4)[0], _padded("none", 1, 4, 3)[0]
    assert alone < together < gathering == pytest.approx(4 / 5 * 1000, rel=0.03)


def test_without_padding_rows_have_the_mean_length() -> None:
    assert _padded("free", 8) == (pytest.approx(500, rel=0.03), 0)
    assert _padded("max-length", 8)[0] == 1000


def test_packed_tokens_attend_inside_their_samples() -> None:
    """Attention of a row is sum l^2; a recipe has one length, whose square times the samples in a row is the same."""
    lengths = np.array([100, 300] * 50)
    course = Course(100, 1, Samples(100, lengths), "bfd")
    attended = Fraction(int((lengths**2).sum()), int(lengths.sum()))
    assert course.recipe(Recipe.by("trl", seq=400, batch=8)).sample_tokens == math.ceil(attended) == 250


def test_rows_are_no_longer_than_the_longest_sample() -> None:
    course = Course(10, 1, Samples(10, np.arange(1, 11) * 30))
    assert course.recipe(Recipe.by("trl", seq=4096, batch=8)).seq == 300


@pytest.mark.parametrize(
    ("name", "text", "field"),
    [
        ("data.jsonl", '{"tokens": 30, "id": 1}\n{"tokens": 70, "id": 2}\n', ":tokens"),
        ("data.jsonl", '{"input_ids": [1, 2, 3]}\n{"input_ids": [1]}\n', ""),
        ("data.csv", "id,tokens\n1,30\n2,70\n", ":tokens"),
        ("data.txt", "30\n70\n", ""),
        ("data.json", "[30, 70]", ""),
    ],
)
def test_lengths_are_read_from_files(tmp_path: Path, name: str, text: str, field: str) -> None:
    (tmp_path / name).write_text(text)
    found = read_samples(f"{tmp_path / name}{field}", None)
    assert found.count == 2
    assert found.lengths.tolist() in ([30, 70], [3, 1])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("data.jsonl", '{"tokens": 30, "id": 1}\n', "FILE:FIELD"),
        ("data.txt", "30\nmany\n", "is not read as txt"),
        ("data.txt", "-3\n", "must be a number of tokens"),
        ("data.txt", "0\n", "no lengths"),
    ],
)
def test_files_without_lengths_are_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=said):
        read_samples(str(tmp_path / name), None)


def test_a_plan_says_the_steps_of_the_data_set(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("\n".join(map(str, range(100, 1100))))
    words = {"gpus": 1, "stack": "trl", "train": "lora:r=16", "batch": 8, "micro_batch": 2, "seq": 2048}
    found = lockstep.plan("llama3-8b", "dgx-h100:1", lengths=str(tmp_path / "data.txt"), epochs=2, **words)
    said = found.to_dict()["data_set"]
    assert (said["count"], said["steps"], said["closing"]) == (1000, 250, 0)
    assert found.to_dict()["tokens"] == 2 * sum(range(100, 1100))
    assert "250 steps (125 an epoch" in found.verdict()
    packed = lockstep.plan(
        "llama3-8b", "dgx-h100:1", samples=1000, lengths="constant:value=500", packing="bfd", **words
    )
    assert packed.to_dict()["data_set"]["steps"] == math.ceil(math.ceil(1000 / 4) / 8)


def test_the_best_layout_is_done_with_a_padded_data_set_soonest() -> None:
    """With the longest rows a larger micro-batch is faster; most of what it computes is padding."""
    words = {"stack": "trl", "train": "lora:r=16", "batch": 64, "seq": 2048, "zero": 2, "recompute": "full"}
    data = {"samples": 50_000, "lengths": "lognormal:mean=400,cv=0.8"}
    padded = lockstep.plan("llama3-8b", "dgx-h100:1", **data, **words)
    times = [one.campaign(padded.course)[0] for one in (*padded.plans, *padded.front)]
    assert times[0] == min(times)
    full = lockstep.plan("llama3-8b", "dgx-h100:1", samples=50_000, **words)
    assert padded.best.layout.micro_batch < full.best.layout.micro_batch


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"packing": "bfd"}, "--samples"),
        ({"samples": 10, "packing": "bfd"}, "--lengths"),
        ({"lengths": "lognormal:mean=400,cv=1"}, "--samples"),
        ({"samples": 10, "lengths": "constant:value=5", "packing": "tight"}, "unknown packing"),
        ({"samples": 10, "lengths": "constant:value=5", "sample_tokens": 5}, "does not go together"),
        ({"samples": 10, "tokens": "1M"}, "either"),
        ({"samples": 3, "train": "grpo,lora:r=16"}, "a generation takes"),
    ],
)
def test_what_cannot_be_read_is_refused(words: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        lockstep.plan("llama3-8b", "dgx-h100:1", gpus=1, stack="trl", batch=64, **{"train": "lora:r=16", **words})
