"""What is left when launcher or server are killed at a bad moment, and what the server and the ranks do not import."""

from __future__ import annotations

import errno
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path

import pytest

from lockstep.base.errors import BadInput
from lockstep.run.launch import launch, server
from lockstep.run.launch.keeper import descendants
from lockstep.run.launch.launch import warm_up

from . import workers
from .test_launch import alive, within

ROOT = Path(__file__).parents[2]
linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
TALKING = """
from tests.measure import idle_workers
from lockstep.base.errors import BadInput
from lockstep.run.launch import launch

if __name__ == "__main__":
    launch(idle_workers.talks, 2, backend=None, on_message=lambda rank, message: print(message, flush=True))
"""
# Whoever starts the tests in the background leaves SIGINT ignored, which children inherit.
IDLE = """
import signal
from lockstep.run.launch.launch import warm_up

signal.signal(signal.SIGINT, signal.default_int_handler)
warm_up()
print("ready", flush=True)
signal.pause()
"""
UNGUARDED = """
import lockstep

print(lockstep.execute("all-reduce", ranks=2, size="1KB").to_dict())
"""


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where a launcher's temporary files go; pytest's own paths are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="ls-") as folder:
        yield Path(folder)


def started(text: str, folder: Path, temporary: Path) -> subprocess.Popen[str]:
    """A launcher that runs `text` in `folder`."""
    script = folder / "job.py"
    script.write_text(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    return subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
        env={**environment, "TMPDIR": str(temporary)},
    )  # fmt: skip


@linux
def test_ranks_of_a_killed_launcher_leave_no_file_and_print_nothing(tmp_path: Path, temporary: Path) -> None:
    parent = started(TALKING, tmp_path, temporary)
    assert parent.stdout
    assert {parent.stdout.readline() for _ in range(200)} == {"0\n", "1\n"}
    below = descendants([parent.pid])
    parent.kill()
    _, said = parent.communicate(timeout=900)
    assert said == ""
    assert within(30, lambda: not any(alive(pid) for pid in below))
    assert within(30, lambda: not list(temporary.iterdir()))


@linux
def test_a_launcher_killed_between_its_runs_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    parent = started(IDLE, tmp_path, temporary)
    assert parent.stdout
    assert parent.stdout.readline() == "ready\n"
    below = descendants([parent.pid])
    assert list(temporary.iterdir())
    parent.kill()
    parent.communicate(timeout=900)
    assert within(30, lambda: not any(alive(pid) for pid in below))
    assert within(30, lambda: not list(temporary.iterdir()))


@linux
def test_leftovers_of_launcher_and_server_are_removed_by_the_next_run(tmp_path: Path, temporary: Path) -> None:
    parent = started(IDLE, tmp_path, temporary)
    assert parent.stdout
    parent.stdout.readline()
    for pid in (parent.pid, *descendants([parent.pid])):
        os.kill(pid, signal.SIGKILL)
    parent.communicate(timeout=900)
    assert list(temporary.iterdir())
    second = started(IDLE, tmp_path, temporary)
    assert second.stdout
    second.stdout.readline()
    second.send_signal(signal.SIGINT)
    second.communicate(timeout=900)
    assert within(30, lambda: not list(temporary.iterdir()))


@linux
def test_a_killed_server_is_replaced() -> None:
    warm_up()
    first = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    os.kill(first, signal.SIGKILL)
    assert within(30, lambda: not alive(first))
    assert launch(workers.alone, 2, backend=None, threads=1) == [(0, False, 1), (1, False, 1)]


def test_ranks_do_not_import_from_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    # As the command `lockstep` is: a script in another folder.
    (tmp_path / "bin" / "command").write_text(
        "from lockstep.show.cli import main\n\nif __name__ == '__main__':\n    main()\n"
    )
    for name in ("bisect", "random", "numpy", "lockstep"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('of the user')")
    command = [sys.executable, str(tmp_path / "bin" / "command"), "execute", "all-reduce", "--ranks", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    environment.pop("PYTHONSAFEPATH", None)
    made = subprocess.run(
        [*command, "--size", "1KB"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (made.returncode, made.stderr) == (0, "")


def test_ranks_keep_the_paths_of_the_user(tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "mine.py").write_text("import os\n\ndef work(rank): return os.environ.get('PYTHONSAFEPATH')\n")
    text = "import mine\nfrom lockstep.run.launch import launch\n\nif __name__ == '__main__':\n"
    parent = started(f"{text}    print(launch(mine.work, 2, backend=None))\n", tmp_path, temporary)
    assert parent.communicate(timeout=900) == (f"{[os.environ.get('PYTHONSAFEPATH')] * 2}\n", "")


def test_a_script_without_a_main_guard_gets_an_explanation(tmp_path: Path, temporary: Path) -> None:
    parent = started(UNGUARDED, tmp_path, temporary)
    out, said = parent.communicate(timeout=900)
    assert (parent.returncode, out) == (1, "")
    assert said.count("Traceback") == 1
    last = said.strip().splitlines()[-1]
    assert last.startswith(f"lockstep.base.errors.BadInput: {tmp_path / 'job.py'}: every rank imports this script")
    assert 'if __name__ == "__main__":' in last
    assert within(30, lambda: not list(temporary.iterdir()))


NEEDED = ("pathlib.Path.write_bytes", "multiprocessing.forkserver.ensure_running", "tempfile.mkdtemp")


@pytest.mark.parametrize("needed", NEEDED)
def test_a_full_temporary_folder_is_reported(needed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    warm_up()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(needed, full)
    with pytest.raises(BadInput, match="TMPDIR: no temporary files can be made: No space left on device"):
        launch(workers.alone, 1, backend=None)


@pytest.mark.parametrize(
    ("set_to", "inherited"), [("for the server", None), ("1", "1"), (None, None)], ids=["ours", "the user's", "none"]
)
def test_the_server_clears_only_its_own_environment_variables(
    set_to: str | None, inherited: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ranks inherit PYTHONSAFEPATH as the user has set it; at its end it removes the folder that it was told."""
    last: list[tuple[object, ...]] = []
    monkeypatch.setattr("atexit.register", lambda *call: last.append(call))
    monkeypatch.setenv("LOCKSTEP_SERVER_FOLDER", str(tmp_path))
    if set_to is None:
        monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONSAFEPATH", set_to)
    found = runpy.run_path(str(server.__file__))
    assert os.environ.get("PYTHONSAFEPATH") == inherited
    assert "LOCKSTEP_SERVER_FOLDER" not in os.environ
    assert last == [(found["_remove"], tmp_path)]
    runpy.run_path(str(server.__file__))
    assert len(last) == 1, "a process that is not the server removes nothing"
