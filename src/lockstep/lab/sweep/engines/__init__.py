"""Where the runs of a sweep are made, one file each. Results are the same everywhere."""

from __future__ import annotations

from lockstep.errors import BadInput, UnknownName
from lockstep.lab.sweep.engines.dask import Dask
from lockstep.lab.sweep.engines.engine import Engine, Serial, gather
from lockstep.lab.sweep.engines.processes import Processes
from lockstep.units import parse_integer

ENGINES = ("serial", "processes", "dask")
MOST_WORKERS = 1000


def find_engine(text: str, where: str = "--engine") -> Engine:
    """The engine that `text` names: serial, processes, processes:4, dask, dask:4 or dask:ADDRESS.

    A number is how many local processes; an address is that of a Dask scheduler, as tcp://10.0.0.1:8786.
    """
    name, colon, more = text.partition(":")
    if name not in ENGINES:
        raise UnknownName("engine", name, ENGINES, where)
    if not colon:
        return Serial() if name == "serial" else Processes() if name == "processes" else Dask()
    if name == "dask" and not more.isdigit():
        if not more:
            raise BadInput("an address comes after dask:, e.g. dask:tcp://10.0.0.1:8786", where)
        return Dask(address=more)
    if name == "serial":
        raise BadInput("serial takes nothing after it; try processes:4", where)
    workers = parse_integer(more, where, minimum=1)
    if workers > MOST_WORKERS:
        raise BadInput(f"must be at most {MOST_WORKERS} processes, got {workers:,}", where)
    return Processes(workers) if name == "processes" else Dask(workers=workers)


__all__ = ["ENGINES", "Dask", "Engine", "Processes", "Serial", "find_engine", "gather"]
