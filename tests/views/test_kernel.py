"""Answers where notebooks show them: cells in one real Jupyter kernel, beside what the commands print."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

import cli_runner
import lockstep
from lockstep.show.views.parts.notebook import LONGEST, WIDTH

PATIENCE_S = 240.0
Message = dict[str, Any]
Cell = Callable[[str], list[Message]]
"""Runs a cell; all that it put out, in order."""
QUESTION = ("llama3-8b", "--cluster", "dgx-h100:2", "--batch", "64")
LINK = ("--latency", "5us", "--bandwidth", "25GB/s")
ANSWERS: dict[str, tuple[str, ...]] = {
    "plan('llama3-8b', 'dgx-h100:2', batch=64)": ("plan", *QUESTION),
    "estimate('llama3-8b', 'dgx-h100:2', batch=64)": ("estimate", *QUESTION),
    "estimate('llama3-8b', 'dgx-h100:2', batch=[64, 128])": ("estimate", *QUESTION[:-1], "64,128"),
    "memory('llama3-8b', 'dgx-h100:2', batch=64, pp=2)": ("memory", *QUESTION, "--pp", "2"),
    "roofline('llama3-8b', 'dgx-h100:2', batch=64)": ("roofline", *QUESTION),
    "collective('all-reduce', ranks=8, size='1MB', latency='5us', bandwidth='25GB/s')":
        ("collective", "all-reduce", "--ranks", "8", "--size", "1MB", *LINK),
    "pipeline(stages=4, microbatches=8)": ("pipeline", "--stages", "4", "--microbatches", "8"),
    "converge()": ("converge",),
    "converge('delay-stability', {'delays': '0,1,5'})": ("converge", "delay-stability", "--set", "delays=0,1,5"),
    "claims('C.15')": ("claims", "C.15"),
    "catalog('devices')": ("catalog", "devices"),
    "support()": ("support",),
}  # fmt: skip


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelManager]:
    """A kernel of this Python, with nothing of the person who runs the tests."""
    manager = KernelManager(transport="ipc")
    manager.connection_file = str(tmp_path_factory.mktemp("kernel") / "connection.json")
    manager._kernel_spec = KernelSpec(argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"])
    home = str(tmp_path_factory.mktemp("home"))
    manager.start_kernel(env={**os.environ, "IPYTHONDIR": home, "JUPYTER_CONFIG_DIR": home, "COLUMNS": str(WIDTH)})
    try:
        yield manager
    finally:
        manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def cell(kernel: KernelManager) -> Iterator[Cell]:
    client = kernel.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=PATIENCE_S)

    def ran(code: str) -> list[Message]:
        made: list[Message] = []
        client.execute_interactive(code, timeout=PATIENCE_S, output_hook=made.append)
        return [one for one in made if one["msg_type"] not in ("status", "execute_input")]

    assert ran("import lockstep") == []
    yield ran
    client.stop_channels()


def test_rich_detects_a_notebook(cell: Cell) -> None:
    """Without it the tests below would show nothing."""
    (shown,) = cell("import rich.console; rich.console.Console().is_jupyter")
    assert shown["content"]["data"] == {"text/plain": "True"}


@pytest.mark.parametrize("call", ANSWERS)
def test_an_answer_is_the_only_output_of_its_cell_and_reads_like_the_command(
    call: str, cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    printed = cli_runner.run(*ANSWERS[call]).out.strip("\n").partition("\n\n")[0]
    verdict = "\n".join(line.rstrip() for line in printed.splitlines())
    assert verdict
    (output,) = cell(f"answer = lockstep.{call}\nanswer")
    assert output["msg_type"] == "execute_result"
    data = output["content"]["data"]
    assert set(data) == {"text/plain", "text/html"}
    assert data["text/plain"] == (verdict if len(verdict) <= LONGEST else f"{verdict[: LONGEST - 4]} ...")
    assert "<h1>" in data["text/html"] or "<table" in data["text/html"]
    assert cell("text, form, rows = repr(answer), answer.to_dict(), answer.table()") == []
    (output,) = cell("print(text)")
    assert output["content"] == {"name": "stdout", "text": data["text/plain"] + "\n"}


def test_answers_inside_a_list_are_one_output_too(cell: Cell) -> None:
    (output,) = cell("[lockstep.catalog('devices'), lockstep.support()]")
    assert output["content"]["data"]["text/plain"].startswith("[")


def test_a_picture_is_drawn(cell: Cell) -> None:
    """Also where nobody has loaded pyplot, without which Jupyter shows the name of a figure's class."""
    (output,) = cell("lockstep.roofline('llama3-8b', 'dgx-h100:2', batch=64).plot()")
    assert "<svg" in output["content"]["data"]["text/html"]


def test_rich_consoles_write_only_to_their_file() -> None:
    made = re.compile(r"\bConsole\(|\(Console\)")
    files = [path for path in Path(lockstep.__file__).parent.rglob("*.py") if made.search(path.read_text("utf-8"))]
    assert [path.name for path in files] == ["terminal.py"], "FileConsole of show/views/parts/terminal.py"
