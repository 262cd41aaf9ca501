"""Scripts for Megatron-LM that are wrong, misspelled or hostile are refused at their line; no option is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep.base.errors import BadInput

SHAPE = (
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 11008 --swiglu --vocab-size 32000 "
    "--seq-length 2048 --micro-batch-size 1 --global-batch-size 64 --bf16 --attention-dropout 0 --hidden-dropout 0"
)


def estimated(tmp_path: Path, text: str, name: str = "run.sh", **words: Any) -> Any:
    """The estimate of a file with that text."""
    (file := tmp_path / name).write_text(text, encoding="utf-8")
    return lockstep.estimate(file, "dgx-h100:2", **words)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("--tensor-model-paralel-size 8", "tensor-model-parallel-size"),
        ("--pipeline-model-parallel-sizes 2", "pipeline-model-parallel-size"),
        ("--recompute-granularty full", "recompute-granularity"),
        ("--expert-model-paralell-size 2", "expert-model-parallel-size"),
        ("--use-distributed-optimiser", "use-distributed-optimizer"),
    ],
)
def test_a_misspelled_option_is_refused_with_a_suggestion(wrong: str, meant: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"did you mean {meant}") as refused:
        estimated(tmp_path, f"torchrun pretrain_gpt.py {SHAPE} \\\n  --tensor-model-parallel-size 2 \\\n  {wrong}\n")
    assert str(refused.value.where).endswith("run.sh:3")


def test_an_unknown_option_that_may_change_memory_is_refused_until_it_is_accepted(tmp_path: Path) -> None:
    text = f"torchrun pretrain_gpt.py {SHAPE} --tensor-model-parallel-size 2 --offload-everything-to-disk 3\n"
    with pytest.raises(BadInput, match="--accept-unknown offload-everything-to-disk"):
        estimated(tmp_path, text)
    found = estimated(tmp_path, text, accept_unknown="offload-everything-to-disk")
    assert any("offload-everything-to-disk" in one for one in found.assumptions())


def test_the_expert_width_of_mindspeed_is_read(tmp_path: Path) -> None:
    text = f"{SHAPE} --tensor-model-parallel-size 1 --num-experts 8 --moe-router-topk 2 --moe-intermediate-size 1408 "
    text += "--n-shared-experts 2 --first-k-dense-replace 1 --moe-layer-freq 1"
    experts = estimated(tmp_path, text).job.model.experts
    assert (experts.ffn, experts.shared_ffn, experts.first_dense) == (1408, 2816, 1)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("--tensor-model-parallel-size 0", "whole number"),
        ("--tensor-model-parallel-size -3", "whole number"),
        ("--tensor-model-parallel-size 2.5", "whole number"),
        ("--tensor-model-parallel-size 1e400", "whole number"),
        ("--tensor-model-parallel-size many", "whole number"),
        ("--tensor-model-parallel-size", "whole number"),
        ("--tensor-model-parallel-size 2 4", "whole number"),
        ("--tensor-model-parallel-size 1_0", "whole number"),
        ("--tensor-model-parallel-size $TP", "does not set"),
        ("--tensor-model-parallel-size 2 --hidden-size 4097", "32 heads do not divide"),
        ("--tensor-model-parallel-size 2 --attention-dropout 2", "from 0 to 1"),
        ("--tensor-model-parallel-size 2 --recompute-granularity some", "full or selective"),
        ("--tensor-model-parallel-size 2 --fp16", "accepts only one of them"),
        ("--tensor-model-parallel-size 2 --lr quick", "a number"),
        ("--tensor-model-parallel-size 2 --save-interval often", "a whole number"),
        ("--tensor-model-parallel-size 2 --sequence-parallel maybe", "true or false"),
        ("--tensor-model-parallel-size 2 --group-query-attention --num-query-groups 5", "does not divide"),
        ("--tensor-model-parallel-size 2 --num-experts 4 --moe-router-topk 8", "more than the 4 experts"),
        ("--tensor-model-parallel-size 2 --num-experts 4 --moe-layer-freq ([0]*3)", "3 elements for 32 layers"),
        ("--tensor-model-parallel-size 2 --num-experts 4 --moe-layer-freq print(1)", "must be a number or a list"),
        ("--tensor-model-parallel-size 2 --window-size wide", "pair of numbers"),
        ("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et*16|t*9|t*7L", "2 stages do not divide"),
        ("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout E(t*99999)*99999|L", "letters allowed"),
        ("--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 5", "does not divide 32 layers"),
        ("--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 40", "leaves -8 layers"),
        ("--tensor-model-parallel-size 1 --num-layer-list 16,15 --pipeline-model-parallel-size 2", "add up to 32"),
        ("--tensor-model-parallel-size 1 --noop-layers 77 --pipeline-model-parallel-size 2", "layers from 0 to 31"),
    ],
)
def test_a_value_that_no_run_can_have_is_refused_at_its_line(wrong: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=why) as refused:
        estimated(tmp_path, f"torchrun pretrain_gpt.py \\\n  {SHAPE} \\\n  {wrong.replace('(', chr(39) + '(')}"
                            + ("'" if "(" in wrong else "") + "\n")  # fmt: skip
    assert "run.sh:" in str(refused.value.where)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("model: {tensor_model_parallel_size: -3}\nddp: {use_distributed_optimizer: true}\n", "at least 1"),
        ("model: {tensor_model_parallel_size: 2, tensor_model_parallel_size: 4}\nddp: {}\n", "given twice"),
        ("model: {tensor_model_paralel_size: 2}\nddp: {use_distributed_optimizer: true}\n", "did you mean"),
        (
            "model: {tensor_model_parallel_size: 2}\nmixed_precision: {dtype: bf16}\n",
            "mixed_precision.dtype is not a setting",
        ),
        ("model: {tensor_model_parallel_size: 2}\nmixed_precision: bf17_mixed\n", "is not a recipe"),
        ("model: {tensor_model_parallel_size: [2]}\nddp: {}\n", "whole number"),
        ("model: 3\nddp: {use_distributed_optimizer: true}\n", "is a section"),
    ],
)
def test_overrides_of_megatron_bridge_are_read_as_strictly(text: str, why: str, tmp_path: Path) -> None:
    (file := tmp_path / "over.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=why) as refused:
        lockstep.estimate(f"llama3-8b@{file}", "dgx-h100:2", seq=2048, batch=64)
    assert "over.yaml:" in str(refused.value.where)


@pytest.mark.parametrize(
    "line",
    ['{"key": "tensor_parallelism", "value": 2.5}', '{"key": "tensor_parallelism", "value": [2]}',
     '{"key": "micro_batch_size", "value": 0}', '{"key": "tensor_paralelism", "value": 2}'],
)  # fmt: skip
def test_values_in_an_mlperf_log_have_a_kind(line: str, tmp_path: Path) -> None:
    text = f':::MLLOG {{"key": "submission_benchmark", "value": "llama31_8b"}}\n:::MLLOG {line}\n'
    with pytest.raises(BadInput) as refused:
        estimated(tmp_path, text, "result.txt", seq=2048, batch=64)
    assert str(refused.value.where).endswith("result.txt:2")


HOSTILE = {
    "variables that name one another": 'A="$B $B"\nB="$A $A"\n' * 40 + f"torchrun x.py {SHAPE} "
                                       "--tensor-model-parallel-size $A\n",
    "a sum nested 9,000 deep": f"A=$(({'(' * 9000}1{')' * 9000}))\ntorchrun x.py {SHAPE} "
                               "--tensor-model-parallel-size $A\n",
    "400 KB of open brackets": f"torchrun x.py {SHAPE} --tensor-model-parallel-size {'[' * 400_000}\n",
    "a pattern nested deep": f"torchrun x.py {SHAPE} --tensor-model-parallel-size 1 --num-experts 8 --moe-layer-freq "
                             f"'{'(' * 9000}1{')' * 9000}'\n",
    "20,000 wrong words": f"torchrun x.py {SHAPE} --tensor-model-parallel-size 1 "
                          + " ".join(f"--wrong-{one} 1" for one in range(20_000)) + "\n",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_script_is_refused_at_once(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        estimated(tmp_path, HOSTILE[name])
    assert "run.sh" in str(refused.value.where)


def test_options_contradicting_the_named_model_are_listed(tmp_path: Path) -> None:
    (file := tmp_path / "run.sh").write_text(f"torchrun x.py {SHAPE} --tensor-model-parallel-size 2", encoding="utf-8")
    found = lockstep.estimate(f"llama3-8b@{file}", "dgx-h100:2")
    assert found.job.model.name == "llama3-8b"
    assert any("ffn-hidden-size=11008" in one for one in found.assumptions())


def test_repeated_and_conditional_options_are_listed(tmp_path: Path) -> None:
    text = f"PP=1\nif [ $1 = big ]; then PP=2; fi\ntorchrun x.py {SHAPE} --tensor-model-parallel-size 4 "
    found = estimated(tmp_path, text + "--tensor-model-parallel-size 2 --pipeline-model-parallel-size $PP")
    said = " ".join(found.assumptions())
    assert found.layout.tp == 2
    assert "tensor-model-parallel-size=2" in said
    assert "pipeline-model-parallel-size=2" in said


LAYOUT = "torchrun pretrain_gpt.py --tensor-model-parallel-size 2 "


def classes(found: Any) -> dict[str, str]:
    """The class of every word."""
    return {row["word"]: row["class"] for row in found.to_dict()["imported"]}


def test_numbers_in_groups_of_three_are_read_as_python_reads_them(tmp_path: Path) -> None:
    text = LAYOUT + SHAPE.replace("--seq-length 2048", "--seq-length 2_048 --rampup-batch-size 16 16 9_765_625")
    assert estimated(tmp_path, text).job.recipe.seq == 2048


def test_options_of_megatron_deepspeed_are_classified(tmp_path: Path) -> None:
    """Of BigScience's fork, megatron/arguments.py, and of Microsoft's."""
    text = LAYOUT + SHAPE.replace("--vocab-size 32000", "--pad-vocab-size-to 250880")
    text += " --normalization rmsnorm --num-key-value-heads 8 --position-embedding-type alibi --zero-stage 1 "
    text += "--tokenizer-type PretrainedFromHF --tokenizer-name-or-path a/b --train-weighted-split-paths-path $DIR/a "
    text += "--deepspeed --deepspeed_config ./ds.$JOB.json --pp-partition-method 'type:transformer|embedding' "
    text += "--kill-switch-path /a\n"
    found = estimated(tmp_path, text)
    shape = found.job.model
    assert (shape.vocab, shape.norm, shape.attention.kv_heads, shape.positions) == (250880, "rmsnorm", 8, "alibi")
    known = classes(found)
    assert {known[word] for word in ("zero-stage", "deepspeed_config", "pp-partition-method")} == {"unknown"}
    assert (known["kill-switch-path"], known["train-weighted-split-paths-path"]) == ("harmless", "yours")


def test_deepspeed_experts_are_not_read_as_megatron_experts(tmp_path: Path) -> None:
    """They stand in every second layer, where Megatron-LM's stand in all."""
    with pytest.raises(BadInput, match="32 layers with --moe-expert-parallel-size"):
        estimated(tmp_path, f"{LAYOUT}{SHAPE} --num-experts 64 --moe-expert-parallel-size 16\n")


def test_an_unknown_recompute_module_is_reported_and_not_refused(tmp_path: Path) -> None:
    text = f"{LAYOUT}{SHAPE} --recompute-granularity selective --recompute-modules "
    found = estimated(tmp_path, text + "layernorm gdn_norm_out\n")
    assert (found.job.recipe.recompute_modules, found.layout.recompute) == (("layernorm",), "selective")
    assert classes(found)["recompute-modules"] == "unknown"
    assert estimated(tmp_path, text + "gdn_norm_out\n").layout.recompute == "none"


def test_unset_shape_variables_are_allowed_beside_a_model(tmp_path: Path) -> None:
    text = LAYOUT + SHAPE.replace("--num-layers 32", "--num-layers $(jq .layers config.json)") + "\n"
    with pytest.raises(BadInput, match=r"num-layers is .* does not set"):
        estimated(tmp_path, text)
    found = lockstep.estimate(f"llama2-7b@{tmp_path / 'run.sh'}", "dgx-h100:2")
    assert (found.job.model.layers, classes(found)["num-layers"]) == (32, "yours")


def test_a_script_without_a_vocabulary_describes_the_rest_of_the_model(tmp_path: Path) -> None:
    text = LAYOUT + SHAPE.replace("--vocab-size 32000", "--tokenizer-type HuggingFaceTokenizer") + "\n"
    with pytest.raises(BadInput, match="a model of 32 layers without --vocab-size"):
        estimated(tmp_path, text)


def test_an_unrecognised_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="neither a script, configuration or log"):
        estimated(tmp_path, "TP=8\n. ./CONFIG.sh\n")


def test_mindspeed_knows_the_vocabulary_of_a_tokenizer_that_has_one(tmp_path: Path) -> None:
    text = f"{LAYOUT}{SHAPE} --use-fused-rmsnorm --use-flash-attn --tokenizer-type GPT2BPETokenizer\n"
    assert estimated(tmp_path, text.replace("--vocab-size 32000 ", "")).job.model.vocab == 50257


def test_shapes_in_options_of_a_fork_are_not_read_as_megatron(tmp_path: Path) -> None:
    """Of Pai-Megatron-Patch, megatron_patch/arguments.py: beside a model its words have a class."""
    text = (
        f"{LAYOUT}{SHAPE} --enable-shared-expert --num-shared-experts 2 --qk-nope-head-dim 128 --train-mode pretrain "
    )
    text += (
        "--extra-vocab-size 293 --patch-tokenizer-type A --dataset B --max-padding-length 128 --optimizer hybridadam\n"
    )
    with pytest.raises(BadInput, match="32 layers with --enable-shared-expert"):
        estimated(tmp_path, text)
    known = classes(lockstep.estimate(f"llama2-7b@{tmp_path / 'run.sh'}", "dgx-h100:2"))
    assert (known["extra-vocab-size"], known["dataset"], known["optimizer"]) == ("unknown", "yours", "unknown")
