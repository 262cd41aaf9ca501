"""Logs of nanotron: `iteration: 5 / 100 | elapsed_time_per_iteration_ms: 11.5K | tokens_per_sec: 22.8K | ...`.

Later releases call it `time_per_iteration_ms`, and their `global_batch_size` is in tokens.

Source: huggingface/nanotron, src/nanotron/trainer.py and logging/base.py (human_format: K, M, G).
"""

from lockstep.explain.read.logs.log import HARDWARE, MEMORY, PER_DEVICE_TOKENS, Program, program
from lockstep.explain.stated import RATE, TIME_S, TOKENS

NUMBER = r":\s*([\d.,]+)([KMGBT]?)\b"

KIND = program(
    Program(
        name="nanotron",
        what="a log of nanotron",
        sign=r"\biteration: \d+ / \d+ \|.*\b(?:elapsed_)?time_per_iteration_ms:",
        patterns={
            TIME_S: ("time_per_iteration_ms" + NUMBER, 1e-3),
            TOKENS: (r"\btokens_per_sec" + NUMBER, 1.0),
            PER_DEVICE_TOKENS: ("tokens_per_sec_per_gpu" + NUMBER, 1.0),
            RATE: ("model_tflops_per_gpu" + NUMBER, 1e12),
            HARDWARE: ("hardware_tflops_per_gpu" + NUMBER, 1e12),
            MEMORY: ("cuda_max_memory_reserved" + NUMBER, 1.0),
            "batch": ("elapsed_time_per_iteration_ms:.*global_batch_size" + NUMBER, 1.0),
        },
        step=r"\biteration: (?P<step>\d+) / (?P<last>\d+) \|",
        counts="attention against all keys; times are printed with three digits",
    )
)
