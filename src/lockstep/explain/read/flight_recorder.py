"""Dumps of PyTorch's flight recorder (TORCH_FR_BUFFER_SIZE, `_dump_nccl_trace`), as pickle or JSON: one rank's
collectives and how far each came.

Source: pytorch/pytorch, torch/csrc/distributed/c10d/FlightRecorder.hpp (keys), tools/flight_recorder (how ranks are
compared). The rank is not in the file: dumps are named by it, so it is taken from the end of the name. gloo says of no
collective that it has started or ended: one that its work was retired from has ended. Nor does it list the ranks of a
group: they are those whose dump names it, and for the default group all. A rank that has called nothing dumps no calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from lockstep.base.documents.files import File
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.explain.read import HANG, Kind, register
from lockstep.explain.read.file import Head, stream
from lockstep.explain.read.pickles import is_pickle, read_plain

SCHEDULED, STARTED, COMPLETED = STATES = ("scheduled", "started", "completed")
PACKAGES = ("torch/", "site-packages/", "dist-packages/")
DEFAULT = "default_pg"
"""The description of the group of all ranks."""
WORDS = (b"collective_seq_id", b"profiling_name"), (b"pg_config", b"pg_status")
"""In a dump with calls, and in any of newer releases."""
MOST_B = 1 << 30
MOST_RANKS = 10_000_000


@dataclass(frozen=True, slots=True)
class Call:
    """One collective as one rank saw it."""

    group: str
    number: int
    """In its group, from 1."""
    op: str
    sizes: tuple[tuple[int, ...], ...]
    """Shapes of its inputs."""
    dtype: str
    state: str
    """One of STATES."""
    duration_s: float | None = None
    frame: str = ""
    """The innermost Python line that called it, where it was recorded."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The dump of one rank."""

    path: str
    rank: int
    calls: tuple[Call, ...]
    groups: Mapping[str, tuple[int, ...]]
    """Ranks of each process group."""
    titles: Mapping[str, str]
    """Descriptions of groups, by name."""
    joined: frozenset[str] = frozenset()
    """Groups that the rank has used, by name."""


@dataclass(frozen=True, slots=True)
class Hang:
    """A collective that not all ranks of its group came to, or came to with something else."""

    group: str
    number: int
    op: str
    sizes: tuple[tuple[int, ...], ...]
    missing: tuple[int, ...]
    """Ranks of the group that never called it."""
    waiting: tuple[int, ...]
    mismatched: tuple[int, ...]
    """Ranks that called something else in its place, or with other sizes."""
    unseen: tuple[int, ...]
    """Ranks of the group whose dump was not given."""
    frame: str

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def read(path: File) -> Recorded:
    """The dump of one rank. Raises BadInput."""
    with stream(path) as file:
        begun = file.read(1)
    data = read_plain(path) if begun == b"\x80" else _json(path)
    try:
        return _recorded(path, data)
    except BadInput:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError) as error:
        reason = f"{type(error).__name__} {error}".strip()[:120]
        raise BadInput(f"is not a dump of PyTorch's flight recorder: {reason}", str(path)) from None


def _json(path: File) -> Any:
    with stream(path) as file:
        raw = file.read(MOST_B + 1)
    if len(raw) > MOST_B:
        raise BadInput("is too large for a flight recorder dump", str(path))
    try:
        return json.loads(raw)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise BadInput(f"is JSON that breaks off: {str(error)[:120]}", f"{path}{line}") from None


def _recorded(path: File, data: Any) -> Recorded:
    groups, titles = {}, {}
    for name, config in (data.get("pg_config") or {}).items():
        ranks = config.get("ranks", ())
        listed = json.loads(ranks) if isinstance(ranks, str) and ranks else ranks
        groups[str(config.get("name", name))] = tuple(int(one) for one in listed)
        titles[str(config.get("name", name))] = str(config.get("desc", ""))
    entries = data.get("entries", ()) if "pg_status" in data else data["entries"]
    for one in entries:
        if isinstance(group := one["process_group"], list | tuple):
            titles.setdefault(_group(one), str(group[1]))
    calls = tuple(_call(one) for one in entries if not one.get("is_p2p"))
    # The groups of `pg_status` are numbered by every process for itself: these numbers are not their names.
    joined = frozenset(_group(one) for one in entries)
    return Recorded(str(path), _rank(path, data), calls, groups, titles, joined)


def _rank(path: File, data: Any) -> int:
    said = data.get("rank")
    found = re.search(r"(\d+)(?:\.\w+)*$", str(path))
    if not isinstance(said, int) and found is None:
        raise BadInput("does not state its rank; end its file name in the rank, as dumps do", str(path))
    rank = said if isinstance(said, int) or found is None else int(found[1])
    if not 0 <= rank <= MOST_RANKS:
        raise BadInput(f"states rank {str(rank)[:40]}; a rank is 0 or more", str(path))
    return int(rank)


def _call(one: Json) -> Call:
    frames: Sequence[Mapping[str, Any]] = one.get("frames") or ()
    # The program's own line: outside of installed packages, else outside of torch, as where it is installed itself.
    own = next((frame for away in (PACKAGES, PACKAGES[:1]) for frame in frames if not _in(frame, away)), None)
    state, library = str(one["state"]), str(one["profiling_name"]).partition(":")[0]
    if state not in STATES:
        raise ValueError(f"state {state[:40]!r}")
    if library == "gloo" and one.get("retired"):
        state = COMPLETED
    duration_ms = one.get("duration_ms")
    return Call(
        group=_group(one),
        number=int(one["collective_seq_id"]),
        op=str(one["profiling_name"]).removeprefix(f"{library}:"),
        sizes=tuple(tuple(int(side) for side in size) for size in one.get("input_sizes", ())),
        dtype=str((one.get("input_dtypes") or [""])[0]),
        state=state,
        duration_s=None if duration_ms is None else float(duration_ms) / 1e3,
        frame="" if own is None else f"{own.get('filename')}:{own.get('line')} {own.get('name')}",
    )


def _group(one: Json) -> str:
    """The name of a call's group."""
    group = one["process_group"]
    return str(group[0] if isinstance(group, list | tuple) else group)


def _in(frame: Mapping[str, Any], folders: Sequence[str]) -> bool:
    return any(folder in str(frame.get("filename", "")) for folder in folders)


def hangs(dumps: Sequence[Recorded]) -> list[Hang]:
    """The first collective of every group that did not end on all its ranks, as far as their dumps were given.

    Raises BadInput for two dumps of one rank.
    """
    by_rank: dict[int, Recorded] = {}
    for dump in dumps:
        if dump.rank in by_rank:
            raise BadInput(f"is of rank {dump.rank}, and so is {by_rank[dump.rank].path}", dump.path)
        by_rank[dump.rank] = dump
    names = dict.fromkeys(call.group for dump in dumps for call in dump.calls)
    found = (_hang(name, by_rank) for name in names)
    return sorted((one for one in found if one is not None), key=lambda one: (one.number, one.group))


def _hang(group: str, dumps: Mapping[int, Recorded]) -> Hang | None:
    whole = any(dump.titles.get(group) == DEFAULT for dump in dumps.values())
    joined = tuple(rank for rank, dump in sorted(dumps.items()) if whole or group in dump.joined)
    members = next((dump.groups[group] for dump in dumps.values() if dump.groups.get(group)), joined)
    seen = [rank for rank in members if rank in dumps]
    calls = {rank: {call.number: call for call in dumps[rank].calls if call.group == group} for rank in seen}
    # Dumps are rings: what a rank has already overwritten says nothing of the others.
    first = max((min(mine) for mine in calls.values() if mine), default=1)
    for number in sorted({number for mine in calls.values() for number in mine if number >= first}):
        at = {rank: mine[number] for rank, mine in calls.items() if number in mine}
        missing = tuple(rank for rank in seen if max(calls[rank], default=0) < number)
        kinds = [(call.op, call.sizes) for call in at.values()]
        usual = max(sorted(set(kinds)), key=kinds.count)
        mismatched = tuple(rank for rank, call in at.items() if _differs(call, *usual))
        open_on = tuple(rank for rank, call in at.items() if call.state != COMPLETED)
        if missing or mismatched or open_on:
            frame = next((call.frame for call in at.values() if call.frame), "")
            waiting = tuple(rank for rank in open_on if rank not in mismatched)
            unseen = tuple(rank for rank in members if rank not in dumps)
            return Hang(group, number, usual[0], usual[1], missing, waiting, mismatched, unseen, frame)
    return None


def _differs(call: Call, op: str, sizes: tuple[tuple[int, ...], ...]) -> bool:
    """Whether a call cannot be part of a collective; where ranks may give different sizes, only by its operation."""
    free = any(word in op for word in ("all_to_all", "gather", "scatter"))
    return call.op != op or (call.sizes != sizes and not free)


def _recognise(begun: Head) -> bool:
    like = is_pickle(begun) or begun.data.lstrip()[:1] == b"{"
    return like and any(all(word in begun.data for word in words) for words in WORDS)


KIND = register(Kind("flight-recorder", "a dump of PyTorch's flight recorder", HANG, _recognise, read, 2))
