"""Files of the Megatron-LM family are read as a careful engineer reads them, and every option has a class."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.decide.planner.export.arguments import arguments
from lockstep.decide.planner.imports import Imported, recognised
from lockstep.decide.planner.imports.formats import format_of
from lockstep.describe.workload import Transformer, model

SAMPLES = Path(__file__).parent / "imports_samples"
GROWS = "rampup-batch-size"
EXPECTED: dict[str, tuple[str, dict[str, Any], dict[str, Any], set[str]]] = {
    "megatron-gpt3-175b.sh": (
        "gpt3-175b",
        {"batch": 1536, "seq": 2048, "dtype": "fp16", "gradient_bytes": 2, "dropout": True, "overlap": False},
        {"tp": 8, "pp": 16, "micro_batch": 1},
        {GROWS, "launcher.nproc_per_node"},
    ),
    "megatron-llama3-8b-fp8.sh": (
        "",
        {"batch": 128, "seq": 8192, "dtype": "fp8", "gradient_bytes": 2, "cross_entropy": "fused", "gpus": 8},
        {"zero": 1, "micro_batch": 1},
        {"fp8-param-gather", "empty-unused-memory-level"},
    ),
    "megatron-mixtral-small.sh": (
        "", {"batch": 4, "seq": 256, "dtype": "fp32", "gpus": 2}, {"ep": 2, "zero": 1, "micro_batch": 1}, set(),
    ),
    "megatron-multilingual-176b.log": (
        "",
        {"batch": 2048, "seq": 2048, "dtype": "bf16", "dropout": True, "overlap": False, "gpus": 384},
        {"tp": 4, "pp": 12, "zero": 1, "recompute": "full", "micro_batch": 2},
        {GROWS},
    ),
    "megatron-mixtral-8x7b.log": (
        "mixtral-8x7b",
        {"batch": 256, "seq": 4096, "dtype": "bf16", "cross_entropy": "fused", "gpus": 64},
        {"pp": 4, "ep": 8, "zero": 1, "micro_batch": 1},
        set(),
    ),
    "mindspeed-deepseek2-lite.sh": (
        "deepseek-v2-lite",
        {"batch": 8, "seq": 4096, "dtype": "bf16", "fused_accumulation": False, "overlap": False, "gpus": 8},
        {"ep": 8, "zero": 1, "recompute": "full", "micro_batch": 1},
        {"reuse-fp32-param", "moe-alltoall-overlap-comm", "moe-permutation-async-comm"},
    ),
    "mindspeed-deepseek3.sh": (
        "deepseek-v3",
        {"batch": 3840, "seq": 4096, "dtype": "bf16", "overlap": False, "exchange": "copy", "gpus": 512},
        {"tp": 4, "pp": 8, "ep": 32, "etp": 1, "sequence_parallel": True, "zero": 1, "recompute": "full",
         "micro_batch": 1, "schedule": "dualpipe-v", "vpp": 2},
        {"reset-position-ids", "use-ascend-coc", "coc-fused-kernel", "mla-fa-without-pad", "swap-optimizer",
         "moe-permutation-async-comm", "mtp-mem-efficient-logits"},
    ),
    "mindspeed-qwen3-8b.sh": (
        "qwen3-8b",
        {"batch": 64, "seq": 4096, "dtype": "bf16", "fused_accumulation": False, "gpus": 8},
        {"pp": 2, "zero": 1, "micro_batch": 1},
        {"reuse-fp32-param", "use-ascend-coc", "$MOE_ARGS"},
    ),
    "bridge-deepseek-v3.yaml": (
        "deepseek-v3",
        {"batch": 8192, "seq": 4096, "dtype": "fp8", "gradient_bytes": 2, "cross_entropy": "fused", "overlap": False,
         "routing": "forced", "exchange": "copy", "recompute_modules": "mla_up_proj,mlp"},
        {"tp": 2, "pp": 8, "vpp": 4, "ep": 64, "etp": 1, "sequence_parallel": True, "zero": 1, "micro_batch": 1,
         "recompute": "selective", "stages": ",".join(["1", *["2"] * 30, "0"])},
        {"mixed_precision.fp8_recipe", "model.moe_flex_dispatcher_backend"},
    ),
    "bridge-kimi-proxy.yaml": (
        "", {"batch": 16, "seq": 4096, "dtype": "bf16", "gradient_bytes": 2},
        {"tp": 2, "ep": 8, "zero": 1, "micro_batch": 1}, {"model.apply_rope_fusion", "model.qk_clip"},
    ),
    "bridge-llama3-8b-fsdp.yaml": (
        "", {"batch": 8, "seq": 4096, "dtype": "bf16"}, {"zero": 3, "micro_batch": 1}, set(),
    ),
    "bridge-llama3-overrides.sh": (
        "llama3-8b", {"batch": 128, "seq": 8192, "dtype": "fp8", "fp8_scaling": "current", "gpus": 16},
        {"tp": 2, "cp": 2, "sequence_parallel": True, "zero": 1, "micro_batch": 1}, set(),
    ),
    "mlperf-llama31-8b.txt": (
        "llama3-8b", {"batch": 32, "seq": 8192, "gpus": 8}, {"micro_batch": 2, "zero": 1}, set(),
    ),
    "mlperf-llama2-lora.txt": ("llama2-70b", {"batch": 8, "train": "lora:r=16,targets=attention"}, {}, set()),
    "mlperf-llama31-405b.txt": (
        "llama3-405b", {"batch": 1152, "seq": 8192, "dtype": "fp8", "gpus": 512},
        {"tp": 8, "pp": 8, "cp": 2, "micro_batch": 1, "zero": 1, "sequence_parallel": True}, set(),
    ),
}  # fmt: skip
"""Sample to its model in the catalog, the words of its question, its layout, and what is not understood of it."""
SHAPED = {"max_positions": 1, "norm_epsilon": None, "source": "", "date": "", "notes": (), "name": ""}
"""What a file says otherwise than the catalog without being another model."""


def plain(words: dict[str, Any]) -> dict[str, Any]:
    """Words without those that follow from the number of devices."""
    return {word: value for word, value in words.items() if not callable(value)}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_is_read_as_expected(name: str) -> None:
    catalog, words, layout, unknown = EXPECTED[name]
    found = recognised((SAMPLES / name).read_text(encoding="utf-8"), name)
    assert found is not None
    assert (plain(found.words), plain(found.layout)) == (words, layout)
    assert {row.word for row in found.table if row.kind in ("unknown", "contradictory")} == unknown
    said = model(found.model) if isinstance(found.model, str) else found.model
    if catalog:
        described = model(catalog)
        assert isinstance(said, Transformer)
        assert isinstance(described, Transformer)
        assert replace(said, **SHAPED) == replace(described, **SHAPED)


@pytest.mark.parametrize(
    "name", [name for name in EXPECTED if not name.startswith(("bridge-kimi", "bridge-llama3-8b"))]
)
def test_a_sample_can_be_estimated(name: str) -> None:
    nodes = {"megatron-gpt3-175b.sh": ":16", "bridge-deepseek-v3.yaml": ":128"}.get(name, "")
    found = lockstep.estimate(SAMPLES / name, f"dgx-h100{nodes}")
    layout = EXPECTED[name][2]
    assert {word: getattr(found.layout, word) for word in ("tp", "pp", "cp") if word in layout} == {
        word: layout[word] for word in ("tp", "pp", "cp") if word in layout
    }


@pytest.mark.parametrize(("key", "target"), [("megatron", "megatron"), ("mindspeed", "megatron"), ("bridge", "bridge")])
def test_every_parser_argument_is_classified(key: str, target: str) -> None:
    format = format_of(key)
    assert [name for name in arguments(target).names if format.kind_of(name)[0] == "unknown"] == []


@pytest.mark.parametrize("key", ["megatron", "bridge"])
def test_every_pattern_of_a_parser_table_matches_an_argument(key: str) -> None:
    format = format_of(key)
    for pattern, kind in (format.harmless | format.yours).items():
        if kind == "parsed":
            assert any(fnmatchcase(name, pattern) for name in format.parsed), pattern


def test_new_and_old_log_formats_give_the_same_run() -> None:
    """Releases differ in the arguments that they list, in prefixes of lines, and in where the vocabulary stands."""
    old = (SAMPLES / "megatron-multilingual-176b.log").read_text(encoding="utf-8")
    lines = [f"[default0]:{line}" for line in old.splitlines() if "retro_" not in line and "dino_" not in line]
    lines.insert(2, "[default0]:  moe_router_force_load_balancing ................ False")
    lines.insert(3, "[default0]:  use_megatron_fsdp .............................. False")
    first, second = (recognised(text, "run.log") for text in (old, "\n".join(lines)))
    assert first is not None
    assert second is not None
    assert (first.words, first.layout, first.model) == (second.words, second.layout, second.model)


def test_a_number_of_processes_that_the_layout_does_not_divide_is_left_to_the_cluster() -> None:
    found = lockstep.estimate(SAMPLES / "megatron-gpt3-175b.sh", "dgx-h100:32")
    assert found.job.devices == 256
    assert any("launcher.nproc_per_node" in one for one in found.assumptions())


@pytest.mark.parametrize(("kind", "overlaps"), [("pretrain", True), ("sft", False), ("peft", False)])
def test_omitted_overrides_take_the_defaults_of_the_recipe(kind: str, overlaps: bool) -> None:
    text = f"torchrun run_recipe.py --recipe llama3_8b_{kind}_config model.tensor_model_parallel_size=2\n"
    found = recognised(text, "run.sh")
    assert found is not None
    assert (found.layout["zero"], found.words.get("overlap", True)) == (1, overlaps)


def test_a_key_without_a_name_is_shown() -> None:
    found = recognised(
        ':::MLLOG {"key": "submission_benchmark", "value": "gpt3"}\n:::MLLOG {"key": "", "value": 2}\n', "a"
    )
    assert found is not None
    assert [row.word for row in found.table if row.kind == "unknown"] == [""]


SHAPE = "--num-layers 8 --hidden-size 512 --num-attention-heads 8 --vocab-size 32000 --seq-length 1024 --bf16"


def read(options: str) -> Imported:
    """What a command line with these options says."""
    found = recognised(f"torchrun pretrain_gpt.py {SHAPE} --micro-batch-size 1 {options}\n", "run.sh")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("options", "layers", "stages"),
    [
        ("--num-layer-list 3,5", 8, "3,5"),
        ("--noop-layers 7", 7, "4,3"),
        ("--noop-layers 0,7 --num-layers-per-virtual-pipeline-stage 2", 6, "1,2,2,1"),
    ],
)
def test_mindspeed_stage_layers_are_read(options: str, layers: int, stages: str) -> None:
    found = read(f"--pipeline-model-parallel-size 2 {options}")
    assert isinstance(found.model, Transformer)
    assert (found.model.layers, found.layout["stages"]) == (layers, stages)
    assert found.layout.get("vpp", 1) == len(stages.split(",")) // 2


def test_context_parallelism_of_mindspeed_is_all_to_all_unless_another_is_named() -> None:
    kinds = {"": "all-to-all", "--context-parallel-algo megatron_cp_algo": None,
             "--context-parallel-algo hybrid_cp_algo --ulysses-degree-in-cp 2": "mixed"}  # fmt: skip
    for options, kind in kinds.items():
        found = read(f"--tensor-model-parallel-size 1 --context-parallel-size 4 --use-fused-rmsnorm {options}")
        assert found.words.get("cp_kind") == kind


def test_conversion_commands_are_ignored_and_two_runs_are_refused() -> None:
    run = f"torchrun pretrain_gpt.py {SHAPE} --micro-batch-size 1 --tensor-model-parallel-size 2\n"
    convert = "python convert.py --tensor-model-parallel-size 8 --load a --save b\n"
    for text in (convert + run, run + convert):
        found = recognised(text, "run.sh")
        assert found is not None
        assert found.layout["tp"] == 2
    with pytest.raises(BadInput, match="starts two runs"):
        recognised(run + run.replace("size 2", "size 4"), "run.sh")
    assert recognised(f"if [ $A = 1 ]; then\n{run}else\n{run.replace('torchrun', 'torchrun --nnodes 1')}fi\n", "run.sh")


def test_references_of_bridge_are_resolved_as_omegaconf_resolves_them() -> None:
    text = "model:\n  seq_length: 4096\n  tensor_model_parallel_size: 2\ntrain:\n  global_batch_size: 8\n"
    found = recognised(text + "dataset:\n  sequence_length: ${model.seq_length}\n", "run.yaml", model("llama3-8b"))
    assert found is not None
    assert {row.word: row.value for row in found.table}["dataset.sequence_length"] == 4096
    with pytest.raises(BadInput, match=r"whole number of at least 1, got '\$\{TP\}'"):
        recognised(text.replace("size: 2", "size: ${TP}"), "run.yaml", model("llama3-8b"))


def test_the_vocabulary_of_a_shape_in_bridges_file_is_that_of_its_tokenizer() -> None:
    shape = "model:\n  num_layers: 4\n  hidden_size: 512\n  num_attention_heads: 8\n  seq_length: 512\n"
    shape += "  tensor_model_parallel_size: 2\ntrain:\n  global_batch_size: 8\n  micro_batch_size: 1\ntokenizer:\n"
    for tokenizer, vocab in (("tokenizer_model: Qwen/Qwen3-235B-A22B", 151936), ("vocab_size: 1000", 1000)):
        found = recognised(f"{shape}  {tokenizer}\n", "run.yaml")
        assert found is not None
        assert isinstance(found.model, Transformer)
        assert found.model.vocab == vocab
