"""verl's and NeMo-RL's files are read whole: what trains is read, and what generates is said to be left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep.base.documents.files import InMemory
from lockstep.base.errors import BadInput
from lockstep.decide.planner.imports import Imported, read_run, recognised
from lockstep.decide.planner.imports.interpolated import interpolated
from lockstep.decide.planner.imports.text import Unset, mapping
from lockstep.describe.workload import Model, model

SAMPLES = Path(__file__).parent / "imports_samples"
VERL = (SAMPLES / "verl-ppo.yaml").read_text(encoding="utf-8")
COMMAND = (SAMPLES / "verl-grpo.sh").read_text(encoding="utf-8")
MEGATRON = (SAMPLES / "verl-grpo-megatron.yaml").read_text(encoding="utf-8")
DPO = (SAMPLES / "nemo-rl-dpo-megatron.yaml").read_text(encoding="utf-8")
GRPO = (SAMPLES / "nemo-rl-grpo.yaml").read_text(encoding="utf-8")


def read(text: str, given: Model | None = None, accepted: tuple[str, ...] = ()) -> Imported:
    found = recognised(text, "run.yaml", given, accepted)
    assert found is not None
    return found


def rows(found: Imported) -> dict[str, tuple[str, str]]:
    return {row.word: (row.kind, row.meaning) for row in found.table}


def resolved(text: str) -> dict[str, object]:
    return dict(interpolated(mapping(text, "run.yaml", "yaml")).words)


def test_references_are_resolved_within_the_file() -> None:
    found = resolved(
        "a: {size: 4, same: '${.size}', up: '${..b.size}', text: 'run-${a.size}'}\nb: {size: 8}\n"
        "product: '${mul:${a.size},${b.size}}'\nchosen: '${oc.select:a.size,7}'\nother: '${oc.select:a.sizes,7}'\n"
        "nothing: '${oc.select:a.sizes,null}'\nsum: '${add:1,2}'\n"
    )
    assert found["a.same"] == 4
    assert (found["a.up"], found["a.text"], found["product"]) == (8, "run-4", 32)
    assert (found["chosen"], found["other"], found["nothing"], found["sum"]) == (4, 7, None, 3)


@pytest.mark.parametrize("said", ["${oc.env:HOME}", "${a}", "${b.missing}", "${mul:1,x}", "${div:1,0}", "${", "x${y"])
def test_references_outside_the_file_are_unset(said: str) -> None:
    assert isinstance(resolved(f"a: {{b: 1}}\nc: '{said}'\n")["c"], Unset)


@pytest.mark.parametrize(
    "text",
    [
        "a: ${b}\nb: ${a}\n",
        "a: ${a}\n",
        "\n".join(f"a{number}: ${{a{number + 1}}}" for number in range(30)) + "\na30: 1\n",
        "\n".join(f"w{number}: '{'${oc.select:none,${a}}' * 90}'" for number in range(400)) + "\na: 1\n",
    ],
)
def test_circular_and_unbounded_references_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        resolved(text)


def test_environment_references_are_reported_and_not_resolved() -> None:
    found = read(VERL.replace("n_gpus_per_node: 8", "n_gpus_per_node: ${oc.env:GPUS}"))
    kind, why = rows(found)["trainer.n_gpus_per_node"]
    assert (kind, why[:42]) == ("unknown", "depends on what this file does not say; th")
    assert "gpus" not in found.words


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ppo_mini_batch_size: 512", "ppo_mini_batch_size: 512.5"),
        ("ppo_mini_batch_size: 512", "ppo_mini_batch_size: -8"),
        ("ppo_mini_batch_size: 512", "ppo_mini_batch_size: [512]"),
        ("ppo_mini_batch_size: 512", "ppo_mini_batch_size: .nan"),
        ("fsdp_size: -1", "fsdp_size: 0"),
        ("strategy: fsdp\n    ppo", "strategy: sometimes\n    ppo"),
        ("max_prompt_length: 2048", "max_prompt_length: long"),
        ("enable_gradient_checkpointing: true", "enable_gradient_checkpointing: perhaps"),
        ("dtype: bfloat16", "dtype: fp7"),
        ("lora_rank: 0", "lora_rank: 0\n    lora_rank: 8"),
        ("lora_rank: 0", "lora_rank: 8\n    target_modules: 'a b'"),
    ],
)
def test_values_of_a_wrong_type_or_range_are_refused_at_their_line(before: str, after: str) -> None:
    assert before in VERL
    with pytest.raises(BadInput) as caught:
        read(VERL.replace(before, after, 1))
    assert caught.value.where is not None
    assert caught.value.where.startswith("run.yaml:")


@pytest.mark.parametrize(
    ("text", "word", "other", "meant"),
    [
        (VERL, "ppo_micro_batch_size_per_gpu: 8", "ppo_micro_batch_size_per_gpus: 8", "ppo_micro_batch_size_per_gpu"),
        (COMMAND, "actor.ppo_mini_batch_size=256", "actor.ppo_mini_batch_sise=256", "ppo_mini_batch_size"),
        (DPO, "train_micro_batch_size: 1", "train_micro_batchsize: 1", "train_micro_batch_size"),
        (DPO, "activation_checkpointing: false", "activation_checkpoint: true", "activation_checkpointing"),
    ],
)
def test_a_misspelled_setting_is_refused_with_a_suggestion(text: str, word: str, other: str, meant: str) -> None:
    assert word in text
    with pytest.raises(BadInput, match=rf"did you mean [\w.]*{meant}"):
        read(text.replace(word, other, 1))


def test_generation_settings_are_reported_as_not_priced() -> None:
    assert rows(read(COMMAND))["actor_rollout_ref.rollout.gpu_memory_utilization"] == (
        "yours",
        "generation is not priced",
    )
    assert rows(read(GRPO))["policy.generation.vllm_cfg.tensor_parallel_size"] == ("yours", "generation is not priced")
    assert rows(read(COMMAND))["actor_rollout_ref.ref.fsdp_config.param_offload"][0] == "yours"


@pytest.mark.parametrize(
    ("changes", "train"),
    [
        ({}, "ppo:reward=none"),
        ({"adv_estimator: gae": "adv_estimator: grpo"}, "grpo"),
        ({"use_kl_in_reward: true": "use_kl_in_reward: false"}, "ppo:reference=none,reward=none"),
        ({"reward_model:\n  enable: false": "reward_model:\n  enable: true"}, "ppo"),
        ({"adv_estimator: gae": "adv_estimator: rloo", "use_kl_in_reward: true": "use_kl_in_reward: false"},
         "grpo:reference=none"),
        ({"lora_rank: 0": "lora_rank: 16", "adv_estimator: gae": "adv_estimator: grpo"},
         "grpo,lora:r=16,targets=all-linear"),
    ],
)  # fmt: skip
def test_the_objective_of_verl_follows_from_its_estimator(changes: dict[str, str], train: str) -> None:
    text = VERL
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after, 1)
    assert read(text).words["train"] == train
    lockstep.estimate(InMemory("run.yaml", text.encode()), "dgx-h100:2")


def test_the_name_of_a_model_is_the_end_of_a_path_whatever_its_folder_is() -> None:
    folder = COMMAND.replace("path=Qwen/Qwen2.5-7B-Instruct", "path=$MODELS/Qwen2.5-7B-Instruct")
    assert read(folder).model == "qwen2.5-7b"
    with pytest.raises(BadInput, match="write its value"):
        read(COMMAND.replace("ppo_mini_batch_size=256", "ppo_mini_batch_size=$BATCH"))


def test_fine_tuning_uses_the_devices_of_its_launcher() -> None:
    found = read(
        "torchrun --standalone --nnodes=2 --nproc_per_node=4 -m verl.trainer.fsdp_sft_trainer data.train_batch_size=16 "
        "data.micro_batch_size_per_gpu=1 data.max_length=8192 model.partial_pretrain=Qwen/Qwen2.5-14B "
        "trainer.n_gpus_per_node=1"
    )
    assert (found.words["gpus"], found.words["batch"], found.model) == (8, 16, "qwen2.5-14b")


def test_a_batch_of_dpo_counts_pairs_and_the_backend_that_is_off_has_no_effect() -> None:
    found = read(DPO)
    assert (found.words["batch"], found.layout["micro_batch"], found.words["train"]) == (512, 2, "dpo")
    assert rows(read(GRPO))["policy.megatron_cfg.optimizer.use_precision_aware_optimizer"][0] == "harmless"
    with pytest.raises(BadInput, match="accepts only one of them"):
        read(DPO.replace("dtensor_cfg:\n    enabled: false", "dtensor_cfg:\n    enabled: true"))


def test_devices_that_generate_alone_do_not_train() -> None:
    apart = GRPO.replace("colocated:\n      enabled: true", "colocated:\n      enabled: false")
    nodes = apart.replace("gpus_per_node: 1\n  num_nodes: 1", "gpus_per_node: 8\n  num_nodes: 3")
    assert read(nodes.replace("num_nodes: null", "num_nodes: 1")).words["gpus"] == 16
    with pytest.raises(BadInput, match="leave no devices"):
        read(apart)


def test_layers_of_the_first_and_the_last_stage_are_read() -> None:
    text = DPO.replace("pipeline_model_parallel_size: 2", "pipeline_model_parallel_size: 4")
    text = text.replace("first_pipeline_stage: null", "first_pipeline_stage: 7").replace(
        "last_pipeline_stage: null", "last_pipeline_stage: 7"
    )
    assert read(text).layout["stages"] == "7,9,9,7"
    with pytest.raises(BadInput, match="leaves 19 of 32 layers"):
        read(text.replace("last_pipeline_stage: 7", "last_pipeline_stage: 6"))


def test_files_named_by_defaults_are_read_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(DPO, encoding="utf-8")
    (tmp_path / "sub").mkdir()
    child = tmp_path / "sub" / "child.yaml"
    child.write_text(
        "defaults: ../base.yaml\npolicy:\n  train_micro_batch_size: 4\n  megatron_cfg:\n    optimizer: null\n"
        "  generation: null\ncluster:\n  num_nodes: 2\n",
        encoding="utf-8",
    )
    found = read_run(child)
    assert found is not None
    assert (found.layout["micro_batch"], found.words["gpus"], found.model) == (8, 16, "llama3.1-8b")
    assert rows(found)["defaults"] == ("read", "the words of that file")
    assert "policy.megatron_cfg.optimizer.lr" not in rows(found)
    alone = recognised(child.read_text(encoding="utf-8"), "child.yaml", model("llama3-8b"))
    assert alone is not None
    assert rows(alone)["defaults"][0] == "unknown"
    (tmp_path / "base.yaml").write_text(f"defaults: base.yaml\n{DPO}", encoding="utf-8")
    ring = read_run(child)
    assert ring is not None
    assert rows(ring)["defaults"][0] == "unknown"


@pytest.mark.parametrize(
    ("name", "called", "words", "layout", "loud"),
    [
        ("verl-ppo.yaml", "qwen2.5-7b", {"gpus": 16, "batch": 512, "seq": 4096, "dtype": "bf16"},
         {"zero": 3, "recompute": "full", "micro_batch": 8}, set()),
        ("verl-sft.yaml", "gemma-7b", {"gpus": 8, "batch": 256, "seq": 1024, "train": "lora:r=32,targets=all-linear"},
         {"cp": 2, "zero": 3, "recompute": "full", "micro_batch": 4}, set()),
        ("verl-grpo.sh", "qwen2.5-7b", {"gpus": 8, "batch": 1280, "seq": 2048, "train": "grpo"},
         {"zero": 3, "recompute": "full", "micro_batch": 16}, set()),
        ("verl-experts.sh", "qwen3-30b-a3b", {"gpus": 8, "batch": 2048, "seq": 10240, "train": "grpo:reference=none"},
         {"ep": 8, "zero": 1, "offload": "optimizer", "micro_batch": 1},
         {"use_dynamic_bsz", "param_offload", "moe_token_dispatcher_type"}),
        ("nemo-rl-dpo-dtensor.yaml", "llama3.1-8b", {"gpus": 32, "batch": 512, "seq": 8192, "train": "dpo"},
         {"tp": 4, "zero": 3, "micro_batch": 2}, set()),
        ("nemo-rl-dpo-megatron.yaml", "llama3.1-8b", {"gpus": 32, "batch": 512, "seq": 2048, "gradient_bytes": 2},
         {"tp": 2, "pp": 2, "sequence_parallel": True, "zero": 1, "micro_batch": 2}, {"use_precision_aware_optimizer"}),
        ("nemo-rl-grpo.yaml", "qwen2.5-1.5b", {"gpus": 1, "batch": 512, "seq": 512, "train": "grpo"},
         {"zero": 3, "micro_batch": 4}, {"logprob_batch_size", "enabled"}),
    ],
)  # fmt: skip
def test_configurations_of_public_projects_are_read(
    name: str, called: str, words: dict[str, Any], layout: dict[str, Any], loud: set[str]
) -> None:
    found = read((SAMPLES / name).read_text(encoding="utf-8"))
    assert found.model == called
    assert found.words.items() >= words.items()
    assert found.layout == layout
    left = {row.word.rpartition(".")[2] for row in found.table if row.kind in ("unknown", "contradictory")}
    assert left == loud


def test_a_mixture_of_experts_under_megatron_is_read_whole() -> None:
    found = read(MEGATRON)
    assert found.layout == {
        "tp": 2, "ep": 8, "etp": 1, "sequence_parallel": True, "zero": 1, "offload": "optimizer", "recompute": "full",
        "micro_batch": 2,
    }  # fmt: skip
    block = MEGATRON.replace("recompute_method: uniform", "recompute_method: block")
    assert read(block).words["recompute_layers"] == 1


TUNED = """torchrun --nnodes=1 --nproc_per_node=8 -m verl.trainer.sft_trainer data.train_batch_size=32 \\
    data.max_length=2048 data.max_token_len_per_gpu=8192 model.path=${HOME}/models/Qwen/Qwen3-8B """


def test_fine_tuning_by_an_engine_has_its_layout() -> None:
    """Releases from 0.6: verl/trainer/config/sft_trainer_engine.yaml and engine/*.yaml."""
    layout = "engine.tensor_model_parallel_size=2 engine.pipeline_model_parallel_size=2"
    found = read(f"{TUNED} engine=megatron optim=megatron {layout}\n")
    assert (found.model, found.words["stack"], found.layout) == (
        "qwen3-8b", "megatron-te", {"tp": 2, "pp": 2, "sequence_parallel": True, "zero": 1}
    )  # fmt: skip
    found = read(f"{TUNED} engine=fsdp engine.fsdp_size=4 engine.ulysses_sequence_parallel_size=2\n")
    assert found.layout == {"cp": 2, "zero": 3, "shard": 4, "recompute": "full"}
    assert not [row for row in found.table if row.word.startswith("engine") and row.kind != "read"]


def test_pipeline_settings_of_megatron_core_are_distinguished_from_kernel_settings() -> None:
    core = "actor_rollout_ref.actor.megatron.override_transformer_config."
    found = read(f"python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=a +{core}moe_grouped_gemm=True "
                 f"+{core}account_for_loss_in_pipeline_split=True +{core}recompute_granularity=selective "
                 f"+{core}recompute_modules=[gdn_norm_out]\n", model("llama3-70b"))  # fmt: skip
    known = rows(found)
    assert known[f"{core}moe_grouped_gemm"][0] == "harmless"
    assert "last stage" in known[f"{core}account_for_loss_in_pipeline_split"][1]
    assert known[f"{core}recompute_modules"][0] == "unknown"
    assert "recompute" not in found.layout


def test_verl_layers_of_the_last_stage_are_read() -> None:
    word = "actor_rollout_ref.actor.megatron."
    found = read(f"python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer actor_rollout_ref.model.path=a "
                 f"{word}pipeline_model_parallel_size=4 "
                 f"+{word}override_transformer_config.num_layers_in_last_pipeline_stage=17\n",
                 model("llama3-70b"))  # fmt: skip
    assert found.layout["stages"] == "21,21,21,17"


def test_a_model_that_the_catalog_does_not_have_is_named(tmp_path: Path) -> None:
    (file := tmp_path / "run.sh").write_text(
        'python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path="${HOME}/models/Own-7B" '
        "actor_rollout_ref.model.use_rmpad=True trainer.n_gpus_per_node=8\n",
        encoding="utf-8",
    )
    with pytest.raises(BadInput, match=r"trains \$\{HOME\}/models/Own-7B, whose shape is not known"):
        lockstep.estimate(file, "dgx-h100:1")
