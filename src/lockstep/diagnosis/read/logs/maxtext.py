"""Logs of MaxText: `completed step: 9, seconds: 5.667, TFLOP/s/device: 134.924, Tokens/s/device: 8672.758, ...`.

Source: AI-Hypercomputer/maxtext, MaxText/metric_logger.py and maxtext_utils.py: attention is counted causally since
2025-07-27 (its README of that day), against all keys before.
"""

from lockstep.diagnosis.read.logs.log import PER_DEVICE_TOKENS, Program, program
from lockstep.diagnosis.stated import RATE, TIME_S

KIND = program(
    Program(
        name="maxtext",
        what="a log of MaxText",
        sign=r"\bcompleted step: \d+, seconds: [\d.]+, TFLOP/s/device:",
        patterns={
            TIME_S: (r"completed step: \d+, seconds: ([\d.]+)", 1.0),
            RATE: (r"TFLOP/s/device: ([\d.]+)", 1e12),
            PER_DEVICE_TOKENS: (r"Tokens/s/device: ([\d.]+)", 1.0),
        },
        counts="attention causally since July 2025, against all keys before; no recomputation",
    )
)
