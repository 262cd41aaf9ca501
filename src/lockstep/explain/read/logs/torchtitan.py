"""Logs of torchtitan: `step: 10  loss: 4.9  memory: 40.2GiB(50.1%)  tps: 7,123  tflops: 300.12  mfu: 30.35%`.

Source: pytorch/torchtitan, torchtitan/components/metrics.py: tokens per second are those of one device.
"""

from lockstep.explain.read.logs.log import MEMORY, PER_DEVICE_TOKENS, Program, program
from lockstep.explain.stated import MFU, RATE

KIND = program(
    Program(
        name="torchtitan",
        what="a log of torchtitan",
        sign=r"\bstep:\s*\d+\s+loss:.*\btps:\s*[\d,]+",
        patterns={
            PER_DEVICE_TOKENS: (r"\bstep:\s*\d+ .*\btps:\s*([\d,.]+)", 1.0),
            RATE: (r"\bstep:\s*\d+ .*\btflops:\s*([\d,.]+)", 1e12),
            MFU: (r"\bstep:\s*\d+ .*\bmfu:\s*([\d,.]+)%", 0.01),
            MEMORY: (r"\bstep:\s*\d+ .*\bmemory:\s*([\d,.]+)GiB", 2.0**30),
        },
        step=r"\bstep:\s*(?P<step>\d+)\s.*\btps:",
        counts="tokens of one device; attention against all keys, no recomputation; MFU of the bf16 peak that it knows "
        "of the device, also where products run in fp8",
    )
)
