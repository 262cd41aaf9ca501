"""Logs of nanoGPT and what descends from it.

    iter 10: loss 5.01, time 123.45ms, mfu 30.12%                          nanoGPT
    step:2245/2245 train_time:137492ms step_avg:61.24ms                    modded-nanogpt
    step 00004/21400 (0.02%) | loss: 8.9 | dt: 989.44ms | tok/sec: 529,882 | mfu: 74.13     nanochat

Sources: karpathy/nanoGPT, train.py and model.py (estimate_mfu divides by the 312 TFLOP/s of an A100 on every device);
KellerJordan/modded-nanogpt, train_gpt.py; karpathy/nanochat, scripts/base_train.py.
"""

from lockstep.explain.read.logs.log import MEMORY, Program, program
from lockstep.explain.stated import MFU, TIME_S, TOKENS

KIND = program(
    Program(
        name="nanogpt",
        what="a log of nanoGPT or a program after it",
        sign=r"^iter \d+: loss [\d.]+, time [\d.]+ms|^step:\d+/\d+ .*step_avg:|^step \d+(?:/\d+)? .*\bdt: [\d.]+ms",
        patterns={
            TIME_S: (r"(?:^iter \d+: .*time |^step:\d+/\d+ .*step_avg:|^step \d+.* dt: )([\d.]+|nan)ms", 1e-3),
            TOKENS: (r"tok/sec: ([\d,]+)", 1.0),
            MFU: (r"\bmfu:? ([\d.]+)", 0.01),
            MEMORY: (r"peak memory allocated: (\d+) MiB", 2.0**20),
        },
        step=r"^(?:iter |step[: ])(?P<step>\d+)(?:/(?P<last>\d+))?\b(?=.*(?:\btime [\d.]+ms|step_avg:|\bdt: ))"
        r"(?:.*\btrain_time:(?P<elapsed_ms>\d+)ms)?",
        counts="nanoGPT's MFU is of an A100's 312 TFLOP/s on every device; step_avg is the mean since the first step",
    )
)
