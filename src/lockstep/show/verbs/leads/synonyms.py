"""Words of a question that differ from those of Lockstep's texts."""

from __future__ import annotations

_STOP = """
a about actually all am an and any anything are as at bad based be been between by can could do does doing for from get
give good happen happened happens has have how i if in into is it its just know like lockstep look make makes many me
much my need no not of on one or our per please possible really right see should so some something take takes tell than
that the their them then there these they thing things this to us use used using very want was way ways we were what
when where which while who why will with work works worth would you your
"""
STOP = frozenset(_STOP.split())
"""Words that say nothing of what a question is about."""

ALIKE = (
    "device gpu accelerator card chip tpu h100 h200 a100 b200 v100 mi300x",
    "cost price money dollar dollars budget cheap cheaper cheapest expensive bill",
    "device node machine server host",
    "failure fail crash die dead fault outage kill reliability",
    "checkpoint save saving snapshot",
    "stale staleness async asynchronous delay delayed hogwild lag",
    "converge convergence loss accuracy quality",
    "compress compression compressor quantize quantization sparsify topk",
    "format precision dtype bf16 fp16 fp8 fp32 float mixed",
    "network link bandwidth latency interconnect infiniband nvlink ethernet",
    "experts expert moe mixture",
    "long days weeks time duration hours eta",
    "picture plot chart graph draw figure visualise visualize",
    "trust accurate accuracy error validate validation believe reliable published",
    "fine-tune finetune finetuning lora qlora adapter adapters peft sft",
    "layout parallelism parallel strategy configuration",
    "seed deterministic determinism reproducible reproduce bitwise nondeterministic",
    "stragglers straggler straggling jitter noise variance",
    "bubble idle",
    "unequal different uneven heterogeneous",
    "report share send boss colleague",
    "own custom new add describe define",
    "power energy electricity carbon co2",
    "software framework megatron deepspeed torchtitan nemo fsdp accelerate huggingface nanotron axolotl trl",
    "export launch flags arguments script generate write",
    "overlap hide hidden exposed",
    "recompute recomputation rematerialization",
    "sequence seq context length",
    "collective all-reduce allreduce all-gather reduce-scatter nccl",
    "bench benchmark nccl-tests measure",
    "catalog list available supported",
    "cite citation paper papers reference source bibtex",
    "textbook chapter theorem exercise homework lecture",
    "spot preemption preemptible preempt reserved",
    "faster speed speedup speed-up quicker",
)
"""Words that a question may exchange for one another."""

PHRASES = {
    "out of memory": "memory",
    "oom": "memory",
    "fit": "memory",
    "fits": "memory",
    "fit on": "memory layout",
    "fit in": "memory",
    "vram": "memory",
    "ram": "memory",
    "slow": "diagnose slow measured",
    "slower": "diagnose slow measured",
    "bottleneck": "sensitivity roofline bottleneck",
    "hang": "diagnose hang",
    "hangs": "diagnose hang",
    "stuck": "diagnose hang",
    "profiler": "diagnose trace profile",
    "buy": "upgrade cluster",
    "purchase": "upgrade cluster",
    "rent": "upgrade cluster",
    "upgrade": "upgrade sensitivity",
    "how long": "days campaign run",
    "how many gpus": "devices scaling deadline",
    "how many devices": "devices scaling deadline",
    "more gpus": "devices scaling speed-up",
    "scale": "scaling speed-up devices",
    "how often": "often interval",
    "best way to split": "best layout plan",
    "can i train": "plan layout fit",
    "model can i train": "memory largest machine",
    "what can i train": "memory largest machine",
    "how should i train": "plan layout best",
    "get started": "plan first run",
    "where do i start": "plan first run",
    "batch size": "batch-size",
    "learning rate": "learning-rate batch",
    "gradient accumulation": "micro-batch batch",
    "activation checkpointing": "recompute activation",
    "gradient checkpointing": "recompute activation",
    "federated": "local averaging",
    "fedavg": "local averaging",
    "diloco": "local outer",
    "my own cluster": "own hardware cluster",
    "zero": "zero shard",
    "fsdp": "zero shard",
    "sharding": "zero shard",
    "mfu": "mfu step utilisation",
    "utilization": "mfu utilisation",
    "speculative": "backup stragglers",
    "web": "browser page ui",
    "gui": "browser page ui",
    "browser": "browser page ui",
    "explain": "learn",
    "lie": "claims false",
}
"""Phrases, the longest first, and the words of Lockstep's texts that stand for them."""
