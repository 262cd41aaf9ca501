"""Logs of MaxText: `completed step: 9, seconds: 5.667, TFLOP/s/device: 134.924, Tokens/s/device: 8672.758, ...`.

In 2023 the rate was called `TFLOP/s`, of one device too, and tokens were not printed. Steps in which the batch grows
(`[Rampup Batch Size Phase]`, since 2025) have no rates and are left out.

Source: AI-Hypercomputer/maxtext, MaxText/train.py of 2023 and 2024 (write_metrics), metric_logger.py since 2025 and
maxtext_utils.py: attention is counted causally since 2025-07-27 (its README of that day), against all keys before.
"""

from lockstep.explain.read.logs.log import PER_DEVICE_TOKENS, Program, program
from lockstep.explain.stated import RATE, TIME_S

STEP = r"\bcompleted step: \d+, seconds: "
NUMBER = r"([\d.]+|nan|inf)"

KIND = program(
    Program(
        name="maxtext",
        what="a log of MaxText",
        sign=STEP + r"[\d.]+, TFLOP/s(?:/device)?:",
        patterns={
            TIME_S: (STEP + NUMBER + r", TFLOP/s", 1.0),
            RATE: (STEP + r"[\d.]+, TFLOP/s(?:/device)?\s*: " + NUMBER, 1e12),
            PER_DEVICE_TOKENS: (r"Tokens/s/device: " + NUMBER, 1.0),
        },
        step=r"\bcompleted step: (?P<step>\d+), seconds: ",
        counts="attention causally since July 2025, against all keys before; no recomputation",
    )
)
