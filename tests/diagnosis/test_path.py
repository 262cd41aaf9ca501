"""From one run to another in single settings: the changes add up, whatever differs."""

import random

import pytest

from lockstep.base.errors import BadInput
from lockstep.decide.planner.estimate import estimate
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.explain.path import path
from lockstep.explain.stated import MFU, QUANTITIES, RATE, Stated
from lockstep.price.layout import Job, Layout, Recipe


def drawn(chance):
    """A run of some layout on 16 to 64 devices."""
    while True:
        machine = cluster(f"{chance.choice(['dgx-h100', 'dgx-a100-80gb'])}:{chance.choice([2, 4, 8])}")
        tp, pp = chance.choice([1, 2, 4, 8]), chance.choice([1, 2])
        recipe = Recipe.by(
            chance.choice(["megatron-te", "fsdp-compile", "nanotron"]),
            seq=chance.choice([2048, 4096]), batch=chance.choice([128, 256, 512]),
        )  # fmt: skip
        layout = Layout(
            tp=tp, pp=pp, dp=machine.num_devices // (tp * pp), micro_batch=chance.choice([1, 2]),
            zero=chance.choice([0, 1, 3]), recompute=chance.choice(["none", "full", "selective"]),
            sequence_parallel=tp > 1 and chance.random() < 0.5,
        )  # fmt: skip
        job = Job(model(chance.choice(["llama3-8b", "llama2-13b"])), recipe, machine.num_devices)
        try:
            return estimate(job, machine, layout)
        except BadInput:
            continue


@pytest.mark.parametrize("seed", range(25))
def test_single_changes_add_up_to_the_whole_difference(seed):
    """Each begins where the one before it ended; no setting is changed twice; the same run has no way to go."""
    chance = random.Random(seed)
    other, own = drawn(chance), drawn(chance)
    for quantity in QUANTITIES:
        like = Stated(quantity, 1.0)
        steps = path(other, own, like)
        assert steps[0].before == pytest.approx(like.predicted(other))
        assert steps[-1].after == pytest.approx(like.predicted(own))
        assert [one.after for one in steps[:-1]] == [one.before for one in steps[1:]]
        assert len({one.setting for one in steps}) == len(steps)
        assert path(own, own, like) == ()


def test_a_published_row_is_compared_with_ones_own_run():
    """Of what separates Megatron-LM's 768 devices from 128 with full recomputation, recomputation costs most."""
    big, small = cluster("dgx-h100:96"), cluster("dgx-h100:16")
    llama = model("llama2-70b")
    common = {"tp": 8, "micro_batch": 1, "zero": 1, "sequence_parallel": True}
    row = estimate(Job(llama, Recipe(seq=4096, batch=1536), 768), big, Layout(pp=2, dp=48, **common))
    own = estimate(Job(llama, Recipe(seq=4096, batch=512), 128), small, Layout(pp=8, dp=2, recompute="full", **common))
    steps = {one.setting: one.after / one.before - 1 for one in path(row, own, Stated(RATE, 1.0))}
    assert set(steps) == {
        "128 x h100-sxm", "batch of 512 sequences of 4,096", "pipeline stages: 8", "recomputation: full",
    }  # fmt: skip
    assert min(steps, key=lambda name: steps[name]) == "recomputation: full"
    assert steps["recomputation: full"] == pytest.approx(-0.25, abs=0.05)
    assert path(row, own, Stated(MFU, 1.0))[-1].after == pytest.approx(own.mfu_frac)
