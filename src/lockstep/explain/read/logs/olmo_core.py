"""Logs of OLMo-core, and of programs with its callbacks: a block of metrics after `[step=5/1000,epoch=1]`.

    2025-03-03 10:11:12 host:0 olmo_core.train.callbacks.console_logger:81 INFO [step=2/1000,epoch=1,eta=3:10:00]
        gpu_memory/GPU active mem (GiB)=50.14
        throughput/device/MFU=44.57
        throughput/device/TPS=258,163

TPS are tokens per second of one device: tokens of its data-parallel rank over the ranks that share them. MFU is a
percentage of the dense bf16 peak of a H100 or B200, and of an A100 for every other device; `(actual avg)` is the mean
since the first step. Step 1 has neither. Memory is the most that was active on the device since the step before.

Sources: allenai/OLMo-core, src/olmo_core/train/callbacks/console_logger.py (log_metrics), speed_monitor.py (post_step)
and gpu_memory_monitor.py, of 2024 to 2026.
"""

from lockstep.explain.read.logs.log import MEMORY, PER_DEVICE_TOKENS, Program, program
from lockstep.explain.stated import MFU

METRIC = r"\bthroughput/device/{}=([\d.,eE+-]+|nan|inf)"

KIND = program(
    Program(
        name="olmo-core",
        what="a log of OLMo-core",
        sign=r"\bthroughput/device/(?:TPS|BPS|MFU|data loading)[^=\n]{0,20}=|\bolmo_core\.train\.callbacks\.",
        patterns={
            PER_DEVICE_TOKENS: (METRIC.format("TPS"), 1.0),
            MFU: (METRIC.format("MFU"), 0.01),
            "batches_per_s": (METRIC.format("BPS"), 1.0),
            MEMORY: (r"\b(?:gpu_memory|system)/GPU active mem \(GiB\)=([\d.,eE+-]+)", 2.0**30),
        },
        step=r"\[step=(?P<step>\d+)/(?P<last>\d+)[,\]]",
        block=True,
        counts="tokens of one device; MFU of the dense bf16 peak of a H100 or B200, of an A100 for any other device",
    )
)
