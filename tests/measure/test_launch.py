"""The launcher: values come back, every way to die is named with rank, point and reason, and nothing stays behind."""

import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import product
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from effort import share
from lockstep.base.errors import BadInput
from lockstep.run.launch import Fault, Host, RunFailed, launch, place
from lockstep.run.launch.failure import from_exception
from lockstep.run.launch.keeper import descendants, kill_all
from lockstep.run.launch.mail import LENGTH, Inbox, post
from lockstep.run.launch.place import first_node
from lockstep.run.launch.points import Board, in_words, point
from lockstep.run.launch.server import run_folder
from lockstep.run.launch.watch import Running, end

from . import workers

LIMIT_S = 900.0
"""Of a wait that ends as soon as what is waited for happens, however busy the machine is."""


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not, where that can be told."""
    try:
        if sys.platform != "linux":
            os.kill(pid, 0)
            return True
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_values_are_returned_by_rank_and_messages_as_they_arrive(ranks: int) -> None:
    heard: list[int] = []
    found = launch(workers.sums, ranks, (5,), timeout_s=LIMIT_S, on_message=lambda rank, message: heard.append(rank))
    total = float(sum(5 + rank for rank in range(ranks)) * ranks)
    assert found == [(rank, total, str(rank)) for rank in range(ranks)]
    assert sorted(heard) == list(range(ranks))


def test_workers_run_without_a_process_group() -> None:
    assert launch(workers.alone, 2, backend=None, threads=1) == [(0, False, 1), (1, False, 1)]


POINTS = ("in_worker_import", "before_rendezvous", "before_work", "mid_all_reduce:1")
DEATHS = {"kill": "killed by SIGKILL", "exit": "exited early with code 0", "raise": "injected at"}


@pytest.mark.parametrize(
    ("action", "name", "ranks", "victim"),
    [
        (action, name, ranks, victim)
        for place, (action, name) in enumerate(product(DEATHS, POINTS))
        for ranks, victim in share([(2, 0), (3, 2)], 2, place + place // len(POINTS))
    ],
)
def test_every_death_names_rank_point_and_reason(action: str, name: str, ranks: int, victim: int) -> None:
    with pytest.raises(RunFailed) as caught:
        launch(workers.sums, ranks, (1,), timeout_s=LIMIT_S, faults=[Fault(victim, name, action)])
    first = caught.value.failures[0]
    assert (first.rank, first.point) == (victim, name)
    assert DEATHS[action] in first.reason
    assert str(caught.value).startswith(f"rank {victim} ")
    assert in_words(name) in str(caught.value).partition(";")[0]


def test_the_message_of_a_killed_rank_names_signal_and_point() -> None:
    with pytest.raises(
        RunFailed, match=r"^rank 1 killed by SIGKILL during all-reduce step 1; then rank 0 failed during"
    ) as caught:
        launch(workers.sums, 2, (1,), timeout_s=LIMIT_S, faults=[Fault(1, "mid_all_reduce:1", "kill")])
    # What gloo says happened is kept; where in its source, and its advice, are not.
    assert re.search(r"RuntimeError: [A-Z][^\[]*\[127\.0\.0\.1\]", str(caught.value))
    assert "gloo/" not in str(caught.value)
    assert "GLHF" not in str(caught.value)


@pytest.mark.parametrize(
    "said",
    [
        "Connection closed by peer [127.0.0.1]:18115. This is typically caused by a remote worker crashing. Check the "
        "logs of the remote worker before reporting an error. GLHF! 🏖️",
        "Read error [127.0.0.1]:4: Connection reset by peer. This is typically caused by a remote worker hanging or "
        "bugs in the application. Check the logs of the remote worker before reporting an error. GLHF! 🏖️",
        "Timed out waiting 3000ms for recv operation to complete",
    ],
)
def test_gloo_errors_are_shortened_to_the_cause(said: str) -> None:
    error = RuntimeError(f"[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] {said}")
    found = from_exception(0, error, "mid_all_reduce:1", "")
    assert found.reason == f"RuntimeError: {said.partition(' This is')[0]}"
    assert found.cause in ("cut off", "timed out")


def test_a_stopped_rank_is_blamed_for_the_timeouts_of_the_others() -> None:
    with pytest.raises(RunFailed, match=r"^rank 1 stopped by a signal during all-reduce step 1; then rank 0 failed"):
        launch(workers.hasty, 2, timeout_s=LIMIT_S, faults=[Fault(1, "mid_all_reduce:1", "stop")])


def test_a_stopped_single_rank_is_blamed() -> None:
    with pytest.raises(RunFailed, match=r"^rank 0 stopped by a signal before work"):
        launch(workers.alone, 1, backend=None, timeout_s=0.5, faults=[Fault(0, "before_work", "stop")])


def test_the_deadline_names_who_did_not_return(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock passes the deadline when rank 0 has returned and rank 1 has said so often that it works."""
    later_s, returned, heard = [0.0], list[int](), list[int]()
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + later_s[0])
    monkeypatch.setattr(import_module("lockstep.run.launch.watch"), "time", clock)

    def hear(rank: int, message: Any) -> None:
        if rank == 0:
            returned.append(message)
        elif returned and not alive(returned[0]):
            heard.append(rank)
            later_s[0] = LIMIT_S * (len(heard) - 1)

    with pytest.raises(RunFailed, match=r"^rank 1 did not return within 900 s; it was during step 7"):
        launch(workers.stuck, 2, backend=None, deadline_s=LIMIT_S, on_message=hear)


def test_leaving_by_sys_exit_is_early() -> None:
    with pytest.raises(RunFailed, match=r"^rank 1 exited early with code 0 during all-reduce step 0"):
        launch(workers.leaves, 2, timeout_s=LIMIT_S)


def test_a_value_that_does_not_pickle_is_a_failure_of_its_rank() -> None:
    with pytest.raises(RunFailed, match=r"^rank 0 failed before work: AttributeError: Can't pickle local object"):
        launch(workers.unpicklable, 1, backend=None)


def test_workers_that_cannot_be_sent_are_refused() -> None:
    with pytest.raises(BadInput, match="give a function of a module"):
        launch(lambda rank: None, 1)
    for ranks in (0, 257, True):
        with pytest.raises(BadInput, match="one machine starts"):
            launch(workers.alone, ranks)
    with pytest.raises(BadInput, match="one for all, or one each"):
        launch(workers.alone, 3, hosts=[Host(), Host()])
    with pytest.raises(BadInput, match="is not one of gloo"):
        launch(workers.alone, 1, backend="mpi")


def test_a_missing_network_namespace_is_reported() -> None:
    with pytest.raises(RunFailed, match="cannot enter network namespace 'nowhere-at-all'"):
        launch(workers.alone, 1, backend=None, hosts=[Host(namespace="nowhere-at-all")])


def within(deadline_s: float, true: Callable[[], bool]) -> bool:
    """Whether it becomes true in time."""
    until_s = time.monotonic() + deadline_s
    while not (found := true()) and time.monotonic() < until_s:
        time.sleep(0.02)
    return found


PARENT = """
import sys
from tests.measure import idle_workers
from lockstep.run.launch import launch

if __name__ == "__main__":
    launch(idle_workers.sleeper, 2, timeout_s=60, on_message=lambda rank, pids: print(*pids, flush=True))
"""


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where the launcher's temporary files go; pytest's own paths are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="ls-") as folder:
        yield Path(folder)


@pytest.fixture
def sleeping(tmp_path: Path, temporary: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A launcher whose two ranks sleep for ever, and the processes below it: each rank and its two children."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), str(root / "src")])
    started = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(temporary)},
    )  # fmt: skip
    assert started.stdout
    pids = [int(word) for _ in range(2) for word in started.stdout.readline().split()]
    yield started, pids
    for pid in (started.pid, *pids):
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
    started.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_survives_the_death_of_the_launcher(
    sleeping: tuple[subprocess.Popen[str], list[int]], number: signal.Signals, temporary: Path
) -> None:
    parent, pids = sleeping
    below = descendants([parent.pid])
    assert len(pids) == 6
    assert set(pids) < set(below), "server and guard are below it too"
    parent.send_signal(number)
    # Standard output closes when the last process that holds it has ended.
    parent.communicate(timeout=900)
    assert within(30, lambda: not any(alive(pid) for pid in below))
    assert within(30, lambda: not list(temporary.iterdir()))


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_nothing_survives_launcher_and_server(sleeping: tuple[subprocess.Popen[str], list[int]]) -> None:
    parent, _ = sleeping
    below = descendants([parent.pid])
    os.kill(parent.pid, signal.SIGSTOP)
    kill_all(pid for pid in below if os.getpgid(pid) == os.getpgid(parent.pid))
    parent.kill()
    assert within(30, lambda: not any(alive(pid) for pid in below))


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_no_rank_survives_its_supervisor(sleeping: tuple[subprocess.Popen[str], list[int]]) -> None:
    parent, pids = sleeping
    keeper = int(Path(f"/proc/{pids[0]}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    assert parent.wait(60) != 0
    # Nobody knows any more whose the child in a session of its own is.
    assert within(30, lambda: not any(alive(pid) for pid in (*pids[:2], *pids[3:])))


def test_nothing_survives_a_killed_rank(sleeping: tuple[subprocess.Popen[str], list[int]], temporary: Path) -> None:
    parent, pids = sleeping
    os.kill(pids[0], signal.SIGKILL)
    _, said = parent.communicate(timeout=900)
    assert parent.returncode != 0
    assert re.search(r"RunFailed: rank \d killed by SIGKILL before work", said)
    assert not any(alive(pid) for pid in pids)
    assert not list(temporary.iterdir())


def test_folders_of_dead_launchers_are_removed_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dead, foreign = tmp_path / "lockstep-run-dead", tmp_path / "something-else"
    for folder in (dead, foreign):
        folder.mkdir()
        (folder / "points").write_text("x")
    with run_folder() as first, run_folder() as second:
        assert first.exists(), "the second launch sweeps, the first is held"
        assert {first, second, foreign} == set(tmp_path.iterdir())
    assert [foreign] == list(tmp_path.iterdir())


def test_a_temporary_folder_too_long_for_sockets_is_refused(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    command = [sys.executable, "-m", "lockstep", "execute", "all-reduce", "--ranks", "2", "--size", "1KB"]
    found = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(long)}, check=False
    )  # fmt: skip
    assert found.returncode == 2
    assert re.fullmatch(r"error: TMPDIR: .* is too long a path for sockets; .*\n", found.stderr)


def test_partial_messages_are_buffered() -> None:
    theirs, ours = Pipe(duplex=False)
    inbox = Inbox(theirs)
    assert inbox.read() == []
    post(ours, ("message", 1))
    content = pickle.dumps("x" * 1000)
    os.write(ours.fileno(), LENGTH.pack(len(content)) + content[:500])
    assert inbox.read() == [("message", 1)]
    assert inbox.read() == [], "half a message is none, and nobody waits for the rest"
    os.write(ours.fileno(), content[500:])
    assert inbox.read() == ["x" * 1000]
    os.write(ours.fileno(), LENGTH.pack(10) + b"torn")
    ours.close()
    assert inbox.read() == []
    assert not inbox.open


@pytest.mark.skipif(sys.platform != "linux", reason="whether a process waits is found in /proc")
def test_a_rank_stopped_while_sending_its_value_is_blamed() -> None:
    def stop(rank: int, pid: Any) -> None:
        # While the launcher is here it takes nothing in: the rank waits in the middle of more than a pipe holds.
        state = Path(f"/proc/{pid}/stat")
        assert within(30, lambda: state.read_text().rpartition(")")[2].split()[0] == "S")
        os.kill(pid, signal.SIGSTOP)

    with pytest.raises(RunFailed, match=r"^rank 0 stopped by a signal before work"):
        launch(workers.large, 1, backend=None, timeout_s=0.5, on_message=stop)


def test_rank_and_world_size_are_read_from_torchrun_and_slurm() -> None:
    assert place({}) is None
    assert place({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}) is None, "a batch script is not a step"
    torchrun = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1234"}
    found = place(torchrun)
    assert found is not None
    assert (found.rank, found.ranks, found.local_rank, found.master_port) == (5, 8, 1, 1234)
    slurm = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "77"}
    found = place(slurm | {"SLURM_STEP_NODELIST": "gpu[012-015,20]"})
    assert found is not None
    assert (found.rank, found.ranks, found.local_rank, found.master_address) == (3, 4, 1, "gpu012")
    assert found.master_port == 20_077
    assert [first_node(text) for text in ("a,b", "n[3-4]", "login")] == ["a", "n3", "login"]


STARTED = {"RANK": "5", "WORLD_SIZE": "8", "MASTER_ADDR": "a", "MASTER_PORT": "1234"}
STEPPED = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NODELIST": "a"}


@pytest.mark.parametrize(
    ("known", "name", "value", "why"),
    [
        (STARTED, "RANK", "first", "must be a whole number"),
        (STARTED, "RANK", "8", "WORLD_SIZE sets 8 ranks, numbered from 0; there is no rank 8"),
        (STARTED, "RANK", "-1", "must be a whole number from 0"),
        (STARTED, "RANK", "1" * 5000, "must be a whole number"),
        (STARTED, "WORLD_SIZE", "0", "must be a whole number from 1"),
        (STARTED, "LOCAL_RANK", "", "must be a whole number"),
        (STARTED, "MASTER_PORT", "99999", "from 1 to 65535, got '99999'"),
        (STARTED, "MASTER_PORT", "0", "from 1 to 65535"),
        (STEPPED, "SLURM_STEP_NUM_TASKS", "x", "must be a whole number"),
        (STEPPED, "SLURM_PROCID", "4", "there is no rank 4"),
        (STEPPED, "SLURM_LOCALID", "1.5", "must be a whole number"),
        (STEPPED, "SLURM_JOB_ID", "١", "must be a whole number"),
        (STEPPED, "SLURM_STEP_NODELIST", "[1-2]", "not a list of nodes"),
    ],
)
def test_an_invalid_environment_variable_is_named(known: dict[str, str], name: str, value: str, why: str) -> None:
    with pytest.raises(BadInput) as caught:
        place(known | {name: value})
    assert caught.value.where == name
    assert why in caught.value.message
    assert len(caught.value.message) < 200


@pytest.mark.parametrize("name", ["no.such.host.invalid", "two words", "x" * 300])
@pytest.mark.parametrize("known", [STARTED | {"RANK": "0", "WORLD_SIZE": "1"}, STEPPED])
def test_an_unknown_master_address_is_refused_before_waiting(
    known: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = "MASTER_ADDR" if known is not STEPPED else "SLURM_STEP_NODELIST"
    for variable, value in (known | {where: name}).items():
        monkeypatch.setenv(variable, value)
    here = place()
    assert here is not None
    with pytest.raises(BadInput, match="is not the name of a host") as caught:
        launch(workers.sums, here.ranks, (5,), timeout_s=600)
    assert caught.value.where == where
    assert len(caught.value.message) < 300


TORCHRUN = """
from tests.measure import workers
from lockstep.run.launch import launch

print(launch(workers.sums, 2, (5,), timeout_s=900, on_message=lambda rank, message: None))
"""


def test_a_worker_gives_the_same_result_under_torchrun(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(TORCHRUN)
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])}
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    found = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, check=True)
    assert found.stdout.count("[(0, 22.0, '0'), (1, 22.0, '1')]") == 2


def test_fault_points_are_free_outside_a_run_and_fit_their_slot(tmp_path: Path) -> None:
    point("mid_anything:1")
    board = Board(tmp_path / "points", 2)
    board.write(1, "x" * 500)
    board.write(0, "mid_reduce_scatter:3")
    assert board.read(1) == "x" * 127
    assert in_words(board.read(0)) == "during reduce-scatter step 3"
    names = ("after_ckpt_tmp", "mid_train_step:2", "mid_step:7", "")
    words = ("after ckpt-tmp", "during train step 2", "during step 7", "before its first point")
    assert tuple(in_words(name) for name in names) == words


class Deaf:
    """A keeper that takes no SIGTERM, as one that is stopped; a join with a limit is over before it ends."""

    def __init__(self) -> None:
        deaf = (
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
        )
        self.child = subprocess.Popen([sys.executable, "-S", "-c", deaf], stdout=subprocess.PIPE)
        self.pid, self.sentinel = self.child.pid, 0
        assert self.child.stdout is not None
        self.child.stdout.readline()

    @property
    def exitcode(self) -> int | None:
        return self.child.returncode

    def join(self, timeout: float | None = None) -> None:
        if timeout is None:
            self.child.wait(10)


def test_a_supervisor_that_does_not_end_is_killed_and_reaped() -> None:
    keeper, (theirs, ours) = Deaf(), Pipe(duplex=False)
    try:
        end([Running(0, keeper, Inbox(theirs))])
        assert keeper.exitcode == -signal.SIGKILL
        assert theirs.closed
    finally:
        keeper.child.kill()
        keeper.child.communicate()
        ours.close()
