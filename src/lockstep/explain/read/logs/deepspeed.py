"""Logs of DeepSpeed's own timer: `[timer.py:258:stop] ... RunningAvgSamplesPerSec=16.1, CurrSamplesPerSec=16.8, ...`.

Its pipelines print `steps: 10 loss: 2.1 iter time (s): 1.05 samples/sec: 15.2` instead.

Source: deepspeedai/DeepSpeed, deepspeed/utils/timer.py (ThroughputTimer): samples of all data-parallel ranks; and
deepspeed/runtime/pipe/engine.py (train_batch).
"""

from lockstep.explain.read.logs.log import MEMORY, SAMPLES, Program, program
from lockstep.explain.stated import RATE, TIME_S

KIND = program(
    Program(
        name="deepspeed",
        what="a log of DeepSpeed",
        sign=r"\[timer\.py:\d+:stop\].*SamplesPerSec=|\bsteps: \d+ loss: .*iter time \(s\): .*samples/sec:",
        patterns={
            TIME_S: (r"\bsteps: \d+ loss: .*iter time \(s\):\s*([\d.eE+-]+)", 1.0),
            SAMPLES: (r"(?:Curr|stop\] \d+/\d+, )SamplesPerSec=([\d.eE+-]+)", 1.0),
            MEMORY: (r"MaxMemAllocated=([\d.]+)GB", 2.0**30),
            RATE: (r"FLOPS per GPU[^=:]*[=:].*?([\d.]+)\s*TFLOPS\s*$", 1e12),
        },
        step=r"(?:\bglobal_step=|\bsteps: |\[timer\.py:\d+:stop\] \d+/)(?P<step>\d+)(?:,| loss:)",
        counts="samples of all data-parallel ranks",
        timers=r"rank=0 time \(ms\) \| (forward: .*)$",
        order=6,
    )
)
