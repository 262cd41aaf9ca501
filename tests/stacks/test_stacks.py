"""Training programs: switches are options of a run, times those of PyTorch, and both reach the price."""

from dataclasses import asdict, fields, replace

import pytest

import lockstep
from lockstep.base.errors import UnknownName
from lockstep.decide.planner.software import SOFTWARE, usual_stack
from lockstep.describe.hardware import cluster
from lockstep.describe.hardware.device import curves
from lockstep.describe.stacks import ATTENTION_KERNELS, DEFAULT, OPTIONS, Habits, Options, default_stack, stack, stacks
from lockstep.describe.stacks.stack import COMPILED
from lockstep.describe.workload import model
from lockstep.price.kernels.casts import casts
from lockstep.price.kernels.clock import Clock
from lockstep.price.layout import Job, Layout, Recipe
from lockstep.price.step import price_step

NAMES = {
    "megatron-2021", "megatron-te", "nemo-25", "deepspeed", "fsdp-eager", "fsdp-compile", "torchtitan", "nanotron",
    "internevo", "maxtext", "hf-trainer",
}  # fmt: skip
CLUSTER = cluster("dgx-h100:2")
LAYOUT = Layout(dp=16, zero=1, recompute="full")


def job(name: str = DEFAULT, **recipe: object) -> Job:
    return Job(model("llama3-8b"), Recipe.by(name, seq=8192, batch=64, **recipe), 16)


def test_the_required_stacks_exist() -> None:
    assert set(stacks()) >= NAMES


@pytest.mark.parametrize("name", stacks())
def test_switches_are_options_that_differ_from_their_defaults(name: str) -> None:
    defaults = {one.name: one.default for record in (Recipe, Options) for one in fields(record)}
    for word, value in stack(name).switches.items():
        assert defaults[word] != value
        assert Recipe.by(name, seq=1, batch=1).options[word] == value


@pytest.mark.parametrize("name", stacks())
def test_explicit_options_do_not_make_a_different_stack(name: str) -> None:
    """It goes before switches; asked for what holds anyway, the recipe is the same."""
    usual = Recipe.by(name, seq=1, batch=1)
    assert usual.having(**asdict(usual.software.options)) == usual
    others = {"fused_elementwise": not usual.fused_elementwise, "cross_entropy": "upcast",
              "fused_accumulation": not usual.software.options.fused_accumulation,
              "gather_limits": "max_live_parameters=0"}  # fmt: skip
    assert others.keys() == {*OPTIONS}
    for word, value in others.items():
        asked = Recipe.by(name, seq=1, batch=1, **{word: value})
        assert asked == usual.having(**{word: value}) != usual
        assert asked.having(**{word: usual.options[word]}) == usual
        assert asked.options == usual.options | {word: value, "stack": asked.stack}
        assert (asked.software.said, asked.software.switches) == (name, stack(name).switches)
        assert asked.software.having(norm="one").options == asked.software.options


OF_TABLES = {"launch_blocking", "base_inputs_kept", "joint_qkv", "sliced_experts", "prepared_base"}
"""Habits of debugging, of a release and of libraries of fine-tuning, which only published tables have."""


def test_every_habit_is_used_by_some_stack() -> None:
    had = {word for one in stacks().values() for word in one.habits.changed()}
    assert had | OF_TABLES == {one.name for one in fields(Habits)}
    assert not had & OF_TABLES


def test_changing_a_habit_changes_nothing_else() -> None:
    plain = stack("torchtitan")
    other = plain.having(repeated_heads=False)
    assert not other.habits.repeated_heads
    assert other.having(repeated_heads=True) == plain
    with pytest.raises(UnknownName, match="way to run norm 'splitt'; did you mean split"):
        plain.having(norm="splitt")
    with pytest.raises(UnknownName, match="option, habit or slot of a layer 'norms'; did you mean norm"):
        plain.having(norms="split")


@pytest.mark.parametrize("name", stacks())
def test_every_stack_cites_the_source_of_its_switches_and_times(name: str) -> None:
    found = stack(name)
    assert found.source
    asked = [one.partition("@") for one in found.attention]
    assert {kernel for kernel, _, _ in asked} <= set(ATTENTION_KERNELS)
    assert {curve for _, _, curve in asked} <= {"", *curves()}
    assert 0 < found.launch_s < 1e-4
    assert 0 < found.step_s <= 0.03


def test_pytorch_takes_as_long_on_the_host_whatever_the_software() -> None:
    """Times on the host are no constants of a fit, but of PyTorch; compiled programs of XLA have their own."""
    for software in stacks().values():
        times = software.launch_s, software.recompute_host_s, software.step_s
        assert (times == (20e-6, 1e-3, 10e-3)) == (software.kind == "measured") == (software.kernels != "xla")


def test_stacks_with_one_kernel_library_share_its_elementwise_factor() -> None:
    by_kernels: dict[str, set[float]] = {}
    for one in stacks().values():
        by_kernels.setdefault(one.kernels, set()).add(one.elementwise_factor)
    assert {len(factors) for factors in by_kernels.values()} == {1}
    assert set(by_kernels) == {"apex", "transformer-engine", "torch", *COMPILED}


@pytest.mark.parametrize("name", stacks())
def test_python_launches_slower_than_autograd_unless_compiled_code_does(name: str) -> None:
    clock = Clock.of(CLUSTER.device, Recipe.by(name, seq=1, batch=1))
    forward_s, backward_s = clock.launches_s
    assert (forward_s == backward_s) == clock.stack.compiled
    assert forward_s + backward_s == pytest.approx(2 * clock.launch_s)


def test_an_unknown_program_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="megatron-te"):
        Recipe(seq=1, batch=1, stack="megatron-tee")


def test_host_times_reach_the_price() -> None:
    plain = price_step(job(), CLUSTER, LAYOUT.grid())
    slower = replace(stack(DEFAULT), step_s=stack(DEFAULT).step_s + 1.0)
    assert float(price_step(job(slower), CLUSTER, LAYOUT.grid()).step_time_s) == pytest.approx(
        float(plain.step_time_s) + 1.0
    )
    launching = replace(stack(DEFAULT), launch_s=1.0)
    assert float(price_step(job(launching), CLUSTER, LAYOUT.grid()).step_time_s) > 100 * float(plain.step_time_s)


def test_launches_are_never_faster_than_the_device_allows() -> None:
    curve = replace(CLUSTER.device.efficiency, launch_s=1e-3)
    clock = Clock.of(replace(CLUSTER.device, efficiency=curve), Recipe(seq=1, batch=1))
    assert clock.launch_s == 1e-3
    assert Clock.of(CLUSTER.device, Recipe(seq=1, batch=1)).launch_s == stack(DEFAULT).launch_s


def test_a_faster_attention_kernel_shortens_a_step() -> None:
    steps = [
        float(price_step(job(attention_kernel=name), CLUSTER, LAYOUT.grid()).step_time_s)
        for name in ("flash1", "flash2", "cudnn")
    ]
    assert steps[0] > steps[1] > steps[2]


def test_casts_to_fp8_cost_memory_traffic_that_bf16_does_not_have() -> None:
    """Two bytes read and two written for each element of an input."""
    wide, narrow = (Clock(CLUSTER.device, dtype) for dtype in ("bf16", "fp8"))
    for scaling, each_B in (("delayed", 4.0), ("current", 6.0)):
        assert [one.device_s for one in casts(wide, scaling, 1e9, 1e9)] == [0.0, 0.0]
        for one in casts(narrow, scaling, 1e9, 1e9):
            assert one.device_s == pytest.approx(narrow.stream(each_B * 1e9).device_s)


def test_a_stack_object_is_accepted_in_place_of_a_name() -> None:
    own = replace(stack("torchtitan"), name="ours", switches={"gradient_B": 2.0})
    recipe = Recipe.by(own, seq=8192, batch=64)
    assert recipe.gradient_B == 2.0
    assert recipe.to_dict()["stack"] == "ours"


def test_the_default_stack_follows_the_vendor() -> None:
    assert default_stack("Google") == "maxtext"
    assert default_stack("NVIDIA") == DEFAULT


def test_the_default_stack_can_train_the_model() -> None:
    """Megatron-LM is for decoders of text; what it is not for is timed as software that has a configuration for it, and
    the answer says so. Encoders of text are of its kind.
    """
    asked = {"cluster": "dgx-h100:1", "batch": 16}
    for name, usual in (
        ("llama3-8b", True), ("gpt2", True), ("bert-large", True), ("mixtral-8x7b", True),
        ("resnet50", False), ("vit-b-16", False), ("dit-xl-2", False), ("t5-base", False),
    ):  # fmt: skip
        found = lockstep.estimate(name, **asked, zero=2)
        recipe = found.job.recipe
        assert recipe.software.name == (DEFAULT if usual else "deepspeed"), name
        if not usual:
            SOFTWARE["deepspeed"].check(found.job)
        assert any("--stack was not given" in one for one in found.assumptions()) != usual, name
        given = lockstep.estimate(name, **asked, zero=2, stack=recipe.software.name)
        assert given.step_time_s == found.step_time_s
        assert not any("--stack was not given" in one for one in given.assumptions())


def test_tpus_keep_their_own_stack() -> None:
    assert usual_stack(model("resnet50"), "Google") == ("maxtext", ())
