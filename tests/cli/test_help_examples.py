"""What --help shows works as shown: every example answers, and nothing in its tables is cut at 80 columns."""

from __future__ import annotations

import shlex
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
import typer

from cli_runner import run
from console_blocks import blocks, session
from effort import share
from lockstep.show.cli.app import build
from lockstep.show.verbs import VERBS

REAL = {
    "capture",
    "execute",
    "bench",
    "fit",
    "calibrate",
    "rig",
    "train",
    "reproduce",
    "runs",
    "ui",
    "diagnose",
    "watch",
    "sweeps",
}
"""Verbs whose examples start processes, serve until they are stopped, or need what such a run left behind."""
LISTS = {"catalog", "case", "stack", "validate"}
"""Verbs with columns of prose that are cut on purpose, as --json has them in full."""
SHORTER = {"60s": "3s"}
"""Time that all claims may take here: each of them is decided by `tests/evidence`."""
CONFIG = Path(__file__).parents[1] / "workload" / "configs" / "phi3-mini.json"
CAPTURE = Path(__file__).parents[2] / "examples" / "pretrain.capture"


def _examples() -> list[str]:
    command = typer.main.get_command(build([verb for verb in VERBS if verb not in REAL]))
    assert isinstance(command, typer.core.TyperGroup)
    lines = [line for one in command.commands.values() for line in (one.epilog or "").splitlines()]
    return [line for line in lines if line.startswith("lockstep ")]


EXAMPLES = _examples()
ON_PAGES = {f"lockstep {one.command}" for _, language, body in blocks() if (one := session(language, body))}
"""What the documentation shows with its output, which its own tests run."""
ALONE = [example for example in EXAMPLES if example not in ON_PAGES]
FIRST = list({example.split()[1]: example for example in reversed(ALONE)}.values())
"""Of every verb."""


@pytest.mark.parametrize("example", [*FIRST, *share([one for one in ALONE if one not in FIRST], 4)])
def test_every_help_example_runs(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    shutil.copy(CONFIG, "config.json")
    for name in ("step.capture", "other.capture"):
        shutil.copy(CAPTURE, name)
    words = [SHORTER.get(word, word) for word in shlex.split(example)[1:]]
    if "plan.yaml" in words and "-o" not in words:
        run("plan", "llama3-8b", "-c", "dgx-h100:2", "--batch", "64", "--seq", "4096", "-o", "plan.yaml")
    if "--check" in words:
        Path("mine.csv").write_text(run("claims", "C.4", "--seed", "7", "--solutions", "--json").json()["sheet"]["csv"])
    answer = run(*words)
    assert answer.code == 0, answer.out + answer.err
    if "--json" in words:
        assert answer.json()
    elif words[0] not in LISTS:
        whole = answer.out.partition("\nLeft out")[0]
        assert "…" not in whole
    for flag, file in pairwise(words):
        assert flag not in ("--plot", "--trace", "-o") or Path(file).stat().st_size


def test_every_verb_shows_one() -> None:
    assert {example.split()[1] for example in EXAMPLES} == set(VERBS) - REAL
