"""`launch`: runs one function on every rank and returns what each returned, or raises `RunFailed`."""

from __future__ import annotations

import importlib.util
import os
import pickle
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from lockstep.base.errors import LONGEST, BadInput, LockstepError, RunFailed, not_installed
from lockstep.base.types.plain import Json
from lockstep.run.launch import points
from lockstep.run.launch.failure import from_exception, run_failed
from lockstep.run.launch.mail import Inbox
from lockstep.run.launch.place import Place, place
from lockstep.run.launch.points import Board, Fault
from lockstep.run.launch.rank import BOARD, Host, Orders, Rank, clock_of, join_group, live, unheard
from lockstep.run.launch.server import (
    IMPORTED_AGAIN,
    leave_if_imported_again,
    ranks_context,
    run_folder,
    sockets_folder,
    temporary_files,
)
from lockstep.run.launch.watch import Running, end, watch

if TYPE_CHECKING:
    from torch.distributed import Store

MOST_RANKS = 256
MOST_FOLDER_B = 107 - len("/listener-12345678")  # unix(7): a socket's path has at most 107 bytes
BACKENDS = ("gloo", "nccl", None)


def launch(
    worker: Callable[..., Any],
    ranks: int,
    arguments: Sequence[object] = (),
    *,
    backend: str | None = "gloo",
    timeout_s: float = 60.0,
    deadline_s: float | None = None,
    hosts: Sequence[Host] = (),
    threads: int = 1,
    faults: Sequence[Fault] = (),
    environment: Mapping[str, str] | None = None,
    on_message: Callable[[int, Any], None] | None = None,
) -> list[Any]:
    """`worker(rank, *arguments)` on every rank; what each returned, by rank.

    Args: `worker`, importable; it, its arguments and its value travel by pickle. `backend` gloo, nccl, or None for no
    process group. `timeout_s`, the longest wait of a collective, a rendezvous, or for a stopped rank. `deadline_s`, for
    the whole run. `hosts`, one per rank, or one for all. `threads` of torch per rank. `faults` to inject. `environment`
    variables of the ranks. `on_message(rank, message)` for what a rank `tell`s, also before a failure.
    Raises: RunFailed when a rank does not return; BadInput.
    """
    leave_if_imported_again()
    joined = place()
    if joined is not None:
        tell = partial(on_message, joined.rank) if on_message else unheard
        rank = Rank(
            joined.rank, joined.ranks, joined.local_rank, backend or "gloo", timeout_s, clock=clock_of(joined.rank),
            tell=tell,
        )  # fmt: skip
        return _join(joined, rank, ranks, worker, arguments, faults)
    _check(ranks, backend, hosts)
    seats = [Host()] * ranks if not hosts else list(hosts) * ranks if len(hosts) == 1 else list(hosts)
    work = _pickled(worker, arguments)
    with run_folder() as folder:
        orders = [
            Orders(
                number,
                ranks,
                backend,
                timeout_s,
                threads,
                usable_cores(),
                host,
                folder,
                sockets_folder(),
                tuple(faults),
                dict(environment or {}),
            )
            for number, host in enumerate(seats)
        ]
        return _run(orders, work, timeout_s, deadline_s, on_message)


def _run(
    orders: Sequence[Orders], work: bytes, timeout_s: float, deadline_s: float | None,
    on_message: Callable[[int, Any], None] | None,
) -> list[Any]:  # fmt: skip
    """Starts the ranks, watches them, and leaves none."""
    with temporary_files():
        board = Board(orders[0].folder / BOARD, len(orders))
        ranks_context()
    running: list[Running] = []
    try:
        for order in orders:
            running.append(_start(order, work))
        return watch(running, board, timeout_s, deadline_s, on_message)
    except RunFailed:
        if all(rank.process.exitcode != IMPORTED_AGAIN for rank in running):
            raise
        why = 'every rank imports this script, which starts ranks again; do that below `if __name__ == "__main__":`'
        raise BadInput(why, str(getattr(sys.modules["__main__"], "__file__", "__main__"))) from None
    finally:
        end(running)
        board.close()


def usable_cores() -> int:
    """Cores that this process and what it starts may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def warm_up() -> None:
    """Starts the server that the ranks are forked from, so that the first `launch` does not wait for torch."""
    ranks_context()


def _start(orders: Orders, work: bytes) -> Running:
    """Forks one rank."""
    context = ranks_context()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=live, args=(orders, work, theirs))
    process.start()
    # Only the rank may hold its end, or its death would not close the pipe.
    theirs.close()
    return Running(orders.number, process, Inbox(ours))


def _pickled(worker: Callable[..., Any], arguments: Sequence[object]) -> bytes:
    try:
        return pickle.dumps((worker, tuple(arguments)))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        name = getattr(worker, "__qualname__", repr(worker))
        raise BadInput(
            f"{name} cannot be sent to the ranks: {error}; give a function of a module and arguments that pickle",
            "worker",
        ) from None


def _check(ranks: int, backend: str | None, hosts: Sequence[Host]) -> None:
    if isinstance(ranks, bool) or not isinstance(ranks, int) or not 1 <= ranks <= MOST_RANKS:
        raise BadInput(f"one machine starts 1 to {MOST_RANKS} ranks, got {ranks!r}; use torchrun for more", "ranks")
    if backend not in BACKENDS:
        raise BadInput(f"backend {backend!r} is not one of gloo, nccl, None", "backend")
    if hosts and len(hosts) not in (1, ranks):
        raise BadInput(f"{len(hosts)} hosts for {ranks} ranks; give one for all, or one each", "hosts")
    folder = sockets_folder()
    if len(os.fsencode(folder)) > MOST_FOLDER_B:
        raise BadInput(f"{folder} is too long a path for sockets; set it to a shorter one, such as /tmp", "TMPDIR")
    if importlib.util.find_spec("torch") is None:
        raise not_installed("real runs need torch", "measure", "torch")
    if backend == "nccl":
        import torch

        if torch.cuda.device_count() < ranks:
            raise BadInput(f"nccl needs one GPU per rank: {torch.cuda.device_count()} here, {ranks} ranks", "backend")


def _join(
    here: Place,
    rank: Rank,
    ranks: int,
    worker: Callable[..., Any],
    arguments: Sequence[object],
    faults: Sequence[Fault],
) -> list[Any]:
    """Works as the rank that this process already is, and exchanges the values, so that every rank returns them all."""
    import torch.distributed as dist

    if ranks != here.ranks:
        raise BadInput(f"{here.started_by} started {here.ranks} ranks, not {ranks}", "ranks")
    board = Board(None, here.ranks)
    points.enter(here.rank, board, faults)
    try:
        points.point("before_rendezvous")
        join_group(rank, _meeting_place(here, rank.timeout_s))
        points.point("before_work")
        values: list[Any] = [None] * here.ranks
        dist.all_gather_object(values, worker(rank, *arguments))
        dist.barrier()
        dist.destroy_process_group()
    except LockstepError:
        raise
    except Exception as error:
        where = board.read(here.rank)
        raise run_failed([from_exception(here.rank, error, where, traceback.format_exc())]) from error
    finally:
        points.leave()
        board.close()
    return values


def _meeting_place(here: Place, timeout_s: float) -> Store:
    """The job's own store, apart for every attempt of an elastic restart.

    torch 2.13 shares the agent's store between attempts, where new ranks would read addresses of dead ones. Raises
    BadInput for a master whose name nobody knows: torch would ask again until the timeout.
    """
    try:
        socket.getaddrinfo(here.master_address, here.master_port)
    except (OSError, ValueError) as error:
        why = f"{here.master_address[:LONGEST]!r} is not the name of a host that is known here ({error})"
        raise BadInput(why, here.named_by) from None
    from torch.distributed import PrefixStore

    return PrefixStore(f"attempt-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", _store(here, timeout_s))


def _store(here: Place, timeout_s: float) -> Store:
    """The store at the master's port: on loopback for ranks of one machine, else on every address of the master.

    torch listens on all addresses, whichever name it is given, unless it is handed a socket.
    """
    from torch.distributed import TCPStore

    # torchrun's agent serves the store already and says so in this variable.
    served = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    serving = here.rank == 0 and not served
    options: Json = {}
    address = here.master_address
    if here.one_machine:
        # Where the ranks' own sockets listen, unless the user has said it.
        os.environ.update(Host().environment() | dict(os.environ))
    if here.one_machine and not served:
        address = Host().address
        if serving:
            options["master_listen_fd"] = _listening(address, here.master_port)
    return TCPStore(
        address, here.master_port, here.ranks, is_master=serving, timeout=timedelta(seconds=timeout_s), **options
    )


def _listening(address: str, port: int) -> int:
    """A socket that listens there, for torch to keep. Raises BadInput when the port is taken."""
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((address, port))
        except OSError as error:
            raise BadInput(f"{address}:{port} cannot be listened on: {error.strerror}", "MASTER_PORT") from None
        made.listen()
        return made.detach()
