"""The recipe on the command line: every field has a flag or a reason, and every flag does what its field does."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import typer

import lockstep
from cli_runner import LLAMA, run
from effort import share
from lockstep.decide.planner.estimate import estimate as estimate_layout
from lockstep.describe.stacks import DEFAULT, Options, stack, stacks
from lockstep.price.layout import Recipe
from lockstep.show.cli.app import build
from lockstep.show.verbs.words.question import read_question
from lockstep.show.verbs.words.recipe import RecipeWords

FLAGS = {
    "dtype": ("fp8", "dtype", "fp8"),
    "attention_kernel": ("flash2", "attention_kernel", "flash2"),
    "fp8_scaling": ("current", "scaling", "current"),
    "optimizer": ("adamw-8bit", "optimizer", "adamw-8bit"),
    "cross_entropy": ("eager", "cross_entropy", "eager"),
    "parameter_bytes": ("4", "parameter_B", 4.0),
    "gradient_bytes": ("2", "gradient_B", 2.0),
    "reduce_bytes": ("2", "reduce_B", 2.0),
    "flash": (False, "flash_attention", False),
    "dropout": (True, "dropout", True),
    "fused_elementwise": (False, "fused_elementwise", False),
    "fused_accumulation": (False, "fused_accumulation", False),
    "sharding": ("megatron", "sharding", "megatron"),
    "gradient_sync": ("step", "gradient_sync", "step"),
    "sample_tokens": ("512", "sample_tokens", 512),
    "update_in_backward": (True, "update_in_backward", True),
    "reshard": (False, "reshard", False),
    "gather_limits": ("max_live_parameters=0", "gather_limits", "max_live_parameters=0"),
    "overlap": (False, "overlap_dp", False),
    "overlap_tp": ("all", "overlap_tp", "all"),
    "local_steps": ("500", "local_steps", 500),
    "cp_kind": ("gather", "cp_kind", "gather"),
    "vocab_parallel": ("vocab-2", "vocab_parallel", "vocab-2"),
    "overlap_pp": (True, "overlap_pp", True),
    "exchange": ("node", "exchange", "node"),
    "routing": ("skew:0.5", "routing", "skew:0.5"),
    "overlap_ep": ("none", "overlap_ep", "none"),
    "cuda_graphs": ("attention", "cuda_graphs", "attention"),
    "overlap_device": ("50%", "overlap_device_frac", 0.5),
    "dispatch_bytes": ("1.03125", "dispatch_B", 1.03125),
    "cached_bytes": ("1.03125", "cached_B", 1.03125),
    "cached_attention_bytes": ("1.53125", "cached_attention_B", 1.53125),
    "jitter": ("lognormal:mean=1,cv=0.05", "jitter", "lognormal:mean=1,cv=0.05"),
    "rank_jitter": ("normal:mean=1,cv=0.01", "rank_jitter", "normal:mean=1,cv=0.01"),
    "offload_layers": ("2", "offload_layers", 2),
    "mfu_convention": ("causal", "mfu_convention", "causal"),
    "recompute_modules": ("layernorm, moe_act", "recompute_modules", ("layernorm", "moe_act")),
    "recompute_layers": ("2", "recompute_layers", 2),
}
"""Word of the library -> (as said, field of Recipe, its value)."""
ADAPTERS = {"train", "base"}
"""Words of fine-tuning, which mean something only together and not of every model: workload/test_adapters.py."""
QUESTION = {"seq", "batch", "notes"}
"""Fields that other flags say, or that say what was chosen."""
MOE = ("deepseek-v2", "hgx-h800:8")
DENSE = ("llama3-8b", "dgx-h100:8")
COMPANY = {"overlap_device": {"overlap_ep": "shared"}, "gradient_sync": {"zero": 2}, "reshard": {"zero": 3},
           "gather_limits": {"pp": 1, "zero": 3, "sharding": "deepspeed"},
           "local_steps": {"ep": 1, "shard": 2}, "recompute_layers": {"recompute": "full"},
           "cp_kind": {"cp": 2, "pp": 2, "ep": 4}}  # fmt: skip
"""Words that mean something only beside others."""
BATCH = {"update_in_backward": 8}
LAYOUT = {"tp": 2, "pp": 4, "ep": 8, "zero": 1, "recompute": "selective", "sequence_parallel": True}


def test_every_field_has_a_flag_or_a_reason() -> None:
    assert set(FLAGS) | {"stack", "way"} | ADAPTERS == set(RecipeWords.__annotations__)
    said = {field for _, field, _ in FLAGS.values()}
    assert {*Recipe.by(DEFAULT, seq=1, batch=1).options} == said | {"stack", "scaling"} | ADAPTERS | QUESTION


@pytest.mark.parametrize("word", FLAGS)
def test_an_option_sets_only_its_own_field(word: str) -> None:
    value, field, expected = FLAGS[word]
    plain = read_question(*MOE, batch=256).recipe
    changed = read_question(*MOE, batch=256, **{word: value}).recipe  # type: ignore[misc]
    assert changed == plain.having(**{field: expected})
    assert changed != plain


@pytest.mark.parametrize("name", stacks())
def test_explicit_options_override_the_switches_of_a_stack(name: str) -> None:
    plain = read_question(*MOE, batch=256).recipe
    defaults = {one.name: one.default for record in (Recipe, Options) for one in fields(record)}
    unset = {name: defaults[name] for name in stack(plain.stack).switches}
    found = read_question(*MOE, batch=256, stack=name).recipe
    assert found == plain.having(stack=name, **(unset | dict(stack(name).switches)))
    other = not found.fused_elementwise
    said = read_question(*MOE, batch=256, stack=name, fused_elementwise=other).recipe
    assert said == found.having(fused_elementwise=other)


@pytest.mark.parametrize("name", share(list(stacks()), 6))
def test_stack_options_agree_between_command_line_and_python(name: str) -> None:
    other = not Recipe.by(name, seq=1, batch=1).fused_elementwise
    flag = "--fused-elementwise" if other else "--no-fused-elementwise"
    answer = run("estimate", *DENSE[:1], "-c", DENSE[1], "--batch", "64", "--stack", name, flag, "--json").json()
    assert answer["stack"] == name
    want = lockstep.estimate(*DENSE, batch=64, stack=name, fused_elementwise=other)
    assert answer["step_time_s"] == want.step_time_s


def test_tpus_run_other_software_by_default() -> None:
    assert read_question("llama3-8b", "tpu-v5p:4", batch=64).recipe.stack == "maxtext"
    assert read_question("llama3-8b", "dgx-h100:1", batch=64).recipe.stack == "megatron-te"
    assert read_question("llama3-8b", "tpu-v5p:4", batch=64, stack="torchtitan").recipe.stack == "torchtitan"


@pytest.mark.parametrize("word", FLAGS)
def test_every_flag_sets_the_field_of_its_name(word: str) -> None:
    """The verb's answer is that of the estimate whose recipe has the field."""
    value, field, expected = FLAGS[word]
    flag = word.replace("_", "-")
    said = ((f"--{flag}",) if value else (f"--no-{flag}",)) if isinstance(value, bool) else (f"--{flag}", str(value))
    laid = LAYOUT | dict(COMPANY.get(word, ()))
    layout = [part for name, one in laid.items() for part in ((f"--{name.replace('_', '-')}",) if one is True else
              (f"--{name.replace('_', '-')}", str(one)))]  # fmt: skip
    where, batch = DENSE if word == "local_steps" else MOE, BATCH.get(word, 256)
    answer = run("estimate", where[0], "-c", where[1], "--batch", str(batch), *layout, *said, "--json").json()
    found = lockstep.estimate(*where, batch=batch, **laid)  # type: ignore[arg-type]
    job = replace(found.job, recipe=found.job.recipe.having(**{field: expected}))
    want = estimate_layout(job, found.cluster, found.layout)
    assert answer["step_time_s"] == want.step_time_s
    assert answer["memory"]["total_B"] == float(want.memory.total_B)


@pytest.mark.parametrize("verb", ["plan", "guide", "estimate", "memory", "roofline", "sensitivity", "cite", "export",
                                  "campaign", "scaling"])  # fmt: skip
def test_every_verb_about_a_run_takes_the_recipe(verb: str) -> None:
    command = typer.main.get_command(build([verb]))
    assert isinstance(command, typer.core.TyperGroup)
    assert set(FLAGS) <= {parameter.name for parameter in command.commands[verb].params}


def test_memory_and_traffic_follow_the_bytes_of_each_format() -> None:
    """Parameters in fp32 take twice the memory, gradients in bf16 half the wire, kept activations their share."""
    words = {"batch": 64, "tp": 2, "zero": 1, "micro_batch": 1, "overlap": False}
    plain = lockstep.estimate("llama3-8b", "dgx-h100:2", **words)
    wide = lockstep.estimate("llama3-8b", "dgx-h100:2", **words, parameter_bytes=4)
    assert wide.memory.parameters_B == pytest.approx(2 * plain.memory.parameters_B)
    reduced = lockstep.estimate("llama3-8b", "dgx-h100:2", **words, reduce_bytes=2)
    assert reduced.memory.total_B == plain.memory.total_B
    comm_s, halved_s = (one.step.breakdown_s()["dp_comm"] for one in (plain, reduced))
    assert comm_s / 2 < halved_s < comm_s
    narrow = lockstep.estimate("llama3-8b", "dgx-h100:2", **words, cached_bytes="1.03125")
    assert narrow.memory.activations_B < plain.memory.activations_B


@pytest.mark.parametrize("target", ["megatron", "deepspeed", "torchtitan"])
@pytest.mark.parametrize("words", [("--dispatch-bytes", "1"), ("--cached-bytes", "1"), ("--parameter-bytes", "4")])
def test_formats_that_a_target_cannot_express_are_not_exported(target: str, words: tuple[str, ...]) -> None:
    about = ("mixtral-8x7b", "--ep", "8") if "--dispatch-bytes" in words else ("llama3-8b",)
    session = run("export", *about, "-c", "dgx-h100:2", "--batch", "64", "--zero", "1", "--to", target, *words)
    assert session.code == 1
    assert "bytes" in session.out + session.err or "a separate format" in session.out + session.err


def test_integer_formats_are_refused_for_training() -> None:
    message = run("estimate", *LLAMA, "--dtype", "int8").refusal()
    assert message.startswith("--dtype: int8 is not a training format")
    assert "fp8" in message


def test_thousands_of_a_sequence_are_powers_of_two() -> None:
    written, binary, plain = (run("estimate", *LLAMA, "--seq", seq, "--json").json() for seq in ("8k", "8Ki", "8192"))
    assert written == binary == plain
    several = run("estimate", *LLAMA, "--seq", "4k,8k", "--json").json()["rows"]
    assert [one["seq"] for one in several] == [4096, 8192]
    assert several[1]["step_time_s"] == plain["step_time_s"]


def test_fp8_utilisation_names_the_peak_it_divides_by() -> None:
    """Twice the peak of bf16, so that half a utilisation may be the faster one."""
    narrow, half = (run("estimate", *LLAMA, "--dtype", dtype, "--json").json() for dtype in ("fp8", "bf16"))
    assert (narrow["peak_dtype"], half["peak_dtype"]) == ("fp8", "bf16")
    assert narrow["peak_flops_per_s"] == pytest.approx(2 * half["peak_flops_per_s"], rel=1e-3)
    for answer in (narrow, half):
        assert answer["mfu_frac"] == pytest.approx(answer["model_flops_per_gpu_per_s"] / answer["peak_flops_per_s"])
    assert any("of the dense fp8 peak" in said for said in narrow["assumptions"])
    assert "MFU (of the fp8 peak; attention counted in full" in " ".join(
        run("plan", *LLAMA, "--dtype", "fp8").out.split()
    )
    assert "MFU (" not in run("plan", *LLAMA, "--seq", "2048").out
    assert "in fp8," in " ".join(run("estimate", *LLAMA, "--dtype", "fp8").out.split())
    assert any(
        "of the dense fp8 peak" in said
        for said in run("plan", *LLAMA, "--dtype", "fp8", "--json").json()["assumptions"]
    )
