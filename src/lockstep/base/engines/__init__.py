"""Where many questions are answered: here, on processes, or on a cluster. Answers are the same bytes everywhere.

    Questions   a function and the tasks that it is asked, each with a name and a key made of its content
    Engine      a place that pulls batches of tasks when it has room, and gives their answers as they come
    Asking      all questions on an engine: batches sized by measured time, forecast, faults, and a file of answers
    SweepFile   answers in one SQLite file, so that what is known is never computed twice

Every list of an option, every sweep of the lab and every Monte Carlo run that is cut into parts comes through here.
"""

from __future__ import annotations

from lockstep.base.engines.asking import Asking, LeftOut
from lockstep.base.engines.dask import Dask
from lockstep.base.engines.engine import Answered, Batch, Engine, EngineLost, Serial, silent
from lockstep.base.engines.processes import Processes
from lockstep.base.engines.questions import Questions
from lockstep.base.engines.sweep_file import SweepFile
from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.units import parse_integer

ENGINES = ("serial", "processes", "dask")
MOST_WORKERS = 1000
SCHEDULER_FILE = "scheduler-file:"


def find_engine(text: str | Engine | None, where: str = "--engine") -> Engine:
    """The engine of that name; itself where it is one already, and this process where none is named.

    Names: serial, processes[:N], dask[:N], dask:ADDRESS or dask:scheduler-file:PATH. A number is how many local
    processes; an address is that of a Dask scheduler, as tcp://10.0.0.1:8786; a scheduler file is the one that the
    scheduler was told to write.
    """
    if isinstance(text, Engine):
        return text
    name, colon, more = ("serial" if text is None else text).partition(":")
    if name not in ENGINES:
        raise UnknownName("engine", name, ENGINES, where)
    if not colon:
        return Serial() if name == "serial" else Processes() if name == "processes" else Dask()
    if name == "dask" and more.startswith(SCHEDULER_FILE):
        return Dask(scheduler_file=more.removeprefix(SCHEDULER_FILE))
    if name == "dask" and not more.isdigit():
        if "://" not in more:
            said = "a number of workers, an address as tcp://10.0.0.1:8786, or scheduler-file:PATH"
            raise BadInput(f"after dask: comes {said}", where)
        return Dask(address=more)
    if name == "serial":
        raise BadInput("serial takes nothing after it; try processes:4", where)
    workers = parse_integer(more, where, minimum=1)
    if workers > MOST_WORKERS:
        raise BadInput(f"must be at most {MOST_WORKERS} processes, got {workers:,}", where)
    return Processes(workers) if name == "processes" else Dask(workers=workers)


__all__ = [
    "ENGINES",
    "Answered",
    "Asking",
    "Batch",
    "Dask",
    "Engine",
    "EngineLost",
    "LeftOut",
    "Processes",
    "Questions",
    "Serial",
    "SweepFile",
    "find_engine",
    "silent",
]
