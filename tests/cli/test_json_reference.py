"""docs/reference/json.md lists what `--json` prints: each documented key is there, each printed key is documented."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cli_runner import LLAMA, run
from lockstep.base.store import RunStore
from lockstep.show.verbs import VERBS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text("utf-8")
LINK = ("--latency", "5us", "--bandwidth", "25GB/s")
EXAMPLES = Path(__file__).parents[2] / "examples"
PROFILE = Path(__file__).parents[1] / "diagnosis" / "h100" / "fused.json.gz"
PROCESSES = {"execute", "bench", "bench of kernels", "train", "reproduce", "rig", "ui"}
"""Sections about runs on real processes, which tests/measure makes, and a server; only their form is checked here."""
SAMPLES: dict[str, list[tuple[str, ...]]] = {
    "Estimate": [("estimate", *LLAMA, "--tp", "2", "--zero", "3", "--sequence-parallel")],
    "plan": [("plan", *LLAMA), ("plan", *LLAMA, "--tokens", "1T"), ("plan", *LLAMA, "--samples", "50k")],
    "memory": [("memory", *LLAMA, "--tp", "2", "--pp", "2", "--zero", "1")],
    "capture": [("memory", str(EXAMPLES / "pretrain.capture"), "--at", "layers=6", "--steps", "10k")],
    "memory without a model": [
        ("memory", "-c", "l40s:2", "--train", "full"),
        ("memory", "-c", "rtx-4090:1", "--base", "nf4"),
    ],
    "roofline": [("roofline", *LLAMA, "--tp", "2", "--zero", "1")],
    "sensitivity": [("sensitivity", "gpt2", "--cluster", "dgx-h100", "--batch", "64")],
    "compare": [("compare", LLAMA[0], "tp=2", *LLAMA[1:], "--tp", "1", "--zero", "1")],
    "guide": [("guide", *LLAMA)],
    "export": [("export", *LLAMA, "--to", "megatron", "--tp", "2", "--zero", "1")],
    "report": [("report", "gpt2", "--cluster", "dgx-h100", "--batch", "64")],
    "cite": [("cite", *LLAMA, "--tp", "2", "--zero", "1")],
    "find": [("find", "does", "it", "fit")],
    "catalog": [("catalog",)],
    "stack": [("stack", "torchtitan", str(EXAMPLES / "my-stack.toml"))],
    "stack derive": [("stack", "derive", str(EXAMPLES / "pretrain.capture"))],
    "support": [("support",)],
    "validate": [("validate", "korthikanti_2022")],
    "validate --first-sight": [("validate", "--first-sight")],
    "case": [("case", "gpt3-175b-megatron")],
    "messages": [("messages", "--workers", "4", "--params", "1M")],
    "collective": [
        ("collective", "all-reduce", "--ranks", "4", "--size", "1MB", *LINK, "--simulate"),
        ("collective", "all-reduce", "--ranks", "16", "--size", "1MB", "--cluster", "dgx-h100:2"),
    ],
    "Lists and ranges": [
        ("messages", "--workers", "2,4", "--params", "1M"),
        ("experts", "--experts", "8", "--tokens", "4096", "--ranks", "2,3", *LINK),
    ],
    "crossover": [("crossover", "all-reduce", "--ranks", "8", *LINK)],
    "pipeline": [
        ("pipeline", "--stages", "4", "--microbatches", "8"),
        ("pipeline", "--stages", "4", "--microbatches", "16", "--layers", "1x3ms,30x10ms,1x18ms"),
        ("pipeline", "--stages", "4", "--microbatches", "16", "--schedule", "dualpipe"),
    ],
    "pipeline --schedule all": [("pipeline", "--stages", "4", "--microbatches", "8,16", "--schedule", "all")],
    "overlap": [("overlap", "--layers", "8", "--backward", "48ms", "--gradients", "70MB", "--ranks", "8", *LINK)],
    "stragglers": [("stragglers", "--workers", "16", "--law", "lognormal:mean=50ms,cv=0.3")],
    "balance": [("balance", "--speeds", "2x310,2x125", "--batch", "64")],
    "trace": [("trace", "pipeline", "--stages", "2", "--microbatches", "2", "-o", "made.json")],
    "experts": [("experts", "--experts", "8", "--top-k", "2", "--tokens", "4096", "--ranks", "4", *LINK)],
    "rollout": [
        (
            "rollout",
            "gpt2",
            "-c",
            "l40s:2",
            "--prompts",
            "4",
            "--prompt-tokens",
            "16",
            "--response",
            "32",
            "--trainer",
            "zero=3",
            "--search",
            "--for",
            "trl",
        ),
        (
            "rollout",
            "gpt2",
            "-c",
            "l40s:1",
            "--prompts",
            "4",
            "--prompt-tokens",
            "16",
            "--response",
            "32",
            "--group",
            "2",
        ),
    ],
    "tensor": [
        ("tensor", "--ranks", "4", "--hidden", "64", "--heads", "4", "--seq", "32", "--flops", "1T", *LINK),
        ("tensor", "--ranks", "4", "--hidden", "64", "--heads", "4", "--seq", "32", "-c", "dgx-h100", "--run"),
    ],
    "checkpoint": [
        ("checkpoint", "--mtbf", "6h", "--write", "5min", "--simulate"),
        ("checkpoint", "--cluster", "dgx-h100:16", "--write", "1min", "--repair", "2d", "--spares", "1"),
    ],
    "campaign": [("campaign", *LLAMA, "--tokens", "100G")],
    "scaling": [
        ("scaling", "gpt2", "--cluster", "dgx-a100-80gb:2", "--batch", "24"),
        ("scaling", "gpt2", "--cluster", "dgx-a100-80gb", "--batch", "64", "--tokens", "1G", "--deadline", "30d"),
    ],
    "speedup": [("speedup", "--compute", "10s", "--size", "200MB", *LINK)],
    "converge": [("converge", "delay-stability"), ("converge", "index-bits")],
    "converge without an experiment": [("converge", "local")],
    "converge --sweep, --seeds": [
        ("converge", "gradient-variance", "--sweep", "trials=200,400", "--seeds", "2"),
    ],
    "claims": [
        ("claims", "A.5", "--run"),
        ("claims", "--errata", "A.18"),
        ("claims", "staleness.mean-delay", "--run"),
        ("claims", "C.4", "--seed", "7", "--solutions"),
        ("claims", "C.4", "--seed", "7", "--check", str(EXAMPLES / "ring-and-tree.csv")),
    ],
    "fit": [("fit", "rows.csv")],
    "reproduce with another run": [("reproduce", "run.csv", "other.csv"), ("reproduce", "run.csv", "run.csv")],
    "calibrate": [("calibrate", "-c", "dgx-h100:4", "--case", str(EXAMPLES / "steps-16.yaml"))],
    "diagnose": [
        ("diagnose", "rows.csv", "run.log", "ops.csv"),
        ("diagnose", "--case", str(EXAMPLES / "steps-16.yaml"), "--replan"),
        ("diagnose", str(PROFILE), "--capture", str(EXAMPLES / "pretrain.capture")),
        ("diagnose", "run.log", "--model", *LLAMA, "--tflops", "300", "--mfu", "13%", "--against", "45%"),
        ("diagnose", "--model", *LLAMA, "--mfu", "40%", "--against", "case:llama3-405b"),
    ],
    "watch": [
        (
            "watch",
            str(EXAMPLES / "watched.log"),
            "--model",
            "llama3-8b",
            "-c",
            "dgx-h100:2",
            "--zero",
            "1",
            "--tp",
            "2",
            "--batch",
            "128",
            "--seq",
            "8192",
        ),
        ("watch", "fewer.log", "--model", "gpt2", "-c", "dgx-h100:2", "--batch", "64", "--steps", "40"),
    ],
    "runs": [("runs",)],
    "sweeps": [("sweeps",)],
    "runs show": [("runs", "show", "last")],
    "runs compare": [("runs", "compare", "last", "last")],
    "train without a method": [("train",)],
    "A question whose answer is no": [("plan", "llama3-405b", "--cluster", "dgx-h100", "--batch", "8")],
}


@dataclass
class Keys:
    """Documented keys of one object."""

    inner: dict[str, "Keys"] = field(default_factory=dict)
    optional: set[str] = field(default_factory=set)
    shared: str = ""
    """The section that lists further keys."""
    others: "Keys | None" = None
    """Keys of the values under names that are not listed."""

    def add(self, word: str) -> "Keys":
        """Takes in one key as the page writes it; returns where its own keys go."""
        read = KEY.fullmatch(word)
        assert read is not None, word
        child = Keys()
        if read["name"].startswith("{"):
            self.others = child
            return child
        self.inner[read["name"]] = child
        if read["optional"]:
            self.optional.add(read["name"])
        if read["kind"] == "{name}":
            child.others = Keys()
            return child.others
        child.shared = read["kind"] or ""
        return child


KEY = re.compile(r"(?P<name>\w+|\{\w+\})(?:\[\])?(?P<optional>\?)?(?:: (?P<kind>\w+|\{name\}|\{any\}))?")


def parsed(block: str) -> Keys:
    """The object that the lines of a block describe: keys, then two spaces, then words for people."""
    whole = Keys()
    parents = {0: whole}
    for line in filter(None, block.splitlines()):
        indent = len(line) - len(line.lstrip())
        for word in re.split(r" {2,}", line.strip())[0].split(", "):
            parents[indent + 2] = parents[indent].add(word)
    return whole


SECTIONS = {
    title: parsed(block)
    for title, block in re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```keys\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
}


def strangers(answer: Any, keys: Keys, path: str = "") -> Iterator[str]:
    """Keys that are printed and not documented, or documented and not printed."""
    if isinstance(answer, list):
        for one in answer[:3]:
            yield from strangers(one, keys, path)
        return
    if not isinstance(answer, dict) or keys.shared == "{any}":
        return
    shared = SECTIONS[keys.shared] if keys.shared else Keys()
    known = {**shared.inner, **keys.inner}
    for name in known.keys() - answer.keys() - keys.optional - shared.optional:
        yield f"{path}.{name} is documented and not printed"
    for name, value in answer.items():
        child = known.get(name, keys.others)
        if child is None:
            yield f"{path}.{name} is printed and not documented"
        else:
            yield from strangers(value, child, f"{path}.{name}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Measured times and a kept run, for verbs that read them."""
    here = tmp_path_factory.mktemp("json")
    rows = (f"send-recv,,2,{2**power},{1e-5 + 2**power / 1e9}" for power in range(6, 24, 3))
    (here / "rows.csv").write_text("\n".join(["op,algorithm,ranks,size_B,time_s", *rows]) + "\n")
    (here / "run.log").write_text(
        " iteration 1/ 9 | elapsed time per iteration (ms): 900.0 | global batch size: 64 |\n"
    )
    for name, loss in (("run.csv", 2.0), ("other.csv", 2.1)):
        (here / name).write_text(f"step,loss\n1,3.0\n2,{loss}\n3,{loss / 2}\n")
    fewer = (f" iteration {step}/ 40 | elapsed time per iteration (ms): 100.0 |\n" for step in range(1, 9))
    (here / "fewer.log").write_text(f"using world size: 16\n{''.join(fewer)}using world size: 8\n iteration 6/ 40 |\n")
    columns, steps = "rank,step,op,start_s,duration_s,stage", (0, 1, 2, 3)
    ops = (f"{rank},{step},{op},{step + at},0.3,0" for step in steps for rank in (0, 1)
           for op, at in (("forward", 0.1 * rank), ("all-reduce", 0.5)))  # fmt: skip
    (here / "ops.csv").write_text("\n".join([columns, *ops]) + "\n")
    with RunStore(here / "runs").start("train", {"method": "synchronous", "ranks": 2}) as kept:
        kept.record(step=0, loss=1.0)
        kept.finish({"final_loss": 1.0})
    return here


@pytest.mark.parametrize("title", SAMPLES)
def test_the_json_reference_lists_every_printed_key(title: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("LOCKSTEP_RUNS", raising=False)
    for words in SAMPLES[title]:
        session = run(*words, "--json")
        assert sorted(set(strangers(session.json(), SECTIONS[title]))) == []


def test_every_verb_has_a_section_in_the_json_reference() -> None:
    assert set(VERBS) - {"estimate"} <= SECTIONS.keys()
    assert SECTIONS.keys() - SAMPLES.keys() == PROCESSES | {
        "Layout",
        "Interval",
        "Memory",
        "Machine",
        "Timeline",
        "Pair",
    }
