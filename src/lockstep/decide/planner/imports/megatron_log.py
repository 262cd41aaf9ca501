"""The arguments that Megatron-LM prints at the head of its log, as a `Text` of its options.

A line is `tensor_model_parallel_size ...... 8`, with True, False and None for switches and what was not given. A
switch that stands for `--no-something` or `--disable-something` is there under the name that it turns off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lockstep.base.errors import BadInput
from lockstep.decide.planner.imports.formats import format_of
from lockstep.decide.planner.imports.text import Text

DOTS = " ..."
NAME = re.compile(r"[A-Za-z_]\w{0,100}")
TOKENIZED = " > padded vocab (size: "
"""What the tokenizer holds, which logs of older releases do not list among the arguments."""
MOST_LETTERS = 20_000
"""Of a line."""
MOST_LINES = 200_000
"""With dots; what comes after them is the training."""
MOST_WORDS = 5_000
OTHERWISE = {
    "fp8": "fp8-format", "fp4": "fp4-format", "fp4_param": "fp4-param-gather", "metadata_path": "tokenizer-metadata",
    "layernorm_zero_centered_gamma": "apply-layernorm-1p", "special_tokens": "tokenizer-special-tokens",
    "microbatch_group_size_per_vp_stage": "microbatch-group-size-per-virtual-pipeline-stage", "nccl_ub": "use-nccl-ub",
    "overlap_p2p_comm_warmup_flush": "overlap-p2p-communication-warmup-flush",
    "use_te_rng_tracker": "te-rng-tracker", "cuda_graph_scope_deprecated": "cuda-graph-scope",
    "deprecated_use_mcore_models": "use-mcore-models", "use_dist_ckpt_deprecated": "use-dist-ckpt",
    "disable_msc_deprecated": "disable-msc",
}  # fmt: skip
"""Names that are called otherwise than their options."""
TYPES = {"torch.float32": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.uint8": "fp8"}
ENUMERATION = re.compile(r"[A-Z]\w*\.(\w+)")
"""As Python prints one of its values: AttnBackend.auto."""
TURNED_OFF = {
    "add_bias_linear": "disable-bias-linear",
    "overlap_p2p_comm": "no-overlap-p2p-communication",
    "apply_rope_fusion": "no-rope-fusion",
    "barrier_with_L1_time": "no-barrier-with-level-1-timing",
    "perform_initialization": "no-initialization",
    "enable_gloo_process_groups": "disable-gloo-process-groups",
    "use_gloo_process_groups": "disable-gloo-process-groups",
    "add_position_embedding": "no-position-embedding",
    "enable_msc": "disable-msc",
    "query_key_layer_scaling": "no-query-key-layer-scaling",
    "muon_split_qkv": "muon-no-split-qkv",
    "offset_sampling_seed_by_dp_rank": "use-same-sampling-seed-across-dp-ranks",
    "torch_fsdp2_reshard_after_forward": "torch-fsdp2-no-reshard-after-forward",
    "use_mamba_mem_eff_path": "disable-mamba-mem-eff-path",
}
"""Names whose option turns them off, beside those that follow from the option's own name."""
LIST = re.compile(r"\[.*\]")


def megatron_log(text: str, file: str) -> Text:
    """The arguments in a log. Raises BadInput for more of them than any release has."""
    words: dict[str, object] = {}
    lines: dict[str, int] = {}
    repeated: dict[str, str] = {}
    for number, name, said in _settings(text):
        word, value = _option(name, said)
        if word in words and words[word] != value:
            repeated.setdefault(word, str(words[word]))
        words[word], lines[word] = value, number
        if len(words) > MOST_WORDS:
            raise BadInput(f"has more than the {MOST_WORDS} arguments allowed", f"{file}:{number}")
    if words.get("vocab-size") is None and (at := text.find(TOKENIZED)) >= 0:
        size = re.match(r"\d{1,12}", text[at + len(TOKENIZED) : at + len(TOKENIZED) + 12])
        if size is not None:
            words["vocab-size"], lines["vocab-size"] = size[0], text.count("\n", 0, at) + 1
    return Text(file, "log", words, lines, repeated, text)


def _settings(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, name and value of every argument; only lines with dots are looked at."""
    number, counted, at = 1, 0, text.find(DOTS)
    for _ in range(MOST_LINES):
        if at < 0:
            return
        start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        end = len(text) if end < 0 else end
        number, counted = number + text.count("\n", counted, start), start
        before = text[start:at].split() if end - start < MOST_LETTERS else []
        if before and NAME.fullmatch(before[-1]):
            yield number, before[-1], text[at + 1 : end].lstrip(".").strip()
        at = text.find(DOTS, end)


def _option(name: str, said: str) -> tuple[str, object]:
    """The option of a name, and its value; None for what was not given or is off."""
    known = format_of("megatron").kind_of
    word = OTHERWISE.get(name, name.replace("_", "-"))
    if name != "params_dtype":
        said = TYPES.get(said, said)
    if (listed := ENUMERATION.fullmatch(said)) is not None:
        said = listed[1]
    value: object = None if said in ("None", "") else said
    if LIST.fullmatch(said) and word != "moe-layer-freq":
        value = re.findall(r"[^\s\[\]',\"]+", said)
    if said not in ("True", "False"):
        return word, value
    if name in TURNED_OFF or known(word)[0] == "unknown":
        options = (TURNED_OFF.get(name, ""), f"no-{word}", f"disable-{word}")
        off = next((one for one in options if known(one)[0] != "unknown"), None)
        if off is not None:
            return off, True if said == "False" else None
    return word, True if said == "True" else None
