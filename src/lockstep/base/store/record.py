"""`Record`: what a run's directory tells.

config.json    schema, verb, words, label: what was asked; it makes the directory a run
env.json       versions, machine, process, start: where and when
events.jsonl   what happened, line by line
result.json    status, reason, answer; written last, so a run without it runs still or died

Files that are damaged are named, and what the others say is told without them. Whether the process that
writes a run is still there, its number alone does not say: numbers are used again.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lockstep.base.errors import LONGEST, BadInput
from lockstep.base.records import dataclass
from lockstep.base.store.files import read_lines, read_whole
from lockstep.base.types.plain import Json, picked, plain

CONFIG, ENVIRONMENT, EVENTS, RESULT = "config.json", "env.json", "events.jsonl", "result.json"
RUNNING, FINISHED, FAILED, STOPPED, DAMAGED = "running", "finished", "failed", "stopped", "damaged"
ENDED = (FINISHED, FAILED, STOPPED)
"""What result.json may say."""
STATUSES = (RUNNING, *ENDED, DAMAGED)
SCHEMA = 1
LATEST_S = 253_402_300_800.0
"""Unix time of the year 10,000, up to which datetime counts."""
_ID = re.compile(r"(\d{8}T\d{6}\.\d{6})-[a-z0-9][a-z0-9-]*", re.ASCII)


def started(pid: int) -> str:
    """When a process began, as the system counts it; empty where the system does not say or it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    # State is field 3 of proc(5), the start field 22; a zombie has ended, it only has not been collected.
    return "" if fields[0] == "Z" else fields[19]


def alive(pid: object, began: object) -> bool:
    """Whether process `pid` runs and is the one that began then."""
    if not isinstance(pid, int) or pid <= 0:
        return False
    if os.path.exists("/proc/self/stat"):
        return began != "" and started(pid) == began
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Unreadable(BadInput):
    """A run whose config.json does not say what was asked, or says it in the words of a newer Lockstep."""


@dataclass(frozen=True, slots=True)
class Record:
    """One run, as its files say."""

    id: str
    path: Path
    verb: str
    label: str
    words: Mapping[str, object]
    environment: Mapping[str, object]
    status: str
    reason: str
    result: Mapping[str, object] | None
    events: tuple[Mapping[str, object], ...]
    damaged: tuple[int, ...]
    """Lines of events.jsonl that are no JSON objects; a torn last one is not counted."""
    damaged_files: tuple[str, ...] = ()
    """Files that are there and cannot be read."""

    @property
    def started_s(self) -> float:
        """Unix time at which it began; where the environment does not say, that of its name."""
        known = _unix_s(self.environment.get("started_s"))
        return start_of(self.id) if known is None else known

    @property
    def ended_s(self) -> float | None:
        """Unix time at which it ended; None while it runs or when it died without a word."""
        ends = [_unix_s(event.get("time_s")) for event in self.events if event.get("event") == "end"]
        return ends[-1] if ends else None

    @property
    def measurements(self) -> list[Mapping[str, Any]]:
        """The events without the end mark."""
        return [event for event in self.events if event.get("event") != "end"]

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            **picked(self, "id verb label status reason started_s ended_s words environment"),
            "events": plain(self.measurements),
            "damaged_lines": list(self.damaged),
            **picked(self, "damaged_files result"),
        }


def is_id(name: str) -> bool:
    """Whether a run can have this name: its start in UTC to the microsecond, then words."""
    return not math.isnan(start_of(name))


def start_of(name: str) -> float:
    """Unix time that the name of a run begins with; nan for other names."""
    found = _ID.fullmatch(name)
    try:
        return math.nan if found is None else _parsed(found[1])
    except ValueError:
        return math.nan


def _parsed(text: str) -> float:
    return datetime.strptime(text, "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC).timestamp()


def read_record(path: Path) -> Record:
    """The run in a directory. Raises Unreadable where its config.json is damaged or of a newer Lockstep."""
    config = _config(path)
    environment = read_whole(path / ENVIRONMENT)
    outcome = read_whole(path / RESULT)
    damaged_files = [] if isinstance(environment, dict) else [ENVIRONMENT]
    try:
        lines, damaged = read_lines(path / EVENTS)
    except BadInput:
        lines, damaged = [], []
        damaged_files.append(EVENTS)
    # result.json may be missing, the others may not.
    if os.path.lexists(path / RESULT) and not _is_outcome(outcome):
        damaged_files.append(RESULT)
    known = environment if isinstance(environment, dict) else {}
    status, reason = _status(outcome, known, damaged_files, len(lines))
    return Record(
        id=path.name,
        path=path,
        verb=_text(config["verb"]),
        label=_text(config["label"]),
        words=config["words"],
        environment=known,
        status=status,
        reason=reason,
        result=outcome["result"] if _is_outcome(outcome) else None,
        events=tuple(event for event in lines if isinstance(event, dict)),
        damaged=tuple(damaged),
        damaged_files=tuple(damaged_files),
    )


def _config(path: Path) -> Json:
    """What was asked."""
    config = read_whole(path / CONFIG)
    if not isinstance(config, dict):
        raise Unreadable(f"run {path.name} has no readable {CONFIG}", "RUN")
    schema = config.get("schema")
    if type(schema) is int and schema > SCHEMA:
        raise Unreadable(f"run {path.name} was written by a newer Lockstep (schema {str(schema)[:LONGEST]})", "RUN")
    kinds = {"verb": str, "label": str, "words": dict}
    if schema != SCHEMA or type(schema) is not int or any(type(config.get(key)) is not kinds[key] for key in kinds):
        raise Unreadable(f"the {CONFIG} of run {path.name} is damaged: it does not say what was asked", "RUN")
    return config


def _is_outcome(outcome: object) -> bool:
    """Whether it is what a run ends with."""
    return (
        isinstance(outcome, dict)
        and outcome.get("status") in ENDED
        and isinstance(outcome.get("reason"), str)
        and isinstance(outcome.get("result", ""), dict | None)
    )


def _status(outcome: Any, environment: Mapping[str, Any], damaged_files: list[str], events: int) -> tuple[str, str]:
    """(status, reason) of a run; damaged where its files do not say how it ended."""
    if RESULT in damaged_files:
        return DAMAGED, f"its {RESULT} is damaged"
    if _is_outcome(outcome):
        return str(outcome["status"]), _text(outcome["reason"])
    if ENVIRONMENT in damaged_files:
        return DAMAGED, f"its {ENVIRONMENT} is damaged: whether it still runs is not known"
    if alive(environment.get("pid"), environment.get("pid_started")):
        return RUNNING, ""
    return FAILED, f"its process died without a message after {events} events"


def _text(value: str) -> str:
    """Text that every file takes: without the halves of letters that JSON allows and UTF-8 does not."""
    return value.encode(errors="replace").decode()


def _unix_s(value: object) -> float | None:
    """A time that a calendar knows; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < LATEST_S else None
