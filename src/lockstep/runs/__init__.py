"""The run store: every real run as a directory of plain files, and an SQLite index that can be rebuilt from them."""

from lockstep.runs.compare import Comparison, change_frac, compare
from lockstep.runs.event_file import EventFile
from lockstep.runs.files import NotRecorded
from lockstep.runs.record import DAMAGED, FAILED, FINISHED, RUNNING, STATUSES, STOPPED, Record
from lockstep.runs.store import RunStore, default_root
from lockstep.runs.writer import RunWriter

__all__ = [
    "DAMAGED",
    "FAILED",
    "FINISHED",
    "RUNNING",
    "STATUSES",
    "STOPPED",
    "Comparison",
    "EventFile",
    "NotRecorded",
    "Record",
    "RunStore",
    "RunWriter",
    "change_frac",
    "compare",
    "default_root",
]
