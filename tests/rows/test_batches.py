"""Estimates that differ in nothing but the batch are priced in one pass; each is the one that would come alone."""

from __future__ import annotations

import csv
import json
from collections import Counter
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import lockstep
from cli_runner import run
from effort import share
from lockstep.base.errors import BadInput
from lockstep.show.verbs.estimate import MOST_ALIKE

H100 = {"model": "llama3-8b", "cluster": "dgx-h100:4"}
VALUES = [32, 64, 96, 128, 512, 1536]
ASKED: list[dict[str, Any]] = [
    {**H100, "tp": 2},
    {**H100, "zero": 3, "recompute": "full"},
    {**H100, "zero": 2, "micro_batch": 2, "stack": "torchtitan"},
    {**H100, "tp": 4, "cp": 2, "zero": 1},
    {**H100, "tp": 2, "pp": 4, "schedule": "1f1b"},
    {**H100, "pp": 4, "vpp": 2, "schedule": "interleaved"},
    {**H100, "pp": 4, "schedule": "zb-h1"},
    {**H100, "pp": 4, "vpp": 2, "schedule": "dualpipe"},
    {**H100, "zero": 3, "offload": "optimizer"},
    {**H100, "zero": 3, "offload": "parameters", "stack": "deepspeed"},
    {**H100, "zero": 1, "offload": "paged"},
    {**H100, "zero": 0, "stack": "hf-trainer-5"},
    {**H100, "zero": 2, "dtype": "fp8"},
    {**H100, "tp": 2, "jitter": "lognormal:mean=1,cv=0.05"},
    {**H100, "train": "dpo"},
    {**H100, "train": "lora:r=16,targets=all-linear", "zero": 2},
    {"model": "mixtral-8x7b", "cluster": "dgx-h100:4", "ep": 8, "tp": 1, "zero": 1},
    {"model": "mixtral-8x7b", "cluster": "dgx-h100:4", "ep": 4, "pp": 4, "zero": 1},
    {"model": "deepseek-v3", "cluster": "dgx-h100:32", "ep": 16, "pp": 16, "overlap_ep": "cells"},
    {"model": "resnet50", "cluster": "dgx-a100-80gb:1"},
    {"model": "gpt2-xl", "cluster": "dgx-a100-80gb:1", "seq": 1024, "stages": "12,12,12,12", "pp": 4},
]


COUNTED = {
    ("lockstep.decide.planner.estimate", "price_step"): "steps",
    ("lockstep.decide.planner.batches", "price_step"): "steps",
    ("lockstep.decide.planner.interval", "price_step"): "intervals",
    ("lockstep.price.step.hiding", "compose"): "hidden",
}


@pytest.fixture
def priced(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often layouts are priced for their step time, their interval and their hidden traffic."""
    found: Counter[str] = Counter()
    for (module, name), said in COUNTED.items():
        where = import_module(module)
        function = getattr(where, name)

        def call(*given: Any, function: Any = function, said: str = said) -> Any:
            found[said] += 1
            return function(*given)

        monkeypatch.setattr(where, name, call)
    return found


@pytest.mark.parametrize("words", share(ASKED, 3), ids=lambda words: " ".join(map(str, words.values())))
def test_each_batch_equals_its_single_estimate_bit_for_bit(words: dict[str, Any]) -> None:
    found = lockstep.estimate(**words, batch=VALUES)
    for row in found.rows:
        if row.found is None:
            with pytest.raises(BadInput):
                lockstep.estimate(**words, batch=row.given["batch"])
        else:
            alone = lockstep.estimate(**words, batch=row.given["batch"])
            assert row.figure("step_time_s") == alone.step_time_s
            assert row.figure("memory.total_B") == alone.to_dict()["memory"]["total_B"]
            assert row.answer == alone.to_dict()


CHOSEN: list[dict[str, Any]] = [
    {**H100},
    {"model": "mixtral-8x7b", "cluster": "dgx-h100:4", "stack": "megatron-te"},
    {**H100, "offload": "optimizer", "dtype": "fp8"},
    {"model": "resnet50", "cluster": "dgx-a100-80gb:1"},
    {"model": "llama3-8b", "cluster": "rtx-4090:4", "train": "lora:r=16,targets=all-linear"},
]


@pytest.mark.parametrize("words", CHOSEN, ids=lambda words: " ".join(map(str, words.values())))
def test_each_batch_without_a_layout_equals_its_single_estimate_bit_for_bit(words: dict[str, Any]) -> None:
    batches = [96, 128, 256, 512, 640]
    found = lockstep.estimate(**words, batch=batches)
    assert [row.answer for row in found.rows] == [lockstep.estimate(**words, batch=one).to_dict() for one in batches]


def test_batches_without_a_layout_choose_among_layouts_that_are_priced_in_one_pass(priced: Counter[str]) -> None:
    """What decides between nearly equal layouts is priced for all batches at once; nothing prices the Pareto front."""
    batches = [128 * number for number in (1, 2, 4, 8, 16)]
    lockstep.estimate(**H100, batch=batches)
    together = priced.copy()
    priced.clear()
    for batch in batches:
        lockstep.estimate(**H100, batch=batch)
    assert 0 < together["intervals"] <= priced["intervals"] / 2


@pytest.mark.parametrize(("count", "passes"), [(2, 1), (MOST_ALIKE, 1), (2 * MOST_ALIKE, 2)])
def test_many_batches_are_priced_in_one_pass(priced: Counter[str], count: int, passes: int) -> None:
    found = lockstep.estimate(**H100, tp=2, micro_batch=1, batch=[128 * number for number in range(1, count + 1)])
    seconds = [row.figure("step_time_s") for row in found.rows]
    assert len(seconds) == count
    assert all(later > sooner for sooner, later in pairwise(seconds))
    assert priced == {"steps": passes}
    assert all("interval" in row.answer for row in found.rows)
    alone = priced_alone(priced)
    assert priced == {name: passes * number for name, number in alone.items()}


def priced_alone(priced: Counter[str]) -> Counter[str]:
    """What a single estimate prices; the counts so far stay as they are."""
    before = priced.copy()
    lockstep.estimate(**H100, tp=2, micro_batch=1, batch=128).to_dict()
    after = priced.copy()
    priced.clear()
    priced.update(before)
    return after - before


@pytest.mark.parametrize("lists", [{"tp": [1, 2, 4], "micro_batch": 1}, {"micro_batch": [1, 2, 4]}])
def test_unread_rows_price_only_their_own_layout(priced: Counter[str], lists: dict[str, Any]) -> None:
    found = lockstep.estimate(**H100, batch=512, **lists)
    assert [row.figure("memory.fits") for row in found.rows] == [row.figure("memory")["fits"] for row in found.rows]
    assert priced == {"steps": 3}


def test_the_table_prices_only_what_it_shows(priced: Counter[str]) -> None:
    asked = ["estimate", "llama3-8b", "-c", "dgx-h100:4", "--batch", "128,256,512"]
    assert run(*asked, "--micro-batch", "1").code == 0
    assert priced == {"steps": 1}


def test_json_csv_and_sweep_files_contain_the_whole_answer(tmp_path: Path) -> None:
    asked = ["estimate", "llama3-8b", "-c", "dgx-h100:4", "--batch", "128,256,512"]
    shown, store, table = (run(*asked, "--json"), tmp_path / "a.sweep", tmp_path / "a.csv")
    rows = json.loads(shown.out)["rows"]
    alone = [lockstep.estimate(**H100, batch=batch).to_dict() for batch in (128, 256, 512)]
    assert [{name: row[name] for name in one} for row, one in zip(rows, alone, strict=True)] == json.loads(
        json.dumps(alone)
    )
    for _ in range(2):
        assert json.loads(run(*asked, "--json", "--store", str(store)).out)["rows"] == rows
    assert run(*asked, "--csv", str(table)).code == 0
    with open(table, encoding="utf-8", newline="") as file:
        assert [float(one["interval.low"]) for one in csv.DictReader(file)] == [one["interval"]["low"] for one in rows]


def test_the_values_of_an_estimate_are_those_of_its_plain_form() -> None:
    found = lockstep.estimate(**H100, batch=128)
    whole = found.to_dict()
    assert {name: found.plain_value(name) for name in whole} == whole
    assert found.plain_value("no such value") is None


def test_refused_batches_are_rows_beside_the_priced_ones() -> None:
    found = lockstep.estimate(**H100, pp=4, vpp=2, schedule="interleaved", batch=[30, 32, 64])
    assert [row.found is None for row in found.rows] == [True, False, False]
    assert "does not divide the batch" in found.rows[0].why
    assert found.to_dict()["rows"][0] == {"batch": 30, "why": found.rows[0].why}


def test_engines_and_sweep_files_give_the_same_rows(tmp_path: Path) -> None:
    asked = {**H100, "tp": 2, "batch": [128, 256, 384]}
    here = lockstep.estimate(**asked)
    assert here == lockstep.estimate(**asked, store=tmp_path / "a.sweep")
    assert here == lockstep.estimate(**asked, engine="processes:1")
    for row in here.rows:
        assert row.figure("interval.low") == row.answer["interval"]["low"]
        assert row.figure("interval.nothing") is None


def test_micro_batches_of_many_batches_are_chosen_in_one_pass(priced: Counter[str]) -> None:
    """One pass for all sizes and batches, one for their intervals, and one for each layout that is chosen."""
    found = lockstep.estimate(**H100, tp=2, batch=[128 * number for number in range(1, 41)])
    chosen = {str(row.figure("layout")) for row in found.rows}
    assert priced["steps"] <= 1 + len(chosen)
    for row in found.rows[::7]:
        alone = lockstep.estimate(**H100, tp=2, batch=row.given["batch"])
        assert (row.figure("layout"), row.figure("step_time_s")) == (alone.to_dict()["layout"], alone.step_time_s)
