"""Logs of llm-foundry (Composer), and its YAML: `Train throughput/device/mfu: 0.4644`, `d_model: 4096`.

Sources: mosaicml/composer, composer/callbacks/speed_monitor.py; mosaicml/llm-foundry, llmfoundry/models/mpt
(flops_per_batch: 6 N plus attention against all keys; recomputation is not counted).
"""

from lockstep.explain.read.logs.log import MEMORY, PER_DEVICE_TOKENS, Program, program
from lockstep.explain.stated import MFU, RATE, TOKENS

THROUGHPUT = r"throughput/{}:\s*([\d.,eE+-]+)"

KIND = program(
    Program(
        name="llm-foundry",
        what="a log or a configuration of llm-foundry",
        sign=r"\bthroughput/(?:device/)?(?:tokens|batches|samples)_per_sec:|^\s*name: mpt_causal_lm\b",
        patterns={
            PER_DEVICE_TOKENS: (THROUGHPUT.format("device/tokens_per_sec"), 1.0),
            TOKENS: (THROUGHPUT.format("tokens_per_sec"), 1.0),
            RATE: (THROUGHPUT.format("device/flops_per_sec"), 1.0),
            MFU: (THROUGHPUT.format("device/mfu"), 1.0),
            "batches_per_s": (THROUGHPUT.format("batches_per_sec"), 1.0),
            MEMORY: (r"memory/peak_allocated_mem:\s*([\d.,]+)", 1e9),
        },
        settings={
            "layers": r"^\s*n_layers:\s*(\d+)",
            "hidden": r"^\s*d_model:\s*(\d+)",
            "heads": r"^\s*n_heads:\s*(\d+)",
            "vocab": r"^\s*vocab_size:\s*(\d+)",
            "seq": r"^\s*max_seq_len:\s*(\d+)",
            "batch": r"^\s*global_train_batch_size:\s*(\d+)",
        },
        step=r"\[batch=(?P<step>\d+)/(?P<last>\d+)\]",
        block=True,
        counts="6 N and attention against all keys, no recomputation; MFU of the peak of the precision in use",
    )
)
