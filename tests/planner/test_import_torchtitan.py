"""torchtitan's TOML, command line and Python configurations are read whole, and Python is never run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.decide.planner.imports import Imported, recognised
from lockstep.decide.planner.imports.torchtitan import shared_out
from lockstep.describe.workload import Model, model

SAMPLES = Path(__file__).parent / "imports_samples"
SMALL = '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 4096\n'
PYTHON = "from torchtitan.models.llama3 import model_registry\n\n\ndef run() -> Trainer.Config:\n"


def read(text: str, file: str = "run.toml", given: Model | None = None, chosen: str = "") -> Imported:
    found = recognised(text, file, given, chosen=chosen)
    assert found is not None
    return found


def classes(found: Imported) -> dict[str, str]:
    return {row.word: row.kind for row in found.table}


@pytest.mark.parametrize(
    "wrong",
    [
        "[parallelism]\ntensor_parallel_degree = 2.5\n",
        "[parallelism]\ntensor_parallel_degree = -8\n",
        "[parallelism]\ntensor_parallel_degree = [2]\n",
        "[parallelism]\ndata_parallel_shard_degree = 0\n",
        "[parallelism]\ncontext_parallel_degree = nan\n",
        '[parallelism]\nfsdp_reshard_after_forward = "sometimes"\n',
        "[parallelism]\npipeline_parallel_degree = 2\nmodule_fqns_per_model_part = [1, 2]\n",
        '[parallelism]\npipeline_parallel_degree = 2\nmodule_fqns_per_model_part = [["layers.0"]]\n',
        '[activation_checkpoint]\nmode = "most"\n',
        '[activation_checkpoint]\nmode = "selective"\nselective_ac_option = "ops"\n',
        "[optimizer]\nearly_step_in_backward = 3\n",
        "[compile]\nenable = [true]\n",
        "[metrics]\nlog_freq = 0\n",
        "training.seq_len = 8\n",
    ],
)
def test_values_of_a_wrong_type_or_range_are_refused(wrong: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(SMALL + wrong)
    assert caught.value.where is not None
    assert caught.value.where.startswith("run.toml")


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("[parallelism]\ntensor_paralel_degree = 8\n", "parallelism.tensor_parallel_degree"),
        ("[optimizer]\nearly_step_backward = true\n", "optimizer.early_step_in_backward"),
        ("[activation_checkpoints]\nmode = 'full'\n", "activation_checkpoint.mode"),
    ],
)
def test_a_misspelled_setting_is_refused_with_a_suggestion(wrong: str, meant: str) -> None:
    with pytest.raises(BadInput, match=f"did you mean {meant}"):
        read(SMALL + wrong)


def test_an_update_in_the_backward_pass_is_not_lost(tmp_path: Path) -> None:
    (file := tmp_path / "run.toml").write_text(SMALL + "[optimizer]\nearly_step_in_backward = true\n", encoding="utf-8")
    assert lockstep.estimate(file, "dgx-h100:1").job.recipe.update_in_backward


def test_torchtitan_layer_and_operation_recomputation_are_distinguished() -> None:
    """The default of its selective mode is "2": every second layer is recomputed whole."""
    found = read(SMALL)
    assert found.layout["recompute"] == "full"
    assert found.words["recompute_layers"] == 16
    by_operation = read(SMALL + '[activation_checkpoint]\nselective_ac_option = "op"\n')
    assert (by_operation.layout["recompute"], by_operation.words["recompute_modules"]) == ("selective", "op")


@pytest.mark.parametrize(
    ("layers", "stages", "less", "counts"),
    [
        (32, 2, (1, 1), [16, 16]),
        (32, 4, (1, 1), [8, 9, 8, 7]),
        (80, 4, (1, 1), [20, 21, 20, 19]),
        (32, 4, (0, 0), [8, 8, 8, 8]),
        (126, 16, (1, 1), [7, *[8] * 14, 7]),
    ],
)
def test_layers_are_shared_out_as_torchtitan_does(
    layers: int, stages: int, less: tuple[int, int], counts: list[int]
) -> None:
    """From its rule: layers, and the embedding and the head as so many, evenly, the first stages one more."""
    assert shared_out(layers, stages, *less) == counts
    assert sum(counts) == layers


def test_a_file_without_fsdp_is_ddp_and_one_without_compilation_runs_single_kernels() -> None:
    found = read(SMALL + "[parallelism]\ndata_parallel_replicate_degree = 8\ndata_parallel_shard_degree = 1\n")
    assert found.layout["zero"] == 0
    assert found.words["fused_elementwise"] is False
    assert "fused_elementwise" not in read(SMALL + "[compile]\nenable = true\n").words


def test_a_model_other_than_the_named_one_is_contradictory() -> None:
    found = read(SMALL, given=model("llama3-70b"))
    assert classes(found)["model.flavor"] == "contradictory"
    assert read(SMALL, given=model("llama3-8b")).model == model("llama3-8b")


def test_options_replace_values_of_the_configuration_that_is_named() -> None:
    text = "torchrun -m torchtitan.train --module llama3 --config llama3_8b --training.seq-len 4096"
    found = read(text, "run.sh")
    assert (found.model, found.words["seq"], found.layout["micro_batch"]) == ("llama3-8b", 4096, 1)
    other = read(text.replace("llama3_8b", "llama3_8b_of_mine"), "run.sh")
    assert (other.model, other.layout["micro_batch"]) == ("llama3-8b", 8)
    assert classes(other)["config"] == "unknown"


@pytest.mark.parametrize(
    ("said", "recompute"),
    [("activation-checkpoint:full", "full"), ("activation-checkpoint:none", None), ("", "selective")],
)
def test_a_subcommand_selects_the_recomputation(said: str, recompute: str | None) -> None:
    line = f"--training.local_batch_size 2 --parallelism.no-enable_sequence_parallel {said}"
    assert read(line, "run.txt").layout.get("recompute") == recompute
    assert read(f"--training.local_batch_size 2\n{said}\n", "run.txt").layout.get("recompute") == recompute


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("    if x:\n        return Trainer.Config()\n    return Trainer.Config()\n", "only assignments"),
        ("    for x in y:\n        pass\n    return Trainer.Config()\n", "only assignments"),
        ("    return Trainer.Config(**options)\n", "are not read"),
        ("    config.training.seq_len = 8\n    return config\n", "not a configuration"),
        ("    return Trainer.Config(training=TrainingConfig(seq_len=length()))\n", "whole number"),
        ("    return Trainer.Config(training=TrainingConfig(seq_len=LENGTH))\n", "does not set"),
        ("    return Trainer.Config(training=TrainingConfig(seq_len=4096.5))\n", "whole number"),
        ("    return Trainer.Config(training=TrainingConfig(local_batch_sise=4))\n", "did you mean"),
        ("    return run()\n", "within one another"),
        ("    a = X(b=1)\n    a.c = a\n    return Trainer.Config(training=a)\n", "within one another"),
        (f"    return Trainer.Config(training={'(' * 150}1{')' * 150})\n", "section"),
        ("    return Trainer.Config(\n", "not valid Python"),
        (f"    return Trainer.Config(a={'-' * 50_000}1)\n", "nested too deep|not valid Python"),
        ("    return 3\n", "does not return"),
    ],
)
def test_python_that_must_be_executed_is_refused(wrong: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        read(PYTHON + wrong, "run.py")


def test_calls_that_may_change_a_configuration_are_reported() -> None:
    text = (
        "from torchtitan.models.llama3.config_registry import llama3_8b\n\n\ndef longer(config):\n"
        "    config.training.seq_len = 4096\n\n\ndef run() -> Trainer.Config:\n    config = llama3_8b(steps=8)\n"
        "    longer(config)\n    tune(config)\n    return config\n"
    )
    found = read(text, "run.py")
    assert (found.model, found.words["seq"], found.layout["micro_batch"]) == ("llama3-8b", 4096, 1)
    said = {row.word: (row.kind, row.value) for row in found.table if row.word in ("calls", "config.steps")}
    assert said == {"calls": ("unknown", ["tune"]), "config.steps": ("unknown", 8)}


def test_python_is_never_run(tmp_path: Path) -> None:
    made = tmp_path / "made"
    text = f"import os\nos.mkdir({str(made)!r})\n\n\ndef run() -> Trainer.Config:\n    return Trainer.Config()\n"
    recognised(text, "run.py", model("llama3-8b"))
    assert not made.exists()


def test_one_of_several_functions_is_named_behind_the_file(tmp_path: Path) -> None:
    functions = "".join(
        f'\n\ndef llama3_8b_{name}() -> Trainer.Config:\n    return Trainer.Config(model_spec=model_registry("8B"),\n'
        f"        training=TrainingConfig(local_batch_size={size}, seq_len=2 * 1024))\n"
        for name, size in (("small", 1), ("large", 4))
    )
    (file := tmp_path / "configs.py").write_text(PYTHON.partition("\n\n")[0] + functions, encoding="utf-8")
    with pytest.raises(BadInput, match=r"several configurations.*llama3_8b_small, llama3_8b_large"):
        lockstep.estimate(file, "dgx-h100:1")
    found = lockstep.estimate(f"{file}::llama3_8b_large", "dgx-h100:1")
    assert (found.layout.micro_batch, found.job.recipe.seq, found.job.model.name) == (4, 2048, "llama3-8b")
    with pytest.raises(BadInput, match="has no function llama3_8b_huge"):
        lockstep.estimate(f"{file}::llama3_8b_huge", "dgx-h100:1")


@pytest.mark.parametrize(
    ("name", "called", "words", "layout", "loud"),
    [
        ("llama3-70b.toml", "llama3-70b", {"seq": 8192, "dtype": "bf16", "fused_elementwise": False},
         {"tp": 8, "sequence_parallel": True, "zero": 3, "micro_batch": 8, "recompute": "full"}, set()),
        ("llama3-405b.toml", "llama3-405b", {"seq": 8192, "dtype": "fp8", "overlap_tp": "async"},
         {"tp": 8, "sequence_parallel": True, "zero": 3, "micro_batch": 2, "recompute": "full"},
         {"quantize.linear.float8.enable_fsdp_float8_all_gather"}),
        ("qwen3-experts.toml", "qwen3-30b-a3b", {"batch": 128, "seq": 4096, "dtype": "bf16"},
         {"ep": 2, "zero": 3, "micro_batch": 2, "recompute": "full"}, set()),
        ("3-llama3-70b.sh", "llama3-70b", {"batch": 512, "seq": 8192, "dtype": "bf16"},
         {"tp": 4, "pp": 2, "vpp": 2, "stages": "20,21,20,19", "sequence_parallel": True, "zero": 2, "micro_batch": 1,
          "recompute": "selective"}, set()),
        ("3-long-context.sh", "llama3-8b", {"seq": 32768, "cp_kind": "gather", "cuda_graphs": "step", "reshard": False},
         {"cp": 4, "zero": 3, "micro_batch": 1, "offload": "parameters", "recompute": "full"}, set()),
        ("3-registry.py", "llama3-405b", {"seq": 8192, "dtype": "fp8", "fp8_scaling": "rows", "overlap_tp": "async"},
         {"tp": 8, "sequence_parallel": True, "zero": 3, "micro_batch": 2, "recompute": "full"}, set()),
        ("3-derived.py", "qwen3-14b", {"seq": 4096, "dtype": "bf16"}, {"zero": 3, "shard": 8, "micro_batch": 2}, set()),
    ],
)  # fmt: skip
def test_configurations_of_public_projects_are_read(
    name: str, called: str, words: dict[str, Any], layout: dict[str, Any], loud: set[str]
) -> None:
    found = read((SAMPLES / f"torchtitan-{name}").read_text(encoding="utf-8"), name)
    assert found.model == called
    assert found.words.items() >= words.items()
    assert found.layout == layout
    assert {row.word for row in found.table if row.kind in ("unknown", "contradictory")} == loud


def test_a_function_may_name_a_model_without_its_own_configuration() -> None:
    text = "from a import model_registry, Trainer\n\ndef {name}() -> Trainer.Config:\n"
    text += '    return Trainer.Config(model_spec=model_registry("{flavor}"))\n'
    found = read(text.format(name="llama3_405b", flavor="405B"), "config_registry.py")
    assert found.model == "llama3-405b"
    found = read(text.format(name="own_7b", flavor="7B"), "config_registry.py")
    assert (found.model, found.called) == (None, "a-7B")
