"""MLPerf training logs: `:::MLLOG {"key": "tracked_stats", "value": {"throughput": 1234.5, ...}, ...}`.

Source: mlcommons/logging, mlperf_logging/mllog/constants.py; NVIDIA's submissions print `throughput` in samples per
second and `train_step_time` in seconds.
"""

from lockstep.explain.read.logs.log import SAMPLES, Program, program
from lockstep.explain.stated import TIME_S

VALUE = r":::MLLOG .*\"key\": \"{}\".*\"value\": (\d+)"

KIND = program(
    Program(
        name="mlperf",
        what="a training log of MLPerf",
        sign=r":::MLLOG \{",
        patterns={
            SAMPLES: (r":::MLLOG .*\"throughput\": ([\d.eE+-]+)", 1.0),
            TIME_S: (r":::MLLOG .*\"train_step_time\": ([\d.eE+-]+)", 1.0),
        },
        settings={
            "batch": VALUE.format("global_batch_size"),
            "seq": VALUE.format("max_sequence_length"),
        },
        step=r":::MLLOG .*\"key\": \"tracked_stats\".*\"step\": (?P<step>\d+)",
        step_counts="samples",
        counts="samples of all devices",
        order=4,
    )
)
