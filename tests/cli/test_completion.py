"""What a shell offers after Tab: names of the catalog and of the registries, by the protocol of the shell."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cli_runner import run
from lockstep.learn.lab import EXPERIMENTS
from lockstep.show.views.parts import completing


def asked(line: str) -> dict[str, str]:
    """What bash puts in the environment for the last word of a command line."""
    return {"_LOCKSTEP_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}


def offered(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What bash is told for the last word of a command line, by this process."""
    for name, value in asked(line).items():
        monkeypatch.setenv(name, value)
    done = run()
    assert (done.code, done.err) == (0, "")
    return done.out.split()


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("lockstep plan llama3-7", {"llama3-70b"}),
        ("lockstep plan llama3-70b --cluster dgx-h10", {"dgx-h100", "dgx-h100:"}),
        ("lockstep plan llama3-70b -c rtx-40", {"rtx-4090", "rtx-4090:"}),
        ("lockstep estimate gpt2 --schedule zb-", {"zb-h1", "zb-h2", "zb-v", "zb-1p", "zb-2p"}),
        ("lockstep pipeline --schedule dual", {"dualpipe", "dualpipe-v"}),
        ("lockstep estimate gpt2 --optimizer adamw-8", {"adamw-8bit"}),
        ("lockstep collective all-", {"all-reduce", "all-gather", "all-to-all"}),
        ("lockstep execute pipe", {"pipeline"}),
        ("lockstep converge delay-st", {"delay-stability"}),
    ],
)
def test_names_are_offered_by_prefix(line: str, some: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found, word = offered(line, monkeypatch), line.rpartition(" ")[2]
    assert some <= set(found)
    assert all(name.startswith(word) for name in found)


def test_completion_in_a_separate_process_offers_the_same_names(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "lockstep plan llama3-7"
    command = [sys.executable, "-m", "lockstep"]
    done = subprocess.run(command, env=os.environ | asked(line), capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.split() == offered(line, monkeypatch)


def test_methods_are_offered_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "zero-1" in offered("lockstep train zero-", monkeypatch)
    assert "zero-1,diloco" in completing.starting(completing.methods)("zero-1,dil")
    assert completing.starting(completing.trainers)("mo") == ["momentum"]


def test_completion_imports_no_heavy_library() -> None:
    lists = "models clusters devices schedules ops methods optimizers trainers experiments"
    code = (
        "import sys; from lockstep.show.views.parts import completing;"
        f"[list(getattr(completing, name)()) for name in {lists.split()}];"
        "print([name for name in ('torch', 'scipy', 'matplotlib', 'simpy') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_every_list_has_names() -> None:
    assert set(EXPERIMENTS) < set(completing.experiments())
    assert "h100-sxm" in completing.devices()
    assert completing.starting(completing.models)("no-such-model") == []


def test_an_estimate_imports_no_readers_of_foreign_formats() -> None:
    code = (
        "import sys; from lockstep.show.cli.app import _run; "
        "_run('estimate llama3-8b -c dgx-h100:1 --batch 8 --tp 2'.split()); "
        "sys.stderr.write(str(sum(name.startswith('lockstep.decide.planner.imports') for name in sys.modules)))"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stderr == "0"
