"""Cases of the fuzzer: seeded commands with bad words, damaged files, run folders and environments.

`case(number, seed, folder)` makes the files of a case in `folder` and says what to run. A case is `refused` when what
it gives cannot mean anything: then any other end than exit code 2 is a fault, since the value was ignored.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
import typer

import lockstep
from lockstep.run.checkpoint import CheckpointWriter, Part
from lockstep.show.cli.app import build
from lockstep.show.verbs import VERBS

HERE = Path(__file__).parent
STEPS_SAVED = (10, 20)
STORE = HERE.parent / "store" / "schema_1"
LINK = ("--latency", "5us", "--bandwidth", "25GB/s")
RUN = ("gpt2", "--cluster", "dgx-a100-40gb", "--batch", "64")

BASES: dict[str, tuple[str, ...]] = {
    "plan": RUN, "estimate": RUN, "memory": RUN, "roofline": RUN, "sensitivity": RUN, "cite": RUN, "guide": RUN,
    "export": (*RUN, "--to", "megatron"), "report": (*RUN, "-o", "{folder}/r.html"),
    "campaign": (*RUN, "--tokens", "1B", "--campaigns", "20"),
    "scaling": RUN, "stack": ("megatron-te",),
    "messages": ("--workers", "8", "--params", "1M"),
    "collective": ("all-reduce", "--ranks", "8", "--size", "1MB", *LINK),
    "crossover": ("all-reduce", "--ranks", "8", *LINK),
    "pipeline": ("--stages", "4", "--microbatches", "8"),
    "overlap": ("--layers", "8", "--gradients", "100MB", "--backward", "80ms", "--ranks", "8", *LINK),
    "stragglers": ("--workers", "16", "--law", "lognormal:mean=50ms,cv=0.2"),
    "balance": ("--speeds", "1,2,3", "--batch", "64"),
    "experts": ("--experts", "8", "--top-k", "2", "--tokens", "4096", "--skew", "1", "--ranks", "8", *LINK),
    "rollout": ("gpt2", "-c", "l40s:2", "--prompts", "4", "--prompt-tokens", "16", "--response", "exponential:mean=64"),
    "tensor": ("--ranks", "4", "--hidden", "64", "--heads", "4", "--seq", "32", "--flops", "1T", *LINK),
    "checkpoint": ("--mtbf", "6h", "--write", "1min", "--campaigns", "20"),
    "speedup": ("--compute", "1s", "--size", "100MB", "--workers", "64", *LINK),
    "trace": ("pipeline", "--stages", "4", "--microbatches", "8", "-o", "{folder}/t.json.gz"),
    "converge": ("noise-scale",),
    "claims": (), "catalog": (), "find": ("MFU",), "support": (), "validate": (), "case": ("bloom-176b",),
    "fit": ("{folder}/good.csv",),
    "calibrate": ("-c", "dgx-h100", "--case", str(HERE.parents[1] / "examples" / "steps-8.yaml")),
    "runs": ("list", "--runs", "{folder}/runs"),
    "train": ("synchronous", "--steps", "2"), "execute": ("all-reduce", "--size", "1KB"), "bench": ("all-reduce",),
    "capture": ("{folder}/none.py", "-c", "h100-sxm:1"),
    "rig": ("all-reduce",), "reproduce": (), "ui": ("--no-open",), "sweeps": ("list", "{folder}"),
    "compare": (RUN[0], "micro_batch=2", *RUN[1:]), "diagnose": ("--model", *RUN, "--tflops", "300"),
    "watch": (str(HERE.parents[1] / "examples" / "watched.log"),),
}  # fmt: skip
"""Good words of every verb, to which a bad one is added. Those of the last lines start processes, unless refused."""
BAD_TEXTS = (
    "💥",
    "",
    " ",
    "nan",
    "-1",
    "1e400",
    "[/red]",
    "\x00",
    "9" * 5000,
    "x" * 100_000,
    "1 parsec",
    "0x10",
    "\ud800",
)
BAD_PATHS = {"FILE": ("a\x00b.svg", "/proc/none/x.svg", "/dev/null/x.yaml", "y" * 5000), "DIR": ("a\x00b",),
             "TEXT": ("", " ", "\x00", "💥", "no item has these words")}  # fmt: skip
"""By what a flag takes; a folder need not exist, so that only what can be none is bad."""

CLUSTER = """\
devices:
  toy:
    vendor: acme
    memory: 80 GiB
    memory_bandwidth: 2 TB/s
    peak_flops: {bf16: 300 TFLOP/s}
    efficiency: a100
cluster:
  device: toy
  levels:
    - {name: node, size: 8, link: nvlink3}
    - {name: fabric, size: 2, link: {latency: 5 us, bandwidth: 25 GB/s}}
"""
MODEL = """\
layers: 4
hidden: 256
vocab: 1000
max_positions: 512
attention: {heads: 8, head_dim: 32}
mlp: {ffn: 1024}
"""
STUDY = """\
title: a run
model: gpt2
cluster: dgx-a100-80gb
devices: 8
recipe: {dtype: bf16}
layout: {tp: 1, pp: 1, dp: 8, micro_batch: 1}
stretches: [{seq: 1024, batch: 64, tokens: 1B}]
published: [{quantity: step_time_s, value: 1.5, source: nobody}]
source: nobody
"""
CONFIG = json.dumps(
    {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8,
     "num_key_value_heads": 4, "intermediate_size": 1024, "vocab_size": 1000, "max_position_embeddings": 512},
    indent=1,
)  # fmt: skip
GOOD_CSV = "op,algorithm,ranks,size_B,time_s\n" + "".join(
    f"all-reduce,ring,4,{size},{2e-5 + size / 1e10}\n" for size in (1000, 10_000, 100_000, 1_000_000, 10_000_000)
)
NCCL = "# all_reduce_perf\n#  Rank  0 on host0 device  0\n#  Rank  1 on host0 device  1\n" + (
    "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    "        1024           256     float     sum      -1    20.00    0.05    0.05      0\n"
    "     1048576        262144     float     sum      -1    120.0    8.70    8.70      0\n"
    "    16777216       4194304     float     sum      -1   1500.0   11.10   11.10      0\n"
)
OSU = (
    "# OSU MPI Allreduce Latency Test v7.0\n# Size       Avg Latency(us)\n4  5.0\n1024 8.0\n65536 50.0\n1048576 600.0\n"
)
TIMES = "time_s\n" + "".join(f"{0.04 + 0.001 * i}\n" for i in range(20))

Reader = tuple[str, str, Callable[[str], tuple[str, ...]]]
READERS: tuple[Reader, ...] = (
    (".yaml", CLUSTER, lambda path: ("estimate", "gpt2", "-c", path, "--batch", "64")),
    (".yaml", MODEL, lambda path: ("estimate", path, "-c", "dgx-h100", "--batch", "64")),
    (".json", CONFIG, lambda path: ("estimate", path, "-c", "dgx-h100", "--batch", "64")),
    (".yaml", STUDY, lambda path: ("case", path)),
    (".csv", GOOD_CSV, lambda path: ("fit", path)),
    (".txt", NCCL, lambda path: ("fit", path)),
    (".txt", OSU, lambda path: ("fit", path, "--ranks", "4")),
    (".csv", TIMES, lambda path: ("stragglers", "--workers", "8", "--law", f"trace:{path}")),
    (".yaml", CLUSTER, lambda path: ("collective", "all-reduce", "--size", "1MB", "--ranks", "16", "-c", path)),
)
"""What a file is called, a good one, and a command that reads it."""
NUMBERS = (
    "0", "-1", "1e308", "5e-324", "1e-60", "1e60", "9" * 400, "9223372036854775808", "nan", "inf", ".inf", "1e400",
    "true", "null", '""', "[]", "{}", "[[[[1]]]]", "2.5", "1e15", "1e-15", "'💥'",
)  # fmt: skip
PIECES = (
    "\x00", "\r", "\t", "💥", "{", "[" * 2000, '"', "#", "---\n", "&x ", "*x", "!!python/object:os.system ", ",",
    "\n\n", "\ufeff", "a" * 140_000, "- ", ": ",
)  # fmt: skip

PLACES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT")
STARTED = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"}
STEPS = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_JOB_ID")
STEPPED = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "7",
           "SLURM_STEP_NODELIST": "localhost"}  # fmt: skip
BAD_NUMBERS = ("x", "", "-1", "1.5", "9" * 5000, "99999999999", "💥", "0x1", "1e3", "\u0661", "nan", "[1]", "1,2")
SURROUNDINGS = {
    "COLUMNS": ("0", "-1", "1", "5", "x", "", "100000", "9" * 30), "LINES": ("0", "x"), "LANG": ("C", "xx_YY.bad", ""),
    "LC_ALL": ("C", "xx"), "NO_COLOR": ("1", ""), "FORCE_COLOR": ("1", "x"), "TERM": ("", "dumb", "💥"),
    "LOCKSTEP_RUNS": ("", "/dev/null", "/proc/none", "x" * 5000), "TMPDIR": ("/none", "", "/dev/null"),
    "MPLCONFIGDIR": ("/none", ""), "PYTHONIOENCODING": ("x",), "PYTHONHASHSEED": ("x",), "PYTHONPATH": ("/dev/null",),
    "OMP_NUM_THREADS": ("x", "-1", "0"), "TORCHELASTIC_RESTART_COUNT": ("x",), "HOME": ("", "/dev/null"),
    "SLURM_STEP_NODELIST": ("[", ""), "MASTER_ADDR": ("x" * 300, ""), "TTY_COMPATIBLE": ("x",),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One command and what holds for its end."""

    arguments: tuple[str, ...]
    refused: bool = False
    """Whether only exit code 2 is right."""
    environment: dict[str, str] = field(default_factory=dict)
    checkpoints: Path | None = None
    """A folder of checkpoints to read instead of a command."""
    rows: tuple[str, ...] = ()
    """The only rows, as JSON, that a list may have."""


def case(number: int, seed: int, folder: Path) -> Case:
    """The case of that number; its files are in `folder`."""
    draw = random.Random(f"{seed} {number}")
    kinds = (
        bad_word,
        bad_word,
        damaged_file,
        damaged_file,
        odd_file,
        damaged_store,
        damaged_checkpoint,
        bad_environment,
        damaged_sweep,
    )
    made = kinds[number % len(kinds)](draw, folder)
    form = ("--json",) if draw.random() < 0.5 and "--json" not in made.arguments else ()
    return replace(made, arguments=(*made.arguments, *form))


@cache
def flags(verb: str) -> tuple[tuple[str, str], ...]:
    """(flag, metavar) of all that take a text, of a verb."""
    app = build([verb])
    shown = typer.main.get_command(app)
    shown = getattr(shown, "commands", {verb: shown})[verb]
    return tuple(
        (option.opts[0], option.metavar or "")
        for option in shown.params
        if option.param_type_name == "option" and not option.is_flag and option.opts[0] != "--help"
    )


def bad_word(draw: random.Random, folder: Path) -> Case:
    """A good question with one value that no flag takes."""
    verb = draw.choice([verb for verb in VERBS if flags(verb)])
    flag, metavar = draw.choice(flags(verb))
    value = draw.choice(BAD_PATHS.get(metavar, BAD_TEXTS))
    (folder / "good.csv").write_text(GOOD_CSV)
    (folder / "runs").mkdir()
    base = [word.replace("{folder}", str(folder)) for word in BASES[verb]]
    if flag in base:
        place = base.index(flag)
        del base[place : place + 2]
    return Case((verb, *base, f"{flag}={value}"), refused=True)


def damaged_file(draw: random.Random, folder: Path) -> Case:
    """A good file with a few places changed."""
    ending, good, command = draw.choice(READERS)
    text = good
    for _ in range(draw.randint(1, 3)):
        text = _damaged(draw, text)
    path = folder / f"file{ending}"
    raw = text.encode("utf-8", "surrogatepass")
    if draw.random() < 0.1:
        raw = text.encode("utf-16") if draw.random() < 0.5 else bytes(draw.randrange(256) for _ in range(300))
    path.write_bytes(raw)
    return Case(command(str(path)))


def _damaged(draw: random.Random, text: str) -> str:
    """The text with a number, a letter, a line or a piece of it changed."""
    if not text:
        return draw.choice(PIECES)
    at, kind = draw.randrange(len(text)), draw.randrange(6)
    if kind == 0:
        return text[:at] + draw.choice(PIECES) + text[at:]
    if kind == 1:
        return text[:at] + chr(ord(text[at]) ^ (1 << draw.randrange(7))) + text[at + 1 :]
    if kind == 2:
        return text[:at]
    lines = text.splitlines(keepends=True)
    row = draw.randrange(len(lines))
    if kind == 3:
        return "".join(lines[:row] + lines[row:][1:])
    if kind == 4:
        return "".join([*lines[: row + 1], *lines[row:]])
    head, separator, _ = lines[row].rpartition(draw.choice((": ", ",", " ")))
    lines[row] = f"{head}{separator}{draw.choice(NUMBERS)}\n"
    return "".join(lines)


def odd_file(draw: random.Random, folder: Path) -> Case:
    """Something that is no file of its size."""
    ending, _, command = draw.choice(READERS)
    path = folder / f"file{ending}"
    match draw.randrange(9):
        case 0:
            os.mkfifo(path)
        case 1:
            path.symlink_to(draw.choice(("/dev/zero", "/dev/urandom", "/dev/null", "/dev/tty", "/proc/self/mem")))
        case 2:
            path.mkdir()
        case 3:
            path.symlink_to(path)
        case 4:
            path.symlink_to(folder / "nothing")
        case 5:
            with path.open("wb") as file:
                file.truncate(draw.choice((70 << 20, 1 << 32)))
        case 6:
            path = folder / ("y" * 300 + ending)
        case 7:
            path.write_bytes(b"")
        case _:
            path = folder / f"a\0b{ending}"
    return Case(command(str(path)), refused=True)


def damaged_store(draw: random.Random, folder: Path) -> Case:
    """A store of kept runs in which a file is damaged, or is none."""
    root = folder / "runs"
    shutil.copytree(STORE, root)
    run = next(path for path in root.iterdir() if path.is_dir())
    if draw.random() < 0.5:
        shutil.copytree(run, root / run.name.replace("1400", "1500"))
    _harm(draw, draw.choice(sorted(path for path in root.rglob("*") if path.is_file())))
    action = draw.choice((("list",), ("show", "last"), ("reindex",), ("compare", run.name, "last"),
                          ("export", "last", "--tensorboard", str(folder / "curves"))))  # fmt: skip
    return Case(("runs", *action, "--runs", str(root)))


def damaged_checkpoint(draw: random.Random, folder: Path) -> Case:
    """Two generations of a checkpoint, one file of which is damaged."""
    root = folder / "saves"
    for step in STEPS_SAVED:
        CheckpointWriter(root, 0, 1, "a", keep=2).save(step, [Part("weights", weights(step))], {"method": "x"})
    _harm(draw, draw.choice(sorted(path for path in root.rglob("*") if path.is_file())))
    return Case((), checkpoints=root)


@cache
def swept() -> tuple[bytes, tuple[str, ...]]:
    """A file of a few answers, and its rows as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.sweep"
        found = lockstep.messages(workers=[2, 4, 8, 16], params="1k", program="ring", store=path)
        return path.read_bytes(), tuple(json.dumps(row, sort_keys=True) for row in found.to_dict()["rows"])


def damaged_sweep(draw: random.Random, folder: Path) -> Case:
    """A file of answers with a few bits flipped, cut, or something else in its place."""
    raw, rows = swept()
    damaged = bytearray(raw[: draw.randrange(len(raw) + 1)] if draw.random() < 0.2 else raw)
    for _ in range(draw.randint(0, 3)):
        if damaged:
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
    path = folder / "a.sweep"
    path.write_bytes(bytes(damaged))
    if draw.random() < 0.2:
        _harm(draw, path)
    action = draw.choice(("show", "show", "resume", "resume", "export", "delete", "list"))
    if action == "list":
        return Case(("sweeps", "list", str(folder)))
    more = ("-o", str(folder / "rows.csv")) if action == "export" else ()
    return Case(("sweeps", action, str(path), *more), rows=rows if action in ("show", "resume") else ())


def weights(step: int) -> np.ndarray:
    """What the checkpoint after `step` steps holds."""
    return np.arange(40, dtype=np.float32) + step


def _harm(draw: random.Random, path: Path) -> None:
    """A file with other content, or something else in its place."""
    raw = path.read_bytes()
    match draw.randrange(8):
        case 0:
            path.write_bytes(raw[: draw.randrange(len(raw) + 1)])
        case 1 | 2:
            at = draw.randrange(max(1, len(raw)))
            path.write_bytes(raw[:at] + bytes([(raw[at] if raw else 0) ^ (1 << draw.randrange(8))]) + raw[at + 1 :])
        case 3:
            path.write_text(
                draw.choice(("{}", "[]", "null", '"1"', "1e400", "[" * 5000, '{"schema": 99}', "\x00" * 100))
            )
        case 4:
            path.unlink()
            os.mkfifo(path)
        case 5:
            path.unlink()
            path.mkdir()
        case 6:
            path.unlink()
            path.symlink_to(draw.choice(("/dev/zero", path, path.parent / "nothing")))
        case _:
            text = raw.decode("utf-8", "replace")
            path.write_text(_damaged(draw, text), encoding="utf-8", errors="surrogatepass")


def bad_environment(draw: random.Random, folder: Path) -> Case:
    """Variables that other programs set, with values that they never have."""
    if draw.random() < 0.5:
        names, good = draw.choice(((PLACES, STARTED), (STEPS, STEPPED)))
        bad = {draw.choice(names): draw.choice(BAD_NUMBERS)}
        verb = draw.choice((("execute", "all-reduce", "--size", "1KB"), ("train", "synchronous", "--steps", "2")))
        return Case(verb, refused=True, environment={**good, **bad})
    chosen = draw.sample(sorted(SURROUNDINGS), 3)
    command = draw.choice(
        (("catalog", "devices"), ("estimate", *RUN), ("collective", *BASES["collective"]), ("nonsense",))
    )
    return Case(command, environment={name: draw.choice(SURROUNDINGS[name]) for name in chosen})
