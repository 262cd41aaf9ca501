"""A whole step of reinforcement learning: its parts add up, together or apart, and memory is that of its phases."""

from __future__ import annotations

import pytest

import lockstep
from cli_runner import run
from lockstep.base.errors import BadInput
from lockstep.decide.planner.rl_step import RlStep
from lockstep.decide.planner.rollout import Rollout
from lockstep.describe.workload import model, parameters

ASKED = {"prompts": 16, "group": 8, "prompt_tokens": 256, "response": "512"}
MACHINE = ("llama3-8b", "dgx-h100:2")


def _asked(**words: object) -> tuple[Rollout, RlStep]:
    found = lockstep.rollout(*MACHINE, **{**ASKED, "trainer": "zero=3", **words})
    assert found.step is not None
    return found, found.step


@pytest.fixture(scope="module")
def colocated() -> tuple[Rollout, RlStep]:
    return _asked()


def test_devices_that_do_both_take_the_sum_of_all_parts(colocated: tuple[Rollout, RlStep]) -> None:
    found, step = colocated
    assert step.colocated
    assert found.devices == 16
    assert step.step_time_s == pytest.approx(found.time_s + step.train_s + step.weights_s + step.offload_s)
    assert step.interval.low < step.step_time_s < step.interval.high


def test_devices_apart_and_in_step_wait_for_one_another() -> None:
    found, step = _asked(split=8)
    assert not step.colocated
    assert found.devices == step.trainer.cluster.num_devices == 8
    assert step.step_time_s == pytest.approx(found.time_s + step.train_s + step.weights_s)
    assert step.offload_s == 0


def test_stale_devices_wait_for_the_slower_part_alone() -> None:
    _, step = _asked(split=8, staleness=1)
    assert step.step_time_s == pytest.approx(max(step.generate_s + step.weights_s, step.train_s))
    assert step.step_time_s < _asked(split=8)[1].step_time_s


def test_engines_that_work_ahead_do_not_wait_for_the_longest_answers() -> None:
    """Long tails cost a step in step with training, and nothing once the next steps' answers fill them."""
    words = {"split": 8, "response": "lognormal:mean=1k,cv=1", "max_response": "8k", "prompts": 64}
    found, in_step = _asked(**words)
    assert in_step.generate_s == found.time_s
    assert found.tail_s > 0.4 * found.time_s
    stale = [_asked(**words, staleness=steps)[1].generate_s for steps in (1, 4)]
    assert stale[1] < stale[0] < 0.7 * found.time_s


def test_engines_ahead_on_equal_answers_take_what_full_ones_take() -> None:
    """As many in flight as a step has answers of an engine, all alike: waves follow one another, as in step."""
    found, step = _asked(split=8, staleness=1, in_flight=16)
    assert found.answers // found.engines == 16
    assert step.generate_s == pytest.approx(found.time_s, rel=1e-9)


def test_updates_are_those_of_estimate(colocated: tuple[Rollout, RlStep]) -> None:
    """Four updates of 32 answers, priced as `estimate` prices one; every token of a prompt and answer is trained on."""
    _, step = _asked(train_batch=32)
    alone = lockstep.estimate(*MACHINE, batch=32, seq=768, train="grpo", zero=3)
    assert step.updates == 4
    assert step.train_s == pytest.approx(4 * alone.step_time_s)
    assert colocated[1].updates == 1
    assert step.tokens == 128 * (256 + 512)


def test_weights_take_no_less_than_their_bytes(colocated: tuple[Rollout, RlStep]) -> None:
    """Two nodes exchange halves of the model over eight links."""
    model_B = 2 * parameters(model("llama3-8b")).total
    for _, step in (colocated, _asked(split=8)):
        cluster = step.trainer.cluster
        fastest_Bps = max(cluster.bandwidth_per_device_Bps(level) for level in range(len(cluster.levels)))
        assert step.weights_s > model_B / 2 / (8 * fastest_Bps)


@pytest.mark.parametrize(
    ("name", "devices", "published_s"), [("qwen3-235b-a22b", 8, 6.22), ("qwen3-235b-a22b", 64, 6.22)]
)
def test_weights_are_sent_in_the_published_time(name: str, devices: int, published_s: float) -> None:
    """Qwen3-235B in bf16 to 8 H800 by checkpoint-engine's broadcast; to more devices it takes as long."""
    words = {**ASKED, "rollout_tp": 8, "memory_frac": 1.0, "trainer": "tp=8,ep=8,etp=1,sequence-parallel"}
    found = lockstep.rollout(name, f"hgx-h800:{devices // 8}", **words)
    assert found.step is not None
    assert found.step.weights_s == pytest.approx(published_s, rel=0.2)


def test_phases_hold_what_each_side_holds(colocated: tuple[Rollout, RlStep]) -> None:
    found, step = colocated
    generate, train, send = step.phases
    assert generate.device_B == pytest.approx(found.pool.capacity_B)
    assert train.device_B == float(step.trainer.memory.total_B)
    assert send.device_B == pytest.approx(found.pool.weights_B + float(step.trainer.memory.parameters_B))
    assert step.fits == all(phase.device_B <= phase.capacity_B for phase in step.phases)


def test_a_trainer_that_does_not_fit_is_a_no() -> None:
    words = (
        "rollout",
        "llama3-70b",
        "-c",
        "dgx-h100:2",
        "--prompts",
        "16",
        "--prompt-tokens",
        "64",
        "--response",
        "64",
    )
    session = run(*words, "--rollout-tp", "4", "--trainer", "tp=8,dp=2,zero=1")
    assert session.code == 1
    assert "it does not fit" in " ".join(session.out.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"trainer": None, "staleness": 1}, "give --trainer too"),
        ({"staleness": 1}, "give --split too"),
        ({"staleness": 100, "split": 8}, "must be at most 64, got 100"),
        ({"prompts": 10**8}, "more than the 1,000,000 that are simulated"),
        ({"split": 16}, "must leave devices of the 16 to train"),
        ({"train_batch": 48}, "48 sequences of an update do not divide the 128 answers"),
        ({"trainer": "tensor=4"}, "'tensor=4' is no word of a layout"),
        ({"trainer": "tp=2,tp=4"}, "'tp=4' is no word of a layout"),
        ({"trainer": "tp=64"}, r"--trainer: .*tp=64"),
        ({"rollout_tp": 3}, "tp=3 does not divide 32 attention heads"),
        ({"rollout_tp": 16, "memory_frac": 0.01}, "leave nothing"),
    ],
)
def test_steps_that_cannot_be(words: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        lockstep.rollout(*MACHINE, **{**ASKED, "trainer": "zero=3", **words})
