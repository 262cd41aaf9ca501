"""`Rank`: what a worker is told about itself, and the life of a rank's process from fork to exit.

`Host` is the network that it sees; `Clock` the monotonic clock that it stamps its operations with. Ranks of one machine
read the same clock, ranks of different machines never do. Tests on one machine make clocks differ:
LOCKSTEP_CLOCK_SKEWS, a JSON list with (seconds ahead, drift) of every rank, shifts them and lets them run fast or slow.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field
from lockstep.run.launch import points
from lockstep.run.launch.failure import from_exception
from lockstep.run.launch.keeper import keep
from lockstep.run.launch.mail import post
from lockstep.run.launch.points import Board, Fault, point

if TYPE_CHECKING:
    from torch.distributed import Store

SKEWS = "LOCKSTEP_CLOCK_SKEWS"
BOOT = Path("/proc/sys/kernel/random/boot_id")
OFFSETS = Path("/proc/self/timens_offsets")
"""What a time namespace adds to the clocks (time_namespaces(7)): containers of one machine may differ."""
NAMESPACES = Path("/run/netns")
CLONE_NEWNET = 0x40000000  # linux/sched.h
LOOPBACK = "lo" if sys.platform == "linux" else "lo0"
STORE, BOARD = "store", "points"


@dataclass(frozen=True, slots=True)
class Clock:
    """CLOCK_MONOTONIC t as t + ahead_s + drift_frac t; without either outside of tests."""

    ahead_s: float = 0.0
    drift_frac: float = 0.0

    def now_ns(self) -> int:
        """Nanoseconds since some moment that is the clock's own."""
        now = time.monotonic_ns()
        return now + round(1e9 * self.ahead_s + self.drift_frac * now) if self.ahead_s or self.drift_frac else now

    def name(self, rank: int) -> str:
        """The same text for ranks that read the same clock, and for no others."""
        machine = boot() or f"of rank {rank}"
        offsets = " ".join(OFFSETS.read_text(encoding="ascii").split()) if os.path.exists(OFFSETS) else ""
        return f"{machine} {offsets} {self.ahead_s} {self.drift_frac}"


def boot() -> str:
    """The same text for all processes of a machine until it starts again; empty where nothing tells."""
    return BOOT.read_text(encoding="ascii").strip() if os.path.exists(BOOT) else ""


def clock_of(rank: int, environment: Mapping[str, str] | None = None) -> Clock:
    """The clock of a rank: the machine's own, unless a test says otherwise."""
    skews = (os.environ if environment is None else environment).get(SKEWS)
    return Clock(*json.loads(skews)[rank]) if skews else Clock()


@dataclass(frozen=True, slots=True)
class Host:
    """The network that one rank sees: a namespace, an interface and an address; loopback by default."""

    namespace: str | None = None
    """Name of a namespace as `ip netns` lists it; None for the one of the launcher."""
    interface: str = LOOPBACK
    address: str = "127.0.0.1"

    def enter(self) -> None:
        """Moves this process, before it has a second thread or a socket, into the namespace. Raises BadInput."""
        if self.namespace is None:
            return
        path = NAMESPACES / self.namespace
        try:
            with path.open("rb") as file:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(file.fileno(), CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        except OSError as error:
            raise BadInput(f"cannot enter network namespace {self.namespace!r}: {error.strerror}", str(path)) from None

    def environment(self) -> dict[str, str]:
        """Variables that make gloo and NCCL use the interface."""
        return {"GLOO_SOCKET_IFNAME": self.interface, "NCCL_SOCKET_IFNAME": self.interface}


def unheard(message: object) -> None:
    """Where messages go when no launcher started the rank."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of a run, as its worker sees it."""

    number: int
    ranks: int
    local: int
    """Number on its own machine: the index of its GPU."""
    backend: str | None
    """gloo, nccl, or None when there is no process group."""
    timeout_s: float
    """Longest wait of a collective or a rendezvous."""
    host: Host = field(default_factory=Host)
    clock: Clock = field(default_factory=Clock)
    """What its operations are stamped with."""
    cores: int | None = None
    """Of the one machine that all ranks share; None when they may be on several."""
    tell: Callable[[Any], None] = unheard
    """Sends the launcher a picklable message, such as progress or a finished measurement."""

    @property
    def device(self) -> str:
        """Where its tensors live, in torch's words."""
        return f"cuda:{self.local}" if self.backend == "nccl" else "cpu"


@dataclass(frozen=True, slots=True)
class Orders:
    """Everything a forked process needs to become a rank."""

    number: int
    ranks: int
    backend: str | None
    timeout_s: float
    threads: int
    cores: int
    host: Host
    folder: Path
    sockets: Path
    """Where the ranks' server listens."""
    faults: tuple[Fault, ...]
    environment: Mapping[str, str]


def live(orders: Orders, work: bytes, pipe: Connection) -> None:
    """Body of a rank's process: becomes the rank of a keeper, works, sends ("value", value) or ("failure", failure)."""
    keep(orders.folder, orders.sockets, pipe)
    _send(pipe, ("process", os.getpid()))
    board = Board(orders.folder / BOARD, orders.ranks)
    points.enter(orders.number, board, orders.faults)
    try:
        value = _work(orders, work, pipe)
    except BaseException as error:
        where = board.read(orders.number)
        _send(pipe, ("failure", from_exception(orders.number, error, where, traceback.format_exc())))
        sys.stderr.flush()
        # Peers must learn of it now: a normal exit would wait for gloo's threads first.
        os._exit(1)
    _send(pipe, ("value", value))
    _part()


def _send(pipe: Connection, message: object) -> None:
    """Posts a message; a rank whose launcher has died cannot post it, and ends silently."""
    try:
        post(pipe, message)
    except BrokenPipeError:
        os._exit(1)


def _work(orders: Orders, work: bytes, pipe: Connection) -> bytes:
    """The worker's value, pickled here so that a value that cannot be is this rank's failure."""
    import torch

    torch.set_num_threads(orders.threads)
    own = {"RANK": orders.number, "LOCAL_RANK": orders.number, "WORLD_SIZE": orders.ranks}
    os.environ.update({name: str(number) for name, number in own.items()})
    os.environ.update({**orders.host.environment(), **orders.environment})
    orders.host.enter()
    point("in_worker_import")
    worker, arguments = pickle.loads(work)

    def tell(message: object) -> None:
        _send(pipe, ("message", message))

    rank = Rank(
        orders.number, orders.ranks, orders.number, orders.backend, orders.timeout_s,
        host=orders.host, clock=clock_of(orders.number), cores=orders.cores, tell=tell,
    )  # fmt: skip
    point("before_rendezvous")
    if orders.backend is not None:
        from torch.distributed import FileStore

        join_group(rank, FileStore(str(orders.folder / STORE), orders.ranks))
    point("before_work")
    return pickle.dumps(worker(rank, *arguments))


def join_group(rank: Rank, store: Store) -> None:
    """Meets the other ranks at `store` and makes the default process group, with a timeout on everything."""
    import torch
    import torch.distributed as dist

    store.set_timeout(timedelta(seconds=rank.timeout_s))
    if rank.backend == "nccl":
        torch.cuda.set_device(rank.local)
    dist.init_process_group(
        rank.backend,
        store=store,
        rank=rank.number,
        world_size=rank.ranks,
        timeout=timedelta(seconds=rank.timeout_s),
    )


def _part() -> None:
    """Leaves together: a rank that closes its sockets while a peer still reads would fail the peer."""
    import torch.distributed as dist

    with ignored_failures():
        if dist.is_initialized():
            dist.barrier()
            dist.destroy_process_group()


@contextmanager
def ignored_failures() -> Iterator[None]:
    """For leaving: the value has been delivered, and a peer that died has its own failure."""
    try:
        yield
    except RuntimeError:
        os._exit(0)
