"""What can be measured of a run and held against its prediction, and how to record it."""

from __future__ import annotations

from lockstep.base.types.plain import Json

TRACE = """from torch.profiler import profile, schedule

with profile(schedule=schedule(wait=5, warmup=1, active=4)) as profiler:
    for batch in batches:
        train_step(batch)
        profiler.step()
profiler.export_chrome_trace(f"traces/rank{rank}.json.gz")"""
SNAPSHOT = """torch.cuda.memory._record_memory_history()
...                                   # a few steps
torch.cuda.memory._dump_snapshot("memory.pickle")"""
TABLE = "rank,step,op,start_s,duration_s"

RECORDING: tuple[tuple[str, str, str], ...] = (
    (
        "A number",
        "The time of a step, tokens per second, TFLOP/s or MFU. Says whether it is low for this layout at all.",
        "",
    ),
    (
        "A log",
        "Of Megatron-LM, torchtitan, nanotron, Trainer, DeepSpeed, llm-foundry, MaxText, NeMo, OLMo-core, MLPerf and "
        "nanoGPT.",
        "",
    ),
    (
        "Traces of torch.profiler",
        "Show where the time goes. Of several ranks, also who waits for whom: record the same steps on every rank.",
        TRACE,
    ),
    ("A trace of Nsight Systems", "Exported as SQLite.", "nsys export --type sqlite report.nsys-rep"),
    ("A memory snapshot", "What filled the device at its peak, next to the prediction.", SNAPSHOT),
    ("A table of operations", "The way in for any other program: a CSV file with at least these columns.", TABLE),
    ("Output of nccl-tests, dumps of the flight recorder", "How fast the links are; which rank never arrived.", ""),
)
"""Title, what it is good for, and how it is made."""


def recording() -> list[Json]:
    """The same for a page."""
    return [{"title": title, "text": text, "code": code} for title, text, code in RECORDING]
