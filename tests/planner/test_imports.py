"""A layout that is exported and read back is the same, with the same recipe; other people's files are understood."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import pytest

import lockstep
from lockstep.base.errors import BadInput, Infeasible
from lockstep.decide.planner.export import TARGETS
from lockstep.decide.planner.export.refusals import Placed
from lockstep.decide.planner.imports import recognised
from lockstep.describe.workload import Model, all_weights, model
from lockstep.price.layout import Job, Layout, Recipe, broken_by
from lockstep.show.verbs.estimate import read_asked
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.shared import LayoutWords

CLUSTER = "dgx-a100-80gb:4"
STACKS = {"torchtitan": "torchtitan", "torchtitan-cli": "torchtitan", "deepspeed": "deepspeed",
          "accelerate": "hf-trainer", "nanotron": "nanotron"}  # fmt: skip
MODELS = ("llama3-8b", "mixtral-8x7b", "llama2-7b", "gpt3-13b", "deepseek-v2-lite", "qwen2.5-7b")
AXES: dict[str, tuple[Any, ...]] = {
    "tp": (1, 1, 2, 4), "pp": (1, 1, 2, 4), "cp": (1, 1, 2), "ep": (1, 1, 4, 8), "vpp": (1, 1, 2),
    "zero": (0, 1, 2, 3, 3), "shard": (0, 0, 8), "recompute": ("none", "full", "selective"), "micro_batch": (1, 2),
    "offload": ("none", "none", "optimizer", "parameters"), "etp": (0, 0, 1),
}  # fmt: skip
RECIPES: dict[str, tuple[Any, ...]] = {
    "dtype": ("bf16", "bf16", "fp16"), "dropout": (False, False, True), "overlap_dp": (True, True, False),
    "cp_kind": ("ring", "gather"), "overlap_tp": (None, "all", "async"), "fused_elementwise": (None, False),
    "gradient_B": (None, 2.0), "overlap_pp": (None, True), "flash_attention": (True, True, False),
}  # fmt: skip
COMPARED = ("seq", "batch", "dtype", "optimizer", "gradient_B", "wire_B", "flash_attention", "dropout", "overlap_dp",
            "overlap_tp", "cp_kind", "overlap_pp", "routing", "exchange", "offload_layers", "train")  # fmt: skip


def drawn(target: str) -> Iterator[tuple[Job, Layout]]:
    """Layouts and recipes, drawn without end; whether they keep the rules takes longer to ask than to draw them."""
    draw = random.Random(f"there and back: {target}")
    while True:
        described = model(draw.choice(MODELS))
        said = {name: draw.choice(values) for name, values in RECIPES.items()}
        said = {name: value for name, value in said.items() if value is not None}
        if target == "accelerate":
            said["reduce_B"] = 2.0
        seq = min(1024, described.max_positions)
        recipe = Recipe.by(STACKS.get(target, "megatron-te"), seq=seq, batch=draw.choice((64, 128)), **said)
        words = {name: draw.choice(values) for name, values in AXES.items()}
        taken = words["tp"] * words["pp"] * words["cp"]
        words["vpp"] = words["vpp"] if words["pp"] > 1 else 1
        layout = Layout(
            **words, dp=32 // taken, sequence_parallel=words["tp"] > 1 and draw.random() < 0.7,
            schedule="interleaved" if words["vpp"] > 1 else "1f1b",
        )  # fmt: skip
        if layout.world == 32:
            yield Job(described, recipe, 32), layout


def known(job: Job, layout: Layout) -> Layout:
    """Without what has no effect: sharding over all ranks or over one, the number of ranks that cut no expert."""
    ranks = layout.dp * layout.cp
    return replace(
        layout,
        zero=0 if ranks == 1 and layout.offload == "none" else layout.zero,
        shard=0 if layout.shard == ranks or not layout.zero or ranks == 1 else layout.shard,
        etp=0 if layout.etp == layout.tp or not job.num_experts else layout.etp,
        stages=(),
    )


def relevant(job: Job, layout: Layout, target: str) -> dict[str, object]:
    """The recipe's words that have an effect there, as far as the target can say them."""
    found = {name: getattr(job.recipe, name) for name in COMPARED}
    if layout.cp == 1:
        found.pop("cp_kind")
    if layout.tp == 1:
        found.pop("overlap_tp")
    if layout.vpp == 1:
        found.pop("overlap_pp")
    if target.startswith("torchtitan"):
        found.pop("overlap_pp", None)  # no key says it
    if layout.dp * layout.cp == 1 or (target.startswith("torchtitan") and not layout.zero):
        found.pop("overlap_dp")
    if layout.dp * layout.cp == 1 or layout.zero == 0:
        found.pop("wire_B")
    if target == "accelerate":
        # Its wire is in the format of its products; the other two have no key there.
        for name in ("overlap_dp", "gradient_B", "flash_attention", "dropout"):
            found.pop(name, None)
    if target == "deepspeed":
        for name in ("flash_attention", "dropout", "seq"):
            found.pop(name)
    return found


@strict
def asked(
    model: str | Path | Model, cluster: str | None = None, layout: Layout | None = None, **words: Unpack[LayoutWords]
) -> tuple[Job, Layout]:
    """The job and the layout that `estimate` would price."""
    question, placed = read_asked(model, cluster, layout, dict(words))
    return question.job, placed


@pytest.mark.parametrize("target", list(TARGETS))
def test_exported_layouts_and_recipes_round_trip(target: str, tmp_path: Path) -> None:
    """Thirty drawn layouts per target, with its newest stack and drawn recipes."""
    done = 0
    for job, layout in drawn(target):
        try:
            text = TARGETS[target](Placed(job, layout))
        except Infeasible:
            continue
        if broken_by(layout, job):
            continue
        file = tmp_path / f"{done}.txt"
        file.write_text(text, encoding="utf-8")
        beside = {"seq": job.recipe.seq} if target == "deepspeed" else {}
        back, placed = asked(f"{job.model.name}@{file}", CLUSTER, **beside)
        assert known(back, placed) == known(job, layout), text
        assert relevant(back, placed, target) == relevant(job, layout, target), text
        done += 1
        if done == 30:
            return


@pytest.mark.parametrize("name", ["llama3-8b", "llama2-7b", "mixtral-8x7b", "gpt3-13b", "qwen2.5-7b", "deepseek-v3"])
def test_megatron_flags_describe_the_model(name: str, tmp_path: Path) -> None:
    described = model(name)
    job = Job(described, Recipe(seq=1024, batch=64), 32)
    file = tmp_path / "run.sh"
    file.write_text(TARGETS["megatron"](Placed(job, Layout(dp=32, zero=1))), encoding="utf-8")
    back = asked(file, CLUSTER)[0].model
    assert replace(back, name=name, max_positions=described.max_positions, source="", notes=()) == replace(
        described, source="", notes=()
    )


SCRIPT = """#!/bin/bash
# Runs the "70B" parameter model
export CUDA_DEVICE_MAX_CONNECTIONS=1
TP=8
PP=${PP:-4}
NODES=8
GBS=$(($NODES * 64))
MODEL_ARGS=(
    --num-layers 80
    --hidden-size 8192
    --num-attention-heads 64
    --group-query-attention --num-query-groups 8
    --ffn-hidden-size 28672 --swiglu --disable-bias-linear --untie-embeddings-and-output-weights
    --normalization RMSNorm --position-embedding-type rope --rotary-base 500000
    --seq-length 8192 --max-position-embeddings 8192 --vocab-size 128256
)
TRAINING_ARGS="--micro-batch-size 1 --global-batch-size $GBS --bf16 \\
    --attention-dropout 0.0 --hidden-dropout=0.0 --rampup-batch-size 16 16 1000"
torchrun --nproc_per_node 8 pretrain_gpt.py \\
    ${MODEL_ARGS[@]} $TRAINING_ARGS \\
    --tensor-model-parallel-size ${TP} --pipeline-model-parallel-size ${PP} \\
    --num-layers-per-virtual-pipeline-stage 5 --sequence-parallel --use-distributed-optimizer \\
    --overlap-grad-reduce --recompute-granularity selective \\
    --save /data/out --not-a-flag 3
"""
LOG = """using world size: 64, data-parallel size: 2
------------------------ arguments ------------------------
  accumulate_allreduce_grads_in_fp32 .............. True
  add_bias_linear ................................. False
  attention_dropout ............................... 0.0
  bf16 ............................................ True
  context_parallel_size ........................... 1
  ffn_hidden_size ................................. 28672
  fp8 ............................................. None
  global_batch_size ............................... 512
  group_query_attention ........................... True
  hidden_dropout .................................. 0.0
  hidden_size ..................................... 8192
  max_position_embeddings ......................... 8192
  micro_batch_size ................................ 1
  normalization ................................... RMSNorm
  num_attention_heads ............................. 64
  num_layers ...................................... 80
  num_layers_per_virtual_pipeline_stage ........... 5
  num_query_groups ................................ 8
  overlap_grad_reduce ............................. True
  pipeline_model_parallel_size .................... 4
  position_embedding_type ......................... rope
  rampup_batch_size ............................... ['16', '16', '1000']
  recompute_granularity ........................... selective
  rotary_base ..................................... 500000
  seq_length ...................................... 8192
  sequence_parallel ............................... True
  swiglu .......................................... True
  tensor_model_parallel_size ...................... 8
  untie_embeddings_and_output_weights ............. True
  use_distributed_optimizer ....................... True
  vocab_size ...................................... 128256
  world_size ...................................... 64
-------------------- end of arguments ---------------------
"""
MLPERF = """0: :::MLLOG {"key": "submission_benchmark", "value": "llama31_405b", "metadata": {}}
0: :::MLLOG {"key": "global_batch_size", "value": 1152, "metadata": {}}
0: :::MLLOG {"key": "max_sequence_length", "value": 8192, "metadata": {}}
0: :::MLLOG {"key": "tensor_parallelism", "value": 8, "metadata": {}}
0: :::MLLOG {"key": "pipeline_parallelism", "value": 8, "metadata": {}}
0: :::MLLOG {"key": "context_parallelism", "value": 2, "metadata": {}}
0: :::MLLOG {"key": "micro_batch_size", "value": 1, "metadata": {}}
0: :::MLLOG {"key": "gradient_accumulation_steps", "value": 288, "metadata": {}}
0: :::MLLOG {"key": "lowest_numerical_precision_in_linear", "value": "fp8", "metadata": {}}
"""


@pytest.mark.parametrize("text", [SCRIPT, LOG], ids=["script", "log"])
def test_a_script_and_its_log_give_the_same_run(text: str, tmp_path: Path) -> None:
    file = tmp_path / "run"
    file.write_text(text, encoding="utf-8")
    found = lockstep.estimate(file, "dgx-h100:8")
    assert found.layout == Layout(
        tp=8, pp=4, dp=2, vpp=4, schedule="interleaved", zero=1, sequence_parallel=True, recompute="selective"
    )
    described = model("llama3-70b")
    assert replace(found.job.model, name="llama3-70b", source="", date="", notes=()) == replace(
        described, source="", date="", notes=()
    )
    assert (found.job.recipe.batch, found.job.recipe.seq, found.job.recipe.dropout) == (512, 8192, False)
    assert any("rampup-batch-size" in one and "left out" in one for one in found.assumptions())


def test_an_mlperf_log_is_read(tmp_path: Path) -> None:
    file = tmp_path / "result_0.txt"
    file.write_text(MLPERF, encoding="utf-8")
    found = lockstep.estimate(file, "dgx-h100", overlap_pp=False)
    assert found.job.model.name == "llama3-405b"
    assert (found.layout.zero, found.layout.sequence_parallel) == (1, True)
    assert any(
        "assumed, as the file does not say: zero 1, sequence_parallel True" in one for one in found.assumptions()
    )
    assert lockstep.estimate(file, "dgx-h100", zero=0).layout.zero == 0
    assert (found.layout.tp, found.layout.pp, found.layout.cp, found.layout.dp) == (8, 8, 2, 4)
    assert (found.job.devices, found.job.recipe.dtype, found.job.recipe.batch) == (512, "fp8", 1152)


def test_values_missing_in_a_file_follow_from_the_cluster(tmp_path: Path) -> None:
    file = tmp_path / "ds.json"
    data: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 4,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "zero_quantized_weights": True},
        "train_batch_size": "auto",
    }
    file.write_text(json.dumps(data), encoding="utf-8")
    asked = f"llama3-8b@{file}"
    few, many = (lockstep.estimate(asked, f"dgx-h100:{nodes}", seq=2048) for nodes in (1, 2))
    assert (few.job.recipe.batch, many.job.recipe.batch) == (64, 128)
    assert (few.layout.zero, few.layout.offload, few.layout.micro_batch) == (3, "optimizer", 2)
    assert any("zero_quantized_weights" in one for one in few.assumptions())
    assert lockstep.estimate(asked, "dgx-h100:1", seq=2048, batch=32, zero=2).job.recipe.batch == 32
    assert lockstep.plan(asked, "dgx-h100:1", seq=2048).job.recipe.batch == 64


def test_a_file_without_a_model_or_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    known_kind, other = tmp_path / "ds.json", tmp_path / "other.json"
    known_kind.write_text('{"train_batch_size": 64, "zero_optimization": {"stage": 1}}', encoding="utf-8")
    other.write_text('{"colour": "blue"}', encoding="utf-8")
    with pytest.raises(BadInput, match="does not say which model"):
        lockstep.estimate(known_kind, "dgx-h100:1")
    with pytest.raises(BadInput, match="not a configuration or a log"):
        lockstep.estimate(f"llama3-8b@{other}", "dgx-h100:1", batch=8)
    with pytest.raises(BadInput, match="did you mean llama3-8b"):
        lockstep.estimate(f"llama3-8c@{known_kind}", "dgx-h100:1")
    known_kind.write_text('{"train_batch_size": "many"}', encoding="utf-8")
    with pytest.raises(BadInput, match="must be a whole number"):
        lockstep.estimate(f"llama3-8b@{known_kind}", "dgx-h100:1")


def test_a_number_of_processes_is_the_number_of_devices_unless_the_cluster_has_one(tmp_path: Path) -> None:
    file = tmp_path / "acc.yaml"
    file.write_text(
        "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 16\nfsdp_config: {fsdp_version: 2}\n",
        encoding="utf-8",
    )
    asked = f"llama3-8b@{file}"
    assert lockstep.estimate(asked, "dgx-h100", batch=64).job.devices == 16
    assert lockstep.estimate(asked, "dgx-h100:4", batch=64).job.devices == 32
    assert lockstep.estimate(asked, "dgx-h100", batch=64, gpus=8).job.devices == 8


SMALL = {"train_batch_size": 64, "zero_optimization": {"stage": 2}, "bf16": {"enabled": True}}
TOUCHED = ("{}", "[]", "null", "-1", "1e99", '"x"', "true", "[[1]]", '{"a": {"b": []}}')


@pytest.mark.parametrize("kind", ["json", "yaml", "toml", "sh"])
def test_values_of_another_kind_are_refused_and_never_crash(kind: str, tmp_path: Path) -> None:
    """Every value of a small file, replaced by others; what comes is an answer or BadInput."""
    texts = {
        "json": ["train_batch_size", "zero_optimization", "bf16", "pipeline", "comment", "optimizer"],
        "yaml": ["distributed_type", "fsdp_config", "num_processes", "parallelism_config", "mixed_precision"],
        "toml": ["training.local_batch_size", "parallelism.module_fqns_per_model_part", "model.converters",
                 "parallelism.pipeline_parallel_degree"],
        "sh": ["num-layers", "moe-layer-freq", "pipeline-model-parallel-layout", "window-size", "attention-dropout"],
    }  # fmt: skip
    for place, (name, value) in enumerate((name, value) for name in texts[kind] for value in TOUCHED):
        file = tmp_path / f"{place}.{kind}"
        if kind == "json":
            text = json.dumps({**SMALL, name: json.loads(value)})
        elif kind == "yaml":
            text = f"distributed_type: FSDP\nfsdp_config: {{fsdp_version: 2}}\n{name}: {value}\n"
        elif kind == "toml":
            section, key = name.split(".")
            text = "".join(f"[{one}]\n" + (f"{key} = {value}\n" if one == section else "")
                           for one in ("training", "parallelism", "model"))  # fmt: skip
        else:
            text = f"{SCRIPT} --num-experts 8 --{name} '{value}'\n"
        file.write_text(text, encoding="utf-8")
        try:
            asked(f"llama3-8b@{file}", "dgx-h100:4", batch=64)
        except (BadInput, Infeasible):
            continue


def test_a_plan_from_a_file_can_be_kept(tmp_path: Path) -> None:
    file, plan = tmp_path / "ds.json", tmp_path / "plan.yaml"
    file.write_text(json.dumps(SMALL), encoding="utf-8")
    lockstep.plan(f"llama3-8b@{file}", "dgx-h100:1", seq=2048, out=plan)
    assert lockstep.estimate(plan).job.recipe.batch == 64


def test_hugging_face_and_lockstep_model_files_are_read_as_models(tmp_path: Path) -> None:
    assert lockstep.memory("examples/my-model.yaml", "dgx-h100:1", batch=8, zero=3).job.model.layers == 32


@pytest.mark.parametrize("target", ["megatron", "bridge"])
def test_partial_recomputation_round_trips(target: str, tmp_path: Path) -> None:
    recipe = Recipe.by("megatron-te", seq=4096, batch=64, recompute_layers=3)
    layout = Layout(dp=8, pp=4, zero=1, recompute="full")
    file = tmp_path / "recomputed"
    file.write_text(TARGETS[target](Placed(Job(model("llama3-8b"), recipe, 32), layout)), encoding="utf-8")
    back, placed = asked(f"llama3-8b@{file}", CLUSTER)
    assert (back.recipe.recompute_layers, placed) == (3, layout)


@pytest.mark.parametrize("graphs", ["none", "attention", "step"])
def test_cuda_graphs_and_expert_overlap_round_trip_through_megatron(graphs: str, tmp_path: Path) -> None:
    """Software without either refuses them, and graphs of layers, which have no word, are named as unread."""
    recipe = Recipe(seq=4096, batch=64, cuda_graphs=graphs, overlap_ep="passes")
    layout = Layout(dp=8, ep=8, zero=1)
    placed = Placed(Job(model("mixtral-8x7b"), recipe, 8), layout)
    (file := tmp_path / "run.sh").write_text(TARGETS["megatron"](placed), encoding="utf-8")
    found = lockstep.estimate(file, "dgx-h100:1").job.recipe
    assert (found.cuda_graphs, found.overlap_ep) == (graphs, "passes")
    read = recognised(file.read_text(encoding="utf-8") + " --cuda-graph-impl local", "run")
    assert read is not None
    assert any("cuda-graph-impl" in one for one in read.unread)
    with pytest.raises(Infeasible, match="--overlap-ep passes"):
        TARGETS["torchtitan"](placed)
    if graphs != "none":
        with pytest.raises(Infeasible, match=f"--cuda-graphs {graphs}"):
            TARGETS["torchtitan"](placed)


@pytest.mark.parametrize("optimizer", ["adamw", "adamw-8bit"])
def test_paged_states_round_trip_through_trainer_arguments(optimizer: str, tmp_path: Path) -> None:
    recipe = Recipe.by("hf-trainer", seq=1024, batch=64, optimizer=optimizer, reduce_B=2.0)
    layout = Layout(dp=32, zero=3, micro_batch=2, offload="paged")
    text = TARGETS["accelerate"](Placed(Job(model("llama3-8b"), recipe, 32), layout))
    assert "optim=paged_adamw_" in text
    file = tmp_path / "fsdp.yaml"
    file.write_text(text, encoding="utf-8")
    back, placed = asked(f"llama3-8b@{file}", CLUSTER)
    assert (back.recipe.optimizer, placed) == (optimizer, layout)


@pytest.mark.parametrize(
    "said", ["lora:r=16", "lora:r=8,targets=attention", "lora:r=64,targets=q_proj+v_proj,dropout=0.05"]
)
def test_adapters_round_trip_through_peft_values(said: str, tmp_path: Path) -> None:
    file = tmp_path / "acc.yaml"
    found = lockstep.export("llama3-8b", "dgx-h100:1", batch=64, seq=2048, zero=3, train=said, to="accelerate")
    file.write_text(found.text, encoding="utf-8")
    back, placed = asked(f"llama3-8b@{file}", "dgx-h100")
    before = found.estimate.job.recipe.adapters
    assert before is not None
    assert back.recipe.adapters is not None
    weights = list(all_weights(back.model))
    assert back.recipe.adapters.rank == before.rank
    assert back.recipe.adapters.dropout_frac == before.dropout_frac
    assert set(back.recipe.adapters.found_in(weights)) == set(before.found_in(weights))
    assert placed.zero == 3


def test_fp8_scaling_round_trips_through_megatron_and_is_read_from_torchtitan(tmp_path: Path) -> None:
    for scaling in ("delayed", "current"):
        recipe = Recipe(seq=4096, batch=64, dtype="fp8", scaling=scaling)
        placed = Placed(Job(model("llama3-8b"), recipe, 8), Layout(dp=8, zero=1))
        for target, suffix in (("megatron", "sh"), ("bridge", "yaml")):
            (file := tmp_path / f"{scaling}.{suffix}").write_text(TARGETS[target](placed), encoding="utf-8")
            back = lockstep.estimate(f"llama3-8b@{file}", "dgx-h100:1", seq=4096).job.recipe
            assert (back.dtype, back.scaling) == ("fp8", scaling)
            told = "first and the last layer in bf16" in file.read_text(encoding="utf-8")
            assert told == (target == "bridge" and scaling == "current")
    with pytest.raises(Infeasible, match="--fp8-scaling rows"):
        TARGETS["megatron"](replace(placed, job=replace(placed.job, recipe=replace(recipe, scaling="rows"))))
    for name, wanted in (("tensorwise", "current"), ("rowwise", "rows")):
        text = '[model]\nname = "llama3"\nflavor = "8B"\nconverters = ["float8"]\n[training]\nlocal_batch_size = 1\n'
        text += f'[parallelism]\ndata_parallel_shard_degree = -1\n[float8]\nrecipe_name = "{name}"\n'
        (file := tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
        assert lockstep.estimate(f"llama3-8b@{file}", "dgx-h100:1").job.recipe.scaling == wanted


def test_optimizer_states_are_sharded_over_the_existing_replicas(tmp_path: Path) -> None:
    """Megatron-LM takes its distributed optimizer with one replica too, where it shares nothing."""
    file = tmp_path / "run.sh"
    file.write_text(SCRIPT.replace("${PP:-4}", "1").replace("--num-layers-per-virtual-pipeline-stage 5", ""))
    assert lockstep.estimate(file, "dgx-h100:1").layout == Layout(
        tp=8, sequence_parallel=True, recompute="selective", zero=0
    )
    assert lockstep.estimate(file, "dgx-h100:2").layout.zero == 1
