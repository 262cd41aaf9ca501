"""Standard output that is full, closed, or read by somebody who leaves: said or not, and never another exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli_runner import run
from lockstep.base.errors import LONGEST, BadInput, brief

COMMAND = (sys.executable, "-c", "from lockstep.show.cli import main; main()")
YES = ("collective", "all-reduce", "--ranks", "8", "--size", "1MB", "--latency", "1us", "--bandwidth", "1GB/s")
NO = ("memory", "gpt3-175b", "-c", "dgx-a100-80gb:1", "--batch", "8", "--tp", "8")
BAD = ("memory", "gpt3-175b", "-c", "dgx-a100-80gb:0", "--batch", "8")
CODES = {YES: 0, NO: 1, BAD: 2}


@pytest.mark.parametrize(
    ("arguments", "form"), [(YES, ()), (NO, ()), (NO, ("--json",)), (BAD, ())], ids=["yes", "no", "json", "bad"]
)
def test_a_closed_reader_does_not_change_the_exit_code(arguments: tuple[str, ...], form: tuple[str, ...]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    made = subprocess.run([*COMMAND, *arguments, *form], stdout=theirs, stderr=subprocess.PIPE, text=True, check=False)
    os.close(theirs)
    assert made.returncode == CODES[arguments]
    assert made.stderr.count("\n") == (made.returncode == 2)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is of Linux")
@pytest.mark.parametrize("arguments", [(*YES, "--json"), ("catalog",), ("--help",)])
def test_an_answer_lost_to_a_full_disk_is_reported(arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        made = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (made.returncode, made.stderr) == (
        2, "error: stdout: the answer cannot be written: No space left on device\n",
    )  # fmt: skip


def test_an_answer_for_a_closed_stdout_is_reported() -> None:
    made = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, *YES], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (made.returncode, made.stderr) == (2, "error: stdout: the answer cannot be written: Bad file descriptor\n")


def test_output_is_flushed_when_the_streams_are_restored() -> None:
    body = (
        "import os, sys; from lockstep.show.cli.streams import standard_streams\n"
        "with standard_streams():\n"
        " kept = sys.stdout, sys.stderr\n"
        " print('said', end=''); print('warned', end='', file=sys.stderr)\n"
        "os._exit(0)"
    )
    made = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, check=True)
    assert (made.stdout, made.stderr) == ("said", "warned")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is of Linux")
@pytest.mark.parametrize(("arguments", "closing"), [(YES, "2>&-"), (BAD, "2>&-"), (BAD, "2>/dev/full")])
def test_a_full_stderr_does_not_change_the_exit_code(arguments: tuple[str, ...], closing: str) -> None:
    command = ["sh", "-c", f'exec "$@" {closing}', "sh", *COMMAND, *arguments]
    made = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert made.returncode == CODES[arguments]
    assert bool(made.stdout) is (made.returncode < 2)


@pytest.mark.parametrize("plot", ["none/x.svg", "x.gif", "folder.svg", "pipe.svg", "y" * 300 + ".svg"])
def test_the_plot_path_is_checked_before_anything_is_computed(
    plot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstep.check.validation.cases.survey", lambda *_: pytest.fail("computed first"))
    (tmp_path / "folder.svg").mkdir()
    os.mkfifo(tmp_path / "pipe.svg")
    assert run("case", "--plot", str(tmp_path / plot)).refusal().startswith("--plot: ")


def test_a_picture_on_a_full_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    plot = str(tmp_path / "x.svg")
    command = ("crossover", "all-reduce", "--ranks", "8", "--latency", "1us", "--bandwidth", "1GB/s", "--plot", plot)
    assert run(*command).refusal() == f"--plot: cannot write '{plot}': No space left on device"


def test_an_unknown_backend_of_matplotlib_is_named(tmp_path: Path) -> None:
    made = subprocess.run(
        [*COMMAND, "crossover", "all-reduce", "--ranks", "8", "--latency", "1us", "--bandwidth", "1GB/s", "--plot",
         str(tmp_path / "x.svg")],
        env={**os.environ, "MPLBACKEND": "nonsense"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 2
    assert made.stderr.startswith("error: MPLBACKEND: ")
    assert "nonsense" in made.stderr
    assert made.stderr.count("\n") == 1


LONG = "x" * 100_000
LONG_VALUES = (
    ("--order", LONG), ("--dtype", LONG), ("--plot", f"{LONG}.svg"), ("--seq", "1 " * 50_000), ("--cluster", LONG),
    ("--schedule", LONG), ("--optimizer", LONG), ("--offload", LONG), ("--recompute", LONG), ("--batch", LONG),
    ("--zero", LONG),
)  # fmt: skip


@pytest.mark.parametrize(("flag", "value"), LONG_VALUES, ids=[flag for flag, _ in LONG_VALUES])
def test_error_messages_shorten_long_values(flag: str, value: str) -> None:
    words = {"--cluster": "dgx-h100", "--batch": "8", flag: value}
    said = run("estimate", "gpt2", *(f"{name}={text}" for name, text in words.items())).refusal()
    assert len(said) < 2000
    assert value[: LONGEST - 10] in said


@pytest.mark.parametrize("arguments", [("fit", LONG), ("case", LONG), (LONG,), ("plan", f"--{LONG}")])
def test_error_messages_shorten_long_names(arguments: tuple[str, ...]) -> None:
    assert len(run(*arguments).refusal()) < 2000


def test_brief_keeps_readable_text_unchanged() -> None:
    short = f"unknown name '{'x' * 290}'; did you mean y?"
    assert brief(short) == short
    assert str(BadInput("m" * 301, f"--flag {LONG}")) == f"--flag {'x' * LONGEST}...: {'m' * LONGEST}..."
    assert brief(f"no '{LONG}'; try y") == f"no '{'x' * (LONGEST - 1)}...'; try y"
    ends = brief("begin " + "a b " * 10_000 + "end")
    assert ends.startswith("begin")
    assert ends.endswith("end")
    assert len(ends) < 1600
