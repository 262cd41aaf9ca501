"""The run store: every real run as a directory of plain files, and an SQLite index that can be rebuilt from them."""

from lockstep.base.store.compare import Comparison, change_frac, compare
from lockstep.base.store.event_file import EventFile
from lockstep.base.store.files import NotRecorded
from lockstep.base.store.record import DAMAGED, FAILED, FINISHED, RUNNING, STATUSES, STOPPED, Record
from lockstep.base.store.store import RunStore, default_root
from lockstep.base.store.writer import RunWriter

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
