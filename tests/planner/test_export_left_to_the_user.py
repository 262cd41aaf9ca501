"""What an export leaves to the user is named in it, and no value of the file starts another job in its place."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from typing import Any

import pytest
from advice_samples import DENSE

import lockstep
from lockstep.base.errors import Infeasible
from lockstep.decide.planner.export import TARGETS
from lockstep.decide.planner.export.refusals import Placed
from lockstep.decide.planner.export.torchtitan import UNNAMED
from lockstep.decide.planner.export.torchtitan_models import flavor_of, flavors
from lockstep.describe.workload import model, parameters
from lockstep.price.layout import Job, Layout, Recipe

OWN = {
    "deepseek_v3", "flux", "forge", "gpt_oss", "llama3", "llama3_ft", "llama4", "qwen3", "simple_fsdp.deepseek_v3",
    "simple_fsdp.llama3", "transformers_modeling_backend", "vlm",
}  # fmt: skip
"""Names that torchtitan v0.2.2 has a TrainSpec for (models/__init__.py, experiments/__init__.py)."""


def alone(name: str, **recipe: Any) -> Placed:
    """A model on eight devices, sharded as FSDP2 does."""
    return Placed(Job(model(name), Recipe.by("torchtitan", seq=1024, batch=64, **recipe), 8), Layout(dp=8, zero=3))


def table(name: str, **recipe: Any) -> dict[str, Any]:
    return tomllib.loads(TARGETS["torchtitan"](alone(name, **recipe)))


@pytest.mark.parametrize("name", flavors())
def test_torchtitan_flavors_have_the_parameters_of_the_catalog_models(name: str) -> None:
    assert parameters(model(name)).total == flavors()[name].parameters
    assert flavor_of(model(name)) == flavors()[name]


@pytest.mark.parametrize(
    ("name", "said"),
    [("llama3-8b", ("llama3", "8B")), ("qwen3-0.6b", ("qwen3", "0.6B")), ("llama3-405b", ("llama3", "405B"))],
)
def test_torchtitan_exports_name_the_matching_flavor(name: str, said: tuple[str, str]) -> None:
    assert tuple(table(name)["model"].values()) == said


@pytest.mark.parametrize("name", ["mixtral-8x7b", "gpt3-13b", "deepseek-v3", "llama2-7b"])
def test_models_unknown_to_torchtitan_export_a_name_that_it_rejects(name: str) -> None:
    """deepseek-v3 has a module for multi-token prediction, which torchtitan's 671B has not."""
    found = alone(name)
    assert table(name)["model"] == {"name": name, "flavor": UNNAMED}
    assert name not in OWN
    first = TARGETS["torchtitan"](found).splitlines()[0]
    assert first.startswith("# left to you: the model. ")
    assert name in first
    options = TARGETS["torchtitan-cli"](found)
    assert options.startswith("# left to you: --module and --config, which torchtitan needs")
    assert "\n--module" not in options


def test_a_model_with_a_known_name_and_another_shape_has_no_flavor() -> None:
    found = alone("llama3-8b")
    smaller = replace(found, job=replace(found.job, model=replace(found.job.model, layers=16)))
    assert tomllib.loads(TARGETS["torchtitan"](smaller))["model"]["flavor"] == UNNAMED


def test_options_of_torchtitan_name_a_configuration_that_trains_in_bf16() -> None:
    assert "\n--module qwen3\n--config qwen3_0_6b\n" in TARGETS["torchtitan-cli"](alone("qwen3-0.6b"))
    assert "\n--config" not in TARGETS["torchtitan-cli"](alone("llama3-405b")), "its configuration trains in float8"


def test_a_differing_loss_of_the_target_configuration_is_named() -> None:
    """Those of release 0.3 wrap theirs in chunks (models/*/config_registry.py, ChunkedLossWrapper)."""
    assert "--cross-entropy chunked" in TARGETS["torchtitan-cli"](alone("llama3-8b"))
    for other in (alone("llama3-8b", cross_entropy="chunked"), alone("mixtral-8x7b")):
        assert "--cross-entropy chunked" not in TARGETS["torchtitan-cli"](other)


@pytest.mark.parametrize("fused", [True, False])
def test_torchtitan_exports_compile_where_the_plan_assumes_it(fused: bool) -> None:
    assert table("llama3-8b", fused_elementwise=fused)["compile"] == {"enable": fused}
    line = f"--compile.{'' if fused else 'no-'}enable"
    assert line in TARGETS["torchtitan-cli"](alone("llama3-8b", fused_elementwise=fused)).splitlines()


@pytest.mark.parametrize("layout", [Layout(dp=8, zero=3), Layout(pp=2, dp=4, zero=3)])
def test_torchtitan_exports_disable_cuda_graphs(layout: Layout) -> None:
    """Without the switch it captures a step, and its Config refuses stages and most exchanges of experts."""
    text = TARGETS["torchtitan-cli"](replace(alone("llama3-8b"), layout=layout))
    assert "--training.disable_cuda_graphs" in text.splitlines()


@pytest.mark.parametrize(
    ("name", "layout", "recipe", "why"),
    [
        ("qwen3-0.6b", Layout(pp=2, dp=4, zero=3), {}, "tied embeddings"),
        ("gpt-oss-20b", Layout(cp=2, dp=4, zero=3), {}, "FlexAttention"),
        ("llama3-8b", Layout(dp=8), {"overlap_dp": False}, "DDP always overlap"),
        ("llama3-8b", Layout(tp=2, dp=4, zero=3, sequence_parallel=True), {"seq": 1026}, r"2\*tp\*cp = 4"),
    ],
)
def test_layouts_that_torchtitan_rejects_are_refused(
    name: str, layout: Layout, recipe: dict[str, Any], why: str
) -> None:
    found = alone(name)
    job = replace(found.job, recipe=found.job.recipe.having(**recipe))
    with pytest.raises(Infeasible, match=why):
        TARGETS["torchtitan"](Placed(job, layout))


@pytest.mark.parametrize(
    ("cluster", "words", "backend"),
    [
        ("dgx-h100:1", {}, "fused"),
        ("dgx-a100-80gb:1", {}, "flash"),
        ("dgx-h100:1", {"attention_kernel": "flash3"}, "flash"),
        ("dgx-h100:1", {"flash": False}, "unfused"),
    ],
)
def test_megatron_exports_select_the_priced_attention_kernel(cluster: str, words: dict[str, Any], backend: str) -> None:
    found = lockstep.export("llama3-8b", cluster, batch=64, seq=2048, zero=1, to="megatron", **words)
    assert f"--attention-backend {backend}" in found.text.splitlines()
    kernel = found.estimate.attention_kernel
    assert {"cudnn": "fused", None: "unfused"}.get(kernel, "flash") == backend


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("deepspeed", ("learning rate lr", "1e-3", "sequences of 4096 tokens")),
        ("megatron", ("--data-path", "--train-iters", "--lr", "--tokenizer-type")),
        ("bridge", ("recipe", "learning rate")),
        ("torchtitan", ("hf_assets_path", "c4_test", "lr 8e-4")),
        ("torchtitan-cli", ("--hf_assets_path", "learning rate")),
        ("accelerate", ("learning_rate", "number of steps", "sequences of 4096 tokens")),
        ("nanotron", ("model.model_config", "learning rate", "train_steps")),
    ],
)
def test_exports_leave_learning_rate_data_and_length_to_the_user(target: str, words: tuple[str, ...]) -> None:
    layout = Layout(dp=32, zero=1 if target in ("megatron", "bridge", "deepspeed", "nanotron") else 3)
    text = TARGETS[target](Placed(DENSE, layout))
    said = json.loads(text)["comment"] if target == "deepspeed" else text.splitlines()
    left = " ".join(one for one in said if "left to you: " in one)
    assert all(word in left for word in words), left
