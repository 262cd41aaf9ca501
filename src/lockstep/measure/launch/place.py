"""`Place`: which rank this process already is, from the variables of torchrun or Slurm; None when it is nobody's rank.

torchrun   RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
Slurm      SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID of a job step (`srun`); the master is the first node of
           SLURM_STEP_NODELIST and a port that follows from the job's number, unless MASTER_ADDR and MASTER_PORT say so

Sources: docs.pytorch.org/docs/stable/elastic/run.html; slurm.schedmd.com/srun.html (output environment variables).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from lockstep.errors import BadInput

TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
FIRST_PORT, NUM_PORTS = 20_000, 10_000  # assumed: below Linux's ephemeral ports, which begin at 32768


@dataclass(frozen=True, slots=True)
class Place:
    """One rank of a job that somebody else started."""

    rank: int
    ranks: int
    local_rank: int
    master_address: str
    master_port: int
    started_by: str


def place(environment: Mapping[str, str] | None = None) -> Place | None:
    """The place of this process; None when neither torchrun nor a Slurm step with several tasks started it.

    Raises BadInput for a variable that is not a whole number.
    """
    known = os.environ if environment is None else environment
    if all(name in known for name in TORCHRUN):
        rank = _whole(known, "RANK")
        local = _whole(known, "LOCAL_RANK") if "LOCAL_RANK" in known else rank
        port = _whole(known, "MASTER_PORT")
        return Place(rank, _whole(known, "WORLD_SIZE"), local, known["MASTER_ADDR"], port, "torchrun")
    if "SLURM_PROCID" in known and int(known.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        return _slurm(known)
    return None


def _slurm(known: Mapping[str, str]) -> Place:
    address = known.get("MASTER_ADDR") or first_node(known.get("SLURM_STEP_NODELIST", "127.0.0.1"))
    job = _whole(known, "SLURM_JOB_ID") if "SLURM_JOB_ID" in known else 0
    port = _whole(known, "MASTER_PORT") if "MASTER_PORT" in known else FIRST_PORT + job % NUM_PORTS
    rank, ranks = _whole(known, "SLURM_PROCID"), _whole(known, "SLURM_STEP_NUM_TASKS")
    local = _whole(known, "SLURM_LOCALID") if "SLURM_LOCALID" in known else rank
    return Place(rank, ranks, local, address, port, "Slurm")


def first_node(nodes: str) -> str:
    """First host of a Slurm node list: `node[003-010,12],login1` is `node003`."""
    found = re.match(r"([^\[,]+)(?:\[(\d+))?", nodes)
    if found is None:
        raise BadInput(f"not a list of nodes: {nodes!r}", "SLURM_STEP_NODELIST")
    return found[1] + (found[2] or "")


def _whole(known: Mapping[str, str], name: str) -> int:
    if not known[name].isdecimal():
        raise BadInput(f"must be a whole number, got {known[name]!r}", name)
    return int(known[name])
