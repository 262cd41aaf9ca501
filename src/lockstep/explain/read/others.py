"""Files that PyTorch and its tools write too, and that say nothing of steps: what each is, for its refusal."""

from __future__ import annotations

import re

from lockstep.explain.read.file import Head

TRACE = "give the trace of export_chrome_trace"
OLD_SAVE = rb"\x80.\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19\."
"""The number with which torch.save began until PyTorch 1.6."""
SNAPSHOT = "give a memory snapshot (torch.cuda.memory._dump_snapshot)"
KINDS = (
    (f"a memory timeline of torch.profiler (export_memory_timeline); {SNAPSHOT}", rb"\s*\[\[-?\d+, -?\d"),
    (
        f"a file of stacks of torch.profiler for flame graphs (export_stacks); {TRACE}",
        rb"[^\n;{}]{0,999}\(\d+\):_[^\n]*?(;| \d+\n)",
    ),
    (f"a table of torch.profiler (key_averages); {TRACE}", rb"-{3}[^{}]*?\bName {2,}[^\n]*# of Calls"),
    ("a log of torch.compile (TORCH_TRACE), which tlparse reads", rb"V\d{4} [\d:.]+ \d+ [^\n]*\] \{"),
    (f"a file of tensors (torch.save); {TRACE}", rb"PK\x03\x04(?s:.{26})[^\n]*?/data\.pkl|" + OLD_SAVE),
    ("an archive (zip); unpack it and give the files in it", rb"PK\x03\x04"),
    (f"a file of tensors (safetensors); {TRACE}", rb'(?s:.{8})\{"(__metadata__|[^"\n]+":\s*\{"dtype)'),
    (f"an event file of TensorBoard; {TRACE}", rb"(?s:.{0,40})brain\.Event:\d"),
    ("a web page (HTML)", rb"(?i)\s*<(!doctype html|html)"),
)
OTHERS = tuple((what, re.compile(begins)) for what, begins in KINDS)


def other(begun: Head) -> str:
    """What the file is, with what to give instead, if it is none that is read; empty where nothing says so."""
    return next((what for what, begins in OTHERS if begins.match(begun.data)), "")
