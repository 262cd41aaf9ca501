"""Every output is whole or not there: on a full disk, at every byte, and when its writer is killed, at every byte.

The kernel plays the full disk: beyond RLIMIT_FSIZE a write fails, or SIGXFSZ ends the process, in the middle of a file.
"""

from __future__ import annotations

import ast
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lockstep
from cli_runner import run
from fuzz.fuzz_cases import GOOD_CSV
from lockstep.base.documents.files import BESIDE, replacing, write_text
from lockstep.base.errors import BadInput

SOURCE = Path(lockstep.__file__).parent
OLD = b"what was there\n"
ASKED = ("gpt2", "-c", "dgx-a100-40gb", "--batch", "64")
EXAMPLES = Path(__file__).parents[1] / "examples"


@contextmanager
def full_disk(room_B: int, killed: bool = False) -> Iterator[None]:
    """No file grows beyond so many bytes: its writer is told, or killed."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    heard = signal.signal(signal.SIGXFSZ, signal.SIG_DFL if killed else signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room_B, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, heard)


def killed_while(write: Callable[[], object], room_B: int) -> bool:
    """Whether a child of this process that writes is killed by the disk."""
    child = os.fork()
    if not child:
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with full_disk(room_B, killed=True):
                write()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def contents(folder: Path) -> dict[str, bytes]:
    """All files, without those that a killed writer was writing."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not BESIDE.fullmatch(path.name)}


def test_a_full_disk_at_any_byte_keeps_the_old_file(tmp_path: Path) -> None:
    path, text = tmp_path / "out", "0123456789é" * 3
    path.write_bytes(OLD)
    for room_B in range(len(text.encode())):
        with full_disk(room_B), pytest.raises(BadInput, match=r"--out: cannot write .*: File too large"):
            write_text(path, text, "--out")
        assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == {"out": OLD}
    write_text(path, text, "--out")
    assert contents(tmp_path) == {"out": text.encode()}


def test_a_kill_at_any_byte_keeps_the_old_file(tmp_path: Path) -> None:
    path, size_B = tmp_path / "out", 40

    def write() -> None:
        with replacing(path) as file:
            for byte in range(size_B):
                file.write(bytes([byte]))
                file.flush()

    path.write_bytes(OLD)
    for room_B in range(size_B):
        assert killed_while(write, room_B)
        assert contents(tmp_path) == {"out": OLD}
    assert not killed_while(write, size_B)
    assert contents(tmp_path) == {"out": bytes(range(size_B))}


def test_links_and_permissions_are_preserved(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    path, link = tmp_path / "folder" / "out", tmp_path / "link"
    path.write_bytes(OLD)
    path.chmod(0o640)
    link.symlink_to(path)
    write_text(link, "new", "--out")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/null")):
        with pytest.raises(BadInput, match="not a file"):
            write_text(path, "text", "--out")
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_output_in_a_read_only_folder_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(OLD)
    tmp_path.chmod(0o500)
    assert (
        "its folder is read-only" in run("estimate", *ASKED, "--tp", "1,2", "--csv", str(tmp_path / "a.csv")).refusal()
    )
    tmp_path.chmod(0o700)


def sweep(folder: Path) -> str:
    """A file of answers."""
    lockstep.messages(workers=[2, 4], params="1k", store=folder / "kept.sweep")
    return str(folder / "kept.sweep")


OUTPUTS: dict[str, tuple[str, Callable[[str, Path], tuple[str, ...]]]] = {
    "plan -o": ("o.yaml", lambda out, _: ("plan", *ASKED, "-o", out)),
    "plan --export": ("o.sh", lambda out, _: ("plan", *ASKED, "--for", "megatron", "--export", out)),
    "--csv": ("o.csv", lambda out, _: ("estimate", *ASKED, "--tp", "1,2", "--csv", out)),
    "--csv, Parquet": ("o.parquet", lambda out, _: ("estimate", *ASKED, "--tp", "1,2", "--csv", out)),
    "--html": ("o.html", lambda out, _: ("estimate", *ASKED, "--html", out)),
    "--plot, svg": ("o.svg", lambda out, _: ("messages", "--workers", "8", "--params", "1M", "--plot", out)),
    "--plot, png": ("o.png", lambda out, _: ("messages", "--workers", "8", "--params", "1M", "--plot", out)),
    "--plot, pdf": ("o.pdf", lambda out, _: ("messages", "--workers", "8", "--params", "1M", "--plot", out)),
    "--card": ("o.png", lambda out, _: ("messages", "--workers", "8", "--params", "1M", "--card", out)),
    "estimate --trace": ("o.json.gz", lambda out, _: ("estimate", *ASKED, "--trace", out)),
    "trace -o": ("o.json", lambda out, _: ("trace", "pipeline", "--stages", "2", "--microbatches", "4", "-o", out)),
    "trace --as kineto": (
        "rank0.json.gz",
        lambda out, _: ("trace", "all-reduce", "--ranks", "2", "--size", "1MB", "--latency", "5us", "--bandwidth",
                        "25GB/s", "--as", "kineto", "-o", str(Path(out).parent)),
    ),
    "report -o": ("o.html", lambda out, _: ("report", *ASKED, "-o", out)),
    "calibrate -o": (
        "o.yaml",
        lambda out, _: ("calibrate", "-c", "dgx-h100", "--case", str(EXAMPLES / "steps-8.yaml"), "-o", out),
    ),
    "fit -o": (
        "o.yaml",
        lambda out, given: ("fit", str(good(given)), "-c", "dgx-a100-40gb", "--level", "node", "-o", out),
    ),
    "claims --handout": ("o.md", lambda out, _: ("claims", "C.4", "--handout", out)),
    "sweeps export": ("o.csv", lambda out, given: ("sweeps", "export", sweep(given), "-o", out)),
}  # fmt: skip
"""By option: the name of the file, and a command that writes it; it may make files of its own in another folder."""


def good(folder: Path) -> Path:
    """A benchmark to fit."""
    (folder / "good.csv").write_text(GOOD_CSV)
    return folder / "good.csv"


@pytest.mark.parametrize("output", OUTPUTS)
def test_no_output_option_leaves_a_partial_file(output: str, tmp_path: Path) -> None:
    name, command = OUTPUTS[output]
    folder, given = tmp_path / "out", tmp_path / "given"
    folder.mkdir()
    given.mkdir()
    words = command(str(folder / name), given)
    assert run(*words).code == 0
    fresh = contents(folder)
    for path in folder.iterdir():
        path.write_bytes(OLD)
    for room_B in (len(fresh[name]) // 2, len(fresh[name]) - 1):
        with full_disk(room_B):
            session = run(*words)
        assert session.code == 2
        assert "cannot write" in session.err
        # Of several files, the smaller ones may be written by then.
        assert contents(folder).keys() == fresh.keys() == {path.name for path in folder.iterdir()}
        assert all(found in (OLD, fresh[one]) for one, found in contents(folder).items())
        assert contents(folder)[name] == OLD
    assert killed_while(lambda: run(*words), len(fresh[name]) // 2)
    assert contents(folder)[name] == OLD


def test_no_saved_answer_leaves_a_partial_file(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_bytes(OLD)
    answer = lockstep.messages(workers=8, params="1M")
    with full_disk(100), pytest.raises(BadInput, match="cannot write"):
        answer.save(path)
    assert contents(tmp_path) == {"a.html": OLD}


ELSEWHERE = {
    "base/documents/files.py": "the function that the others use",
    "base/documents/shipped.py": "parsed tables of the package, kept as Python keeps byte code",
    "base/engines/sweep_file.py": "lines of answers, each with a digest",
    "base/store/event_file.py": "TensorBoard follows it while it grows",
    "base/engines/answering.py": "a pipe",
    "show/cli/streams.py": "the null device",
    "run/rig/namespace.py": "settings of the kernel",
    "run/launch/points.py": "memory that ranks share",
    "run/capture/start.py": "a question in a temporary folder, which a process is asked",
    "run/capture/child.py": "its answer there",
}
"""Where files are written otherwise, and why."""


def writes(call: ast.Call) -> bool:
    """Whether a call opens a file to write, or writes one, by what it is called."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name in ("write_text", "write_bytes"):
        return isinstance(call.func, ast.Attribute)
    modes = [
        one.value for one in (*call.args, *(word.value for word in call.keywords)) if isinstance(one, ast.Constant)
    ]
    return name in ("open", "fdopen") and any(
        isinstance(mode, str) and 0 < len(mode) <= 3 and set(mode) & set("wax+") for mode in modes
    )


def test_outputs_are_written_by_one_function() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(isinstance(node, ast.Call) and writes(node) for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    }
    assert found == set(ELSEWHERE)
