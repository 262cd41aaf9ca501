"""`Record`: what a run's directory tells.

config.json    verb, words, label: what was asked
env.json       versions, machine, process, start: where and when
events.jsonl   what happened, line by line
result.json    status, reason, answer; written last, so a run without it runs still or died
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockstep.errors import BadInput
from lockstep.runs.files import read_lines, read_whole
from lockstep.runs.process import alive

CONFIG, ENVIRONMENT, EVENTS, RESULT = "config.json", "env.json", "events.jsonl", "result.json"
RUNNING, FINISHED, FAILED = "running", "finished", "failed"
STATUSES = (RUNNING, FINISHED, FAILED)
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Record:
    """One run, as its files say."""

    id: str
    path: Path
    verb: str
    label: str
    words: Mapping[str, Any]
    environment: Mapping[str, Any]
    status: str
    reason: str
    result: Mapping[str, Any] | None
    events: tuple[Mapping[str, Any], ...]
    damaged: tuple[int, ...]
    """Lines of events.jsonl that are no JSON; a torn last one is not counted."""

    @property
    def started_s(self) -> float:
        """Unix time at which it began."""
        return float(self.environment.get("started_s", 0.0))

    @property
    def ended_s(self) -> float | None:
        """Unix time at which it ended; None while it runs or when it died without a word."""
        ends = [event["time_s"] for event in self.events if event.get("event") == "end"]
        return float(ends[-1]) if ends else None

    @property
    def measurements(self) -> list[Mapping[str, Any]]:
        """The events without the end mark."""
        return [event for event in self.events if event.get("event") != "end"]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            "id": self.id,
            "verb": self.verb,
            "label": self.label,
            "status": self.status,
            "reason": self.reason,
            "started_s": self.started_s,
            "ended_s": self.ended_s,
            "words": dict(self.words),
            "environment": dict(self.environment),
            "events": [dict(event) for event in self.measurements],
            "damaged_lines": list(self.damaged),
            "result": None if self.result is None else dict(self.result),
        }


def read_record(path: Path) -> Record | None:
    """The run in a directory; None where there is none. Raises BadInput for one of a newer Lockstep."""
    config = read_whole(path / CONFIG)
    if not isinstance(config, dict):
        return None
    if config.get("schema", SCHEMA) > SCHEMA:
        raise BadInput(f"run {path.name} was written by a newer Lockstep (schema {config['schema']})", str(path))
    environment = read_whole(path / ENVIRONMENT) or {}
    outcome = read_whole(path / RESULT)
    events, damaged = read_lines(path / EVENTS)
    status, reason = _status(outcome, environment, len(events))
    return Record(
        id=path.name,
        path=path,
        verb=str(config.get("verb", "")),
        label=str(config.get("label", "")),
        words=config.get("words", {}),
        environment=environment,
        status=status,
        reason=reason,
        result=outcome["result"] if outcome else None,
        events=tuple(event for event in events if isinstance(event, dict)),
        damaged=tuple(damaged),
    )


def _status(outcome: Any, environment: Mapping[str, Any], events: int) -> tuple[str, str]:
    if isinstance(outcome, dict):
        return str(outcome["status"]), str(outcome["reason"])
    if alive(environment.get("pid"), environment.get("pid_started")):
        return RUNNING, ""
    return FAILED, f"its process died without a word after {events} events"
