"""`Place`: which rank this process already is, from the variables of torchrun or Slurm; None when it is nobody's rank.

torchrun   RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
Slurm      SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID of a job step (`srun`); the master is the first node of
           SLURM_STEP_NODELIST and a port that follows from the job's number, unless MASTER_ADDR and MASTER_PORT say so

All ranks are on one machine where LOCAL_WORLD_SIZE or SLURM_STEP_NUM_NODES says so, or the master is on loopback.

Sources: docs.pytorch.org/docs/stable/elastic/run.html; slurm.schedmd.com/srun.html (output environment variables).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from lockstep.base.errors import LONGEST, BadInput
from lockstep.base.records import dataclass

TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
FIRST_PORT, NUM_PORTS = 20_000, 10_000  # assumed: below Linux's ephemeral ports, which begin at 32768
LAST_PORT = 65_535
MOST = 2**31 - 1
"""Jobs and ranks are 32-bit numbers in Slurm and in torch."""


@dataclass(frozen=True, slots=True)
class Place:
    """One rank of a job that somebody else started."""

    rank: int
    ranks: int
    local_rank: int
    master_address: str
    master_port: int
    started_by: str
    named_by: str = "MASTER_ADDR"
    """The variable that `master_address` comes from."""
    one_machine: bool = False
    """Whether all ranks are known to be on this machine, so that nothing needs to listen to others."""


def place(environment: Mapping[str, str] | None = None) -> Place | None:
    """The place of this process; None when neither torchrun nor a Slurm step with several tasks started it.

    Raises BadInput, located at the variable, for a number that is none or cannot be: a rank beyond the ranks, a port
    beyond 65535.
    """
    known = os.environ if environment is None else environment
    if all(name in known for name in TORCHRUN):
        rank, ranks = _rank(known, "RANK", "WORLD_SIZE")
        local = _whole(known, "LOCAL_RANK", MOST) if "LOCAL_RANK" in known else rank
        port = _whole(known, "MASTER_PORT", LAST_PORT, least=1)
        address = known["MASTER_ADDR"]
        alone = known.get("LOCAL_WORLD_SIZE") == known["WORLD_SIZE"] or _is_loopback(address)
        return Place(rank, ranks, local, address, port, "torchrun", "MASTER_ADDR", alone)
    if "SLURM_PROCID" in known and "SLURM_STEP_NUM_TASKS" in known:
        rank, ranks = _rank(known, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
        return _slurm(known, rank, ranks) if ranks > 1 else None
    return None


def _slurm(known: Mapping[str, str], rank: int, ranks: int) -> Place:
    named_by = "MASTER_ADDR" if known.get("MASTER_ADDR") else "SLURM_STEP_NODELIST"
    address = known.get("MASTER_ADDR", "")
    if named_by != "MASTER_ADDR":
        address = first_node(known.get("SLURM_STEP_NODELIST", "127.0.0.1"))
    job = _whole(known, "SLURM_JOB_ID", MOST) if "SLURM_JOB_ID" in known else 0
    port = _whole(known, "MASTER_PORT", LAST_PORT, least=1) if "MASTER_PORT" in known else FIRST_PORT + job % NUM_PORTS
    local = _whole(known, "SLURM_LOCALID", MOST) if "SLURM_LOCALID" in known else rank
    alone = known.get("SLURM_STEP_NUM_NODES") == "1" or _is_loopback(address)
    return Place(rank, ranks, local, address, port, "Slurm", named_by, alone)


def _is_loopback(address: str) -> bool:
    return address in ("localhost", "::1") or address.startswith("127.")


def first_node(nodes: str) -> str:
    """First host of a Slurm node list: `node[003-010,12],login1` is `node003`."""
    found = re.match(r"([^\[,]+)(?:\[(\d+))?", nodes)
    if found is None:
        raise BadInput(f"not a list of nodes: {nodes!r}", "SLURM_STEP_NODELIST")
    return found[1] + (found[2] or "")


def _rank(known: Mapping[str, str], number: str, world: str) -> tuple[int, int]:
    """A rank and the ranks there are, by the names of their variables."""
    ranks = _whole(known, world, MOST, least=1)
    rank = _whole(known, number, MOST)
    if rank >= ranks:
        raise BadInput(f"{world} sets {ranks} ranks, numbered from 0; there is no rank {rank}", number)
    return rank, ranks


def _whole(known: Mapping[str, str], name: str, most: int, least: int = 0) -> int:
    given = known[name].strip()
    # Numbers of more digits than the limit are not converted: Python refuses some thousand.
    number = int(given) if given.isascii() and given.isdecimal() and len(given) <= len(str(MOST)) else -1
    if not least <= number <= most:
        raise BadInput(f"must be a whole number from {least} to {most}, got {given[:LONGEST]!r}", name)
    return number
