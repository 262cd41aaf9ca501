"""What a machine trains: every row is what the commands that it prints say, and nothing larger of its family fits."""

import random
import shlex
from functools import cache
from itertools import product

import pytest

import lockstep
from cli_runner import run
from lockstep.base.errors import BadInput
from lockstep.decide.planner.space import MICRO_BATCHES
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import RECOMPUTE, families
from lockstep.price.layout import Job, Layout, broken_by, memory

MACHINES = {"rtx-4090:1": {}, "dgx-a100-40gb": {"seq": "4k"}, "l40s:1": {"stack": "trl"}}


def near(value):
    """Equal but for the order of sums, which differs between a grid and one layout."""
    return pytest.approx(value, rel=1e-12)


@cache
def asked(machine):
    return lockstep.memory(cluster=machine, **MACHINES.get(machine, {}))


def rows(kind, machines=tuple(MACHINES)):
    """Found when a test asks, as it takes seconds that the collection of tests need not."""
    return [(machine, row) for machine in machines for row in asked(machine).rows if getattr(row, kind)]


def method_of(machine, row):
    return next(one for one in asked(machine).methods if one.name == row.method)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_row_is_what_its_command_says(machine):
    found = rows("fit", [machine])
    assert len(found) > 10
    for _, row in found:
        the_command_says_the_same(row)


def the_command_says_the_same(row):
    alone = lockstep.estimate(**row.fit.words)
    assert alone.layout == row.fit.layout
    assert float(alone.memory.total_B) == near(row.fit.memory_B)
    assert alone.step_time_s == near(row.fit.step_time_s)
    assert alone.tokens_per_s == near(row.fit.tokens_per_s)
    assert alone.memory.fits
    assert not alone.memory.tight
    answers = {"DPO": 2, "GRPO": 8}.get(row.method, 1)  # A pair of answers; of a prompt, what TRL generates.
    days, cost = alone.campaign(3 * 50_000 * 400 * answers)
    assert row.fit.time_s == pytest.approx(86_400 * days)
    assert row.fit.cost_usd == pytest.approx(cost)


def test_commands_are_those_of_the_command_line():
    fit = next(row.fit for row in asked("dgx-a100-40gb").rows if row.fit and row.fit.layout.zero)
    verb, *words = shlex.split(fit.command)[1:]
    assert verb == "memory"
    assert run(verb, *words, "--json").json()["memory"]["total_B"] == near(fit.memory_B)


def layouts(job):
    """Every layout that shares states out as ZeRO does, one by one; a single device has nothing to share."""
    dp = job.devices
    for zero, recompute, size in product(range(4 if dp > 1 else 1), RECOMPUTE, MICRO_BATCHES):
        layout = Layout(dp=dp, zero=zero, recompute=recompute, micro_batch=size)
        if job.recipe.batch % size == 0 and size % job.recipe.objective.pair == 0 and not broken_by(layout, job):
            yield layout


@pytest.mark.parametrize("place", range(12))
def test_nothing_larger_of_a_family_fits(place):
    machine, row = random.Random(53).sample(rows("larger"), 12)[place]
    where, recipe = cluster(machine), method_of(machine, row).recipe
    size = row.fit.parameters if row.fit else 0
    larger = [one for count, one in families()[row.family] if count > size and one.max_positions >= recipe.seq]
    assert row.larger.model == larger[0].name
    for model in larger:
        job = Job(model, recipe, where.num_devices)
        needed = [memory(job, where, layout.grid()) for layout in layouts(job)]
        assert not any(one.fits and not one.tight for one in needed)
        if model.name == row.larger.model:
            assert min(float(one.total_B) for one in needed) == near(row.larger.memory_B)
            assert any(one.fits for one in needed) == row.larger.tight


def without(machine, row, *changes):
    """Keywords that ask for the next model without some of its changes."""
    left_out = {one.split()[0].removeprefix("--").replace("-", "_") for one in changes}
    kept = {name: value for name, value in row.larger.words.items() if name not in left_out}
    return {"seq": method_of(machine, row).recipe.seq, **kept}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_changes_let_the_next_model_fit_and_each_is_needed(machine):
    found = [row for _, row in rows("larger", [machine]) if row.larger.changes]
    assert found
    for row in found:
        the_changes_are_needed(machine, row)


def the_changes_are_needed(machine, row):
    larger = row.larger
    changed = lockstep.memory(**larger.words).memory
    assert changed.fits
    assert not changed.tight
    plain = lockstep.memory(**without(machine, row, *larger.changes)).memory
    assert float(plain.total_B) == near(larger.memory_B)
    assert not plain.fits or plain.tight
    for one in larger.changes:
        others = [other for other in larger.changes if other != one]
        alone = lockstep.memory(**without(machine, row, *others)).memory
        assert not others or not alone.fits or alone.tight


def test_the_next_model_fits_on_the_machine_that_is_named():
    found = [row for row in asked("rtx-4090:1").rows if row.method == "LoRA" and row.larger and row.larger.machine]
    assert found
    for machine in {row.larger.machine for row in found}:
        there = {
            row.family: row.fit
            for row in lockstep.memory(cluster=machine, train="lora:r=16").rows
            if row.method == "LoRA"
        }
        for row in found:
            if row.larger.machine == machine:
                assert there[row.family].parameters >= row.larger.parameters


def test_more_devices_train_no_smaller_models():
    few, many = (lockstep.memory(cluster=name, train="lora:r=16", batch=16).rows for name in ("l40s:1", "l40s:4"))
    for one, other in zip(few, many, strict=True):
        assert one.fit is None or other.fit.parameters >= one.fit.parameters


def test_options_select_methods_and_models():
    words = {
        "cluster": "rtx-4090:1",
        "train": "lora:r=8",
        "seq": 4096,
        "samples": 1000,
        "epochs": 2,
        "sample_tokens": 8192,
    }
    found = lockstep.memory(**words)
    assert [one.words for one in found.methods] == [{"train": "lora:r=8"}, {"train": "lora:r=8", "base": "nf4"}]
    assert not {"pythia", "opt"} & {row.family for row in found.rows}, "they read 2,048 tokens"
    for row in found.rows:
        if row.fit:
            assert row.fit.time_s == pytest.approx(2 * 1000 * 4096 / row.fit.tokens_per_s)
    assert {row.method for row in lockstep.memory(cluster="rtx-4090:1", base="int8").rows} == {
        "LoRA",
        "QLoRA",
        "DPO",
        "GRPO",
    }
    pinned = lockstep.memory(cluster="rtx-4090:1", train="full", micro_batch=1, recompute="full", zero=0)
    assert all(row.fit.layout == Layout(recompute="full") for row in pinned.rows if row.fit)


def test_batches_of_pairs_have_whole_pairs_in_every_micro_batch():
    assert all(
        row.fit.layout.micro_batch % 2 == 0 for row in asked("rtx-4090:1").rows if row.method == "DPO" and row.fit
    )


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ({}, "--cluster"),
        ({"cluster": "rtx-4090:1", "rank": 0}, "--rank"),
        ({"cluster": "rtx-4090:1", "samples": 0}, "--samples"),
        ({"cluster": "rtx-4090:1", "seq": "1M"}, "--seq"),
        ({"cluster": "rtx-4090:1", "tp": 3}, None),
        ({"cluster": "rtx-4090:1", "train": "lora:rank=3"}, "--train"),
        ({"model": "gpt2", "cluster": "rtx-4090:1", "batch": 1, "epochs": 2}, "--epochs"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_its_option(words, where):
    with pytest.raises(BadInput) as refused:
        lockstep.memory(**words)
    assert refused.value.where == where


def test_the_table_names_every_model_in_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    found, text = asked("rtx-4090:1"), run("memory", "-c", "rtx-4090:1").out
    assert all(row.fit.model in text for row in found.rows if row.fit)
    assert max(map(len, text.splitlines())) <= 80
    assert all(row.family in text for row in found.rows)
