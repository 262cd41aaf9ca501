"""Every reader refuses at once what is no file of its size: pipes, devices, folders, sockets, paths that cannot be."""

from __future__ import annotations

import gzip
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_runner import run
from lockstep.base.documents.files import open_file, open_folder, read_bytes, read_text
from lockstep.base.errors import BadInput


class Waited(BaseException):
    """Of a kind that no reader takes for an error of the file."""


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    """A reader that waits fails its test."""

    def stop(number: int, frame: Any) -> None:
        raise Waited

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def link_to_pipe(folder: Path) -> Path:
    (folder / "link").symlink_to(pipe(folder))
    return folder / "link"


def loop(folder: Path) -> Path:
    (folder / "loop").symlink_to(folder / "loop")
    return folder / "loop"


def listening(folder: Path) -> Path:
    # The name of a socket may be 107 bytes long, which a folder of pytest often is.
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as made:
        made.bind(f"{short}/s")
        os.rename(f"{short}/s", folder / "socket")
    return folder / "socket"


NO_FILES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "pipe": (pipe, "is a named pipe, not a file"),
    "link to a pipe": (link_to_pipe, "is a named pipe, not a file"),
    "endless device": (lambda folder: Path("/dev/zero"), "is a device, not a file"),
    "null device": (lambda folder: Path(os.devnull), "is a device, not a file"),
    "socket": (listening, "is a socket, not a file"),
    "folder": (lambda folder: folder, "is a folder, not a file"),
    "nothing": (lambda folder: folder / "none", "there is no such file"),
    "below a file": (lambda folder: Path(__file__) / "x", "cannot be read: Not a directory"),
    "too long a name": (lambda folder: folder / ("x" * 300), "cannot be read: File name too long"),
    "loop of links": (loop, "cannot be read: Too many levels of symbolic links"),
    "null byte": (lambda folder: folder / "a\0b", "cannot be read: .*embedded null"),
    "half a letter": (lambda folder: folder / "\ud800", "cannot be read"),
}


@pytest.mark.parametrize(("make", "message"), NO_FILES.values(), ids=list(NO_FILES))
def test_non_regular_files_are_refused_by_name(make: Callable[[Path], Path], message: str, tmp_path: Path) -> None:
    path = make(tmp_path)
    with pytest.raises(BadInput, match=message) as refused:
        open_file(path)
    assert refused.value.where == str(path)


def test_a_file_is_read_up_to_its_limit_through_links(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfabc")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_text(tmp_path / "link", 6) == "abc"
    assert read_bytes(str(tmp_path / "file"), 6) == b"\xef\xbb\xbfabc"
    with pytest.raises(BadInput, match="larger than the 5 B allowed"):
        read_bytes(tmp_path / "file", 5)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch(mode=0)
    with pytest.raises(BadInput, match="cannot be read: Permission denied"):
        open_file(tmp_path / "file")


def test_only_real_folders_are_opened_and_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    os.close(open_folder(tmp_path))
    for path in (tmp_path / "link", pipe(tmp_path), Path(__file__), tmp_path / "none"):
        with pytest.raises(BadInput):
            open_folder(path)
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(BadInput, match="owned by another user"):
        open_folder(tmp_path)


READERS: dict[str, tuple[str, Callable[[str], tuple[str, ...]]]] = {
    "model": (".yaml", lambda path: ("estimate", path, "-c", "dgx-h100", "--batch", "8")),
    "config": (".json", lambda path: ("estimate", path, "-c", "dgx-h100", "--batch", "8")),
    "cluster": (".yaml", lambda path: ("estimate", "gpt2", "-c", path, "--batch", "8")),
    "case": (".yaml", lambda path: ("case", path)),
    "campaign": (".yaml", lambda path: ("campaign", "gpt2", "-c", path, "--batch", "8", "--tokens", "1B")),
    "fit": ("", lambda path: ("fit", path)),
    "trace of times": (".csv", lambda path: ("stragglers", "--workers", "4", "--law", f"trace:{path}")),
    "device": (".yaml", lambda path: ("bench", "device", "--device-file", path)),
    "measured run": (".json", lambda path: ("diagnose", path)),
    "kept run": (".csv", lambda path: ("reproduce", path, path)),
    "several measured runs": (".pickle.gz", lambda path: ("diagnose", path, path)),
}


@pytest.mark.parametrize(("ending", "command"), READERS.values(), ids=list(READERS))
def test_every_verb_refuses_a_pipe_and_an_endless_device_at_once(
    ending: str, command: Callable[[str], tuple[str, ...]], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / f"pipe{ending}")
    (tmp_path / f"zero{ending}").symlink_to("/dev/zero")
    assert "is a named pipe" in run(*command(str(tmp_path / f"pipe{ending}"))).refusal()
    assert "is a device" in run(*command(str(tmp_path / f"zero{ending}"))).refusal()


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="a file whose first bytes cannot be read, on Linux")
@pytest.mark.parametrize("what", [one for one in READERS if one != "device"])
def test_a_failing_read_names_its_file(what: str, tmp_path: Path) -> None:
    ending, command = READERS[what]
    path = tmp_path / f"memory{ending}"
    path.symlink_to("/proc/self/mem")
    said = run(*command(str(path))).refusal()
    assert str(path) in said
    assert "cannot be read: Input/output error" in said


def test_a_read_that_fails_midway_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1 << 20))
    file = open_file(path)
    assert file.read(10) == bytes(10)
    # The descriptor goes, as a disk does: the rest cannot be read.
    os.dup2(os.open(tmp_path, os.O_RDONLY), file.fileno())
    for read in (file.read, lambda: file.read(1 << 19), file.readline):
        with pytest.raises(BadInput, match="cannot be read: Is a directory") as refused:
            read()
        assert refused.value.where == str(path)
    file.close()


def test_the_folder_of_sweeps_must_be_a_folder(tmp_path: Path) -> None:
    for path in (pipe(tmp_path), Path(__file__), tmp_path / "none"):
        assert "is not a folder" in run("ui", "--no-open", "--sweeps", str(path)).refusal()
        assert "is not a folder" in run("sweeps", "list", str(path)).refusal()


def test_a_large_file_of_times_is_refused_by_its_size(tmp_path: Path) -> None:
    with (tmp_path / "times.csv").open("wb") as file:
        file.truncate(4 << 30)
    for command in (("fit",), ("stragglers", "--workers", "4", "--law")):
        given = "trace:" * (len(command) > 1) + str(tmp_path / "times.csv")
        assert "is larger than the" in run(*command, given).refusal()


def test_a_compressed_trace_is_limited_by_its_uncompressed_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lockstep.simulate.program import read_trace, trace

    monkeypatch.setattr(trace, "MOST_B", 1000)
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(b" " * 5000))
    with pytest.raises(BadInput, match="allowed for an unpacked trace"):
        read_trace(tmp_path / "t.json.gz")
    with pytest.raises(BadInput, match="named pipe"):
        read_trace(pipe(tmp_path))


def test_pipes_and_links_named_like_a_run_folder_do_not_block_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lockstep.run.launch.server import PREFIX, run_folder

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = tmp_path / "kept"
    kept.mkdir()
    os.mkfifo(tmp_path / f"{PREFIX}pipe")
    (tmp_path / f"{PREFIX}link").symlink_to(kept)
    (tmp_path / f"{PREFIX}dead").mkdir()
    with run_folder() as folder:
        assert folder.is_dir()
        assert not (tmp_path / f"{PREFIX}dead").exists()
    assert kept.is_dir()
    assert (tmp_path / f"{PREFIX}pipe").is_fifo()


LONG = "a" * 5000
QUESTION = ("estimate", "llama3-8b", "-c", "dgx-h100:1", "--batch", "8,16")


@pytest.mark.parametrize(
    "arguments",
    [
        ("sweeps", "show", LONG),
        ("sweeps", "list", LONG),
        ("diagnose", LONG),
        (*QUESTION, "--store", LONG),
        ("runs", "list", "--runs", LONG),
        ("memory", f"llama3-8b@{LONG}", "-c", "dgx-h100:1"),
    ],
    ids=lambda arguments: " ".join(arguments)[:14],
)
def test_a_name_that_is_too_long_for_the_system_is_refused(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).refusal()


def test_files_that_reference_too_long_names_are_answered(tmp_path: Path) -> None:
    tune, plan = tmp_path / "tune.yaml", tmp_path / "plan.yaml"
    tune.write_text(f"base_model: meta-llama/Meta-Llama-3-8B\nmicro_batch_size: 1\ndeepspeed: {LONG}.json\n")
    plan.write_text(f"schema: 1\nkind: plan\nmodel: {LONG}\ncluster: dgx-h100:1\nquestion: {{batch: 8}}\nlayout: {{}}")
    told = " ".join(run("memory", str(tune), "-c", "dgx-h100:1").out.split())
    assert "not modelled: states sharded as another file says" in told
    assert run("estimate", str(plan)).refusal()
