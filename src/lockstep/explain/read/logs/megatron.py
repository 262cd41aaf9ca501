"""Logs of Megatron-LM, Megatron-DeepSpeed, GPT-NeoX and Megatron-Bridge, which print iterations in one form.

     iteration  20/ 1000 | elapsed time per iteration (ms): 1572.7 | throughput per GPU (TFLOP/s/GPU): 296.5 | ...
    time (ms) | forward-compute: 144.40 | backward-compute: 398.55 | ...

Sources: NVIDIA/Megatron-LM, megatron/training/training.py (training_log, num_floating_point_operations);
bigscience-workshop/Megatron-DeepSpeed, megatron/training.py, which counts recomputed FLOPs as well.
"""

from lockstep.explain.read.logs.log import MEMORY, SAMPLES, Program, program
from lockstep.explain.stated import RATE, TIME_S, TOKENS

NUMBER = r"\s*([\d.eE+-]+|nan|inf)"
SETTING = r"\b{}\s\.{{3,}}\s?(\d+)\s*$"

KIND = program(
    Program(
        name="megatron",
        what="a log of Megatron-LM or a program after it",
        sign=r"^.*\biteration\s+\d+\s*/\s*\d+ \|.*elapsed time per iteration \((?:ms|s)\)|^.*\bnum_layers \.{3,}",
        patterns={
            TIME_S: (r"iteration\s+\d+\s*/.*elapsed time per iteration \(ms\):" + NUMBER, 1e-3),
            f"{TIME_S} in seconds": (r"iteration\s+\d+\s*/.*elapsed time per iteration \(s\):" + NUMBER, 1.0),
            RATE: (r"(?:throughput per GPU \(TFLOP/s/GPU\):|approx flops per GPU:|TFLOPs:)" + NUMBER, 1e12),
            SAMPLES: (r"samples(?:/sec| per second):" + NUMBER, 1.0),
            TOKENS: (r"tokens[ -]per[ -]sec(?:ond)?:" + NUMBER, 1.0),
            MEMORY: (r"mem-max-allocated-bytes:" + NUMBER, 1.0),
            "batch": (r"global batch size:" + NUMBER, 1.0),
        },
        settings={
            "layers": SETTING.format("num_layers"),
            "hidden": SETTING.format("hidden_size"),
            "heads": SETTING.format("num_attention_heads"),
            "vocab": SETTING.format("padded_vocab_size"),
            "seq": SETTING.format("seq_length"),
            "devices": SETTING.format("world_size"),
        },
        step=r"\biteration\s+(?P<step>\d+)\s*/\s*(?P<last>\d+)\s*\|",
        counts="attention against all keys, the head with its padded vocabulary, no recomputation (programs of 2021 "
        "and 2022 count recomputed FLOPs too)",
        timers=r"^\s*(?:\(min, max\) )?time(?: across ranks)? \(ms\) \| (.*)$",
    )
)
