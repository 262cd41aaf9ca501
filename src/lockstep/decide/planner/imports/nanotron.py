"""nanotron's YAML as a question and a layout; `model.model_config` has the model, in Hugging Face's names."""

from __future__ import annotations

from dataclasses import replace

from lockstep.base.documents import Locate
from lockstep.base.errors import BadInput
from lockstep.base.types.plain import Json
from lockstep.decide.planner.export.nanotron import ENGINES
from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.said import Said
from lockstep.describe.workload import Model, Transformer

STACK = "nanotron"
NAMED = {word: schedule for schedule, word in ENGINES.items()}
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64", "double": "fp64"}
SHAPE, EXPERTS = "model.model_config.", "model.model_config.moe_config."
SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
         "max_position_embeddings", "hidden_act", "tie_word_embeddings")  # fmt: skip


def nanotron(said: Said, name: str, model: Model | None) -> Imported:
    """What a configuration says."""
    found = Imported(said.format.name, words={"stack": STACK})
    axes = {one: _needed(said, f"parallelism.{one}") for one in ("dp", "tp", "pp")}
    cp, ep = said["parallelism.context_parallel_size"], said["parallelism.expert_parallel_size"]
    found.degrees(tp=axes["tp"], pp=axes["pp"], cp=cp, ep=ep)
    layout, words = found.layout, found.words
    if axes["tp"] > 1:
        layout |= {"sequence_parallel": True} if said["parallelism.tp_mode"].upper() == "REDUCE_SCATTER" else {}
        words["overlap_tp"] = "gradients" if said["parallelism.tp_linear_async_communication"] else "none"
    # Without an engine it is afab (parallelism_config.py).
    schedule = NAMED[said["parallelism.pp_engine"]]
    found.set(layout, schedule=schedule if axes["pp"] > 1 and schedule != "1f1b" else None)
    if said["parallelism.recompute_layer"]:
        layout["recompute"] = "full"
    # A higher stage shards no more than the first (helpers.py).
    layout["zero"] = min(1, said["optimizer.zero_stage"])
    micro, steps = (_needed(said, f"tokens.{one}") for one in ("micro_batch_size", "batch_accumulation_per_replica"))
    layout["micro_batch"] = micro
    words |= {"batch": axes["dp"] * micro * steps, "gpus": axes["dp"] * found.dense_ranks}
    words |= {"seq": _needed(said, "tokens.sequence_length"), "dtype": DTYPES[said["model.dtype"]]}
    if not said["optimizer.accumulate_grad_in_fp32"]:
        words["gradient_bytes"] = 2
    found.set(words, optimizer="sgd" if said["optimizer.optimizer_factory.name"] == "sgd" else None)
    found.model = _model(said, name, model, axes["tp"])
    return found


def _needed(said: Said, word: str) -> int:
    """A number for which the software has no default."""
    if (value := said[word]) is None:
        raise said.refuse(word, "is missing; nanotron has no default for it")
    return int(value)


def _model(said: Said, name: str, given: Model | None, tp: int) -> Model | None:
    """The model of the file, unless one stands before it."""
    if not (said[f"{SHAPE}is_llama_config"] or said[f"{SHAPE}is_qwen2_config"]):
        return given
    described = _described(said, name, tp)
    if given is None:
        return described
    if not isinstance(given, Transformer) or _shape(given) != _shape(described):
        said.contradiction(f"{SHAPE}hidden_size", f"describes another model than {given.name}, which is taken")
    return given


def _shape(model: Transformer) -> Transformer:
    """What of a model changes time and memory."""
    return replace(model, name="", max_positions=1)


def _described(said: Said, name: str, tp: int) -> Transformer:
    """The model under `model_config`, with a vocabulary that all ranks share evenly (models/base.py)."""
    from lockstep.describe.workload.huggingface import model_of

    data: Json = {one: said[SHAPE + one] for one in SIZES} | {"name_or_path": name}
    each = said["model.make_vocab_size_divisible_by"] * tp
    data["vocab_size"] = -(-_vocabulary(said) // each) * each
    biased, window = said[f"{SHAPE}attention_bias"], said[f"{SHAPE}sliding_window_size"]
    data["model_type"] = "mistral" if window else "qwen2" if biased else "llama"
    if window:
        data["sliding_window"] = window
    if any(word.startswith(EXPERTS) for word in said.text.words):
        data |= _experts(said, data["num_hidden_layers"], data["intermediate_size"])
    lines: dict[tuple[str | int, ...], int] = {
        (word.removeprefix(SHAPE),): line for word, line in said.text.lines.items() if word.startswith(SHAPE)
    }
    if biased and data["model_type"] in ("mistral", "mixtral"):
        said.leave(f"{SHAPE}attention_bias", "biases of queries, keys and values")
    found = model_of(data, Locate(said.text.file, lines))
    if not isinstance(found, Transformer):
        raise BadInput("the model is not a transformer", said.text.where(SHAPE))
    return found


def _vocabulary(said: Said) -> int:
    size = int(said[f"{SHAPE}vocab_size"])
    if size < 1:
        raise said.refuse(f"{SHAPE}vocab_size", "is left to the data set; write its number of tokens")
    return size


def _experts(said: Said, layers: int, ffn: int) -> Json:
    """Settings of a mixture of experts, in every layer or in those of a list."""
    chosen = list(said[f"{EXPERTS}layers"])
    if not all(type(one) is int for one in chosen):
        raise said.refuse(f"{EXPERTS}layers", "must be a list of whole numbers")
    each = said[f"{EXPERTS}moe_intermediate_size"] or ffn
    experts = {"num_experts": said[f"{EXPERTS}num_experts"], "num_experts_per_tok": said[f"{EXPERTS}top_k"]}
    shared = said[f"{EXPERTS}shared_expert_intermediate_size"] or ffn
    dense = [] if chosen == [-1] else [one for one in range(layers) if one not in chosen]
    if said[f"{EXPERTS}enable_shared_expert"]:
        biased = said[f"{SHAPE}attention_bias"]
        return experts | {"model_type": "qwen2_moe", "moe_intermediate_size": each, "mlp_only_layers": dense,
                          "shared_expert_intermediate_size": shared, "qkv_bias": biased}  # fmt: skip
    if dense:
        said.leave(f"{EXPERTS}layers", "layers without experts; all are taken to have them")
    return {"model_type": "mixtral", "num_local_experts": experts["num_experts"], "intermediate_size": each,
            "num_experts_per_tok": experts["num_experts_per_tok"]}  # fmt: skip
