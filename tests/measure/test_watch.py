"""Watching ranks by a clock of the test's own: when a run ends, who is blamed, and how long the others have."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.base.errors import RunFailed
from lockstep.run.launch import watch as module
from lockstep.run.launch.failure import CAUSES, OWN_CAUSES, Failure, from_exception, from_exit, run_failed
from lockstep.run.launch.mail import LENGTH, Inbox, post
from lockstep.run.launch.points import Board, in_words
from lockstep.run.launch.watch import Patience, Running, watch

MOST_LOOKS = 10_000
Event = tuple[float, Callable[["World"], None]]


class Mailbox:
    """What a rank has sent and nobody has read."""

    def __init__(self) -> None:
        self.open, self.held = True, list[tuple[str, Any]]()

    def read(self) -> list[tuple[str, Any]]:
        found, self.held = self.held, []
        return found


class World:
    """Ranks whose ends and messages come at given times; waiting takes a tick."""

    def __init__(self, count: int, events: Sequence[Event]) -> None:
        self.now_s, self.events, self.stopped = 1000.0, sorted(events, key=lambda one: one[0]), set[int]()
        self.ready: set[int] = set()
        self.looks = 0
        self.ranks = [self._rank(number) for number in range(count)]
        self.board = Board(None, count)

    def _rank(self, number: int) -> Running:
        process: Any = SimpleNamespace(sentinel=number, exitcode=None, pid=None, join=lambda: None)
        inbox: Any = Mailbox()
        return Running(number, process, inbox)

    def monotonic(self) -> float:
        """The time, for somebody who waits between two looks at it."""
        self.looks += 1
        assert self.looks < MOST_LOOKS, "looks at the clock without waiting"
        return self.now_s

    def wait(self, handles: list[Any], timeout_s: float) -> list[Any]:
        self.now_s += timeout_s
        while self.events and 1000.0 + self.events[0][0] <= self.now_s:
            self.events.pop(0)[1](self)
        told = [one for one in handles if isinstance(one, Mailbox) and one.held]
        return told + [number for number in self.ready if number in handles]


def tells(number: int, kind: str, content: Any) -> Callable[[World], None]:
    return lambda world: world.ranks[number].inbox.held.append((kind, content))  # type: ignore[attr-defined]


def ends(number: int, code: int = 0) -> Callable[[World], None]:
    def end(world: World) -> None:
        world.ranks[number].process.exitcode = code  # type: ignore[misc]
        world.ready.add(number)

    return end


def stops(number: int) -> Callable[[World], None]:
    return lambda world: world.stopped.add(number)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Any:
    """(what came of it, seconds that it took) of a world."""

    def run(world: World, timeout_s: float = 60.0, deadline_s: float | None = None) -> tuple[Any, float]:
        heard: list[tuple[int, Any]] = []
        monkeypatch.setattr(module, "wait", world.wait)
        monkeypatch.setattr(module.time, "monotonic", world.monotonic)
        monkeypatch.setattr(module, "_is_stopped", lambda rank: rank.number in world.stopped)
        try:
            found: Any = watch(world.ranks, world.board, timeout_s, deadline_s, lambda *message: heard.append(message))
        except RunFailed as failed:
            found = failed
        return (found, heard), world.now_s - 1000.0

    return run


def value(number: int) -> Callable[[World], None]:
    return tells(number, "value", pickle.dumps(f"of {number}"))


def test_values_are_returned_by_rank_and_messages_in_order(watched: Any) -> None:
    events = [(1, tells(1, "message", "half")), (2, value(1)), (3, value(0)), (4, ends(0)), (5, ends(1))]
    (found, heard), took_s = watched(World(2, events))
    assert found == ["of 0", "of 1"]
    assert heard == [(1, "half")]
    assert took_s == 5


def test_a_rank_has_two_seconds_to_exit_after_its_value(watched: Any) -> None:
    (found, _), took_s = watched(World(2, [(1, value(0)), (3, value(1)), (4, ends(0))]))
    assert found == ["of 0", "of 1"]
    assert 2 < took_s - 3 <= 2.25


@pytest.mark.parametrize(("cause", "left_s"), [(cause, 0.5 if cause in OWN_CAUSES else 2.0) for cause in CAUSES])
def test_an_unexplained_failure_gives_the_other_ranks_more_time(cause: str, left_s: float, watched: Any) -> None:
    failure = Failure(1, cause, "because", "mid_work:3")
    (found, _), took_s = watched(World(2, [(7, tells(1, "failure", failure))]))
    assert isinstance(found, RunFailed)
    assert str(found) == str(failure)
    assert left_s < took_s - 7 <= left_s + 0.25


def test_a_rank_that_ends_without_a_value_failed_at_its_last_point(watched: Any) -> None:
    world = World(2, [(1, ends(0, -9)), (1, value(1)), (1, ends(1))])
    world.board.write(0, "mid_all_reduce:2")
    (found, _), _ = watched(world)
    assert str(found) == "rank 0 killed by SIGKILL during all-reduce step 2"
    (found, _), _ = watched(World(1, [(1, ends(0, 3))]))
    assert str(found) == "rank 0 exited early with code 3 before its first point"


@pytest.mark.parametrize("timeout_s", [5.0, 60.0])
def test_a_stopped_rank_is_blamed_after_a_collective_timeout_and_grace_period(timeout_s: float, watched: Any) -> None:
    (found, _), took_s = watched(World(2, [(3, stops(1))]), timeout_s)
    assert str(found).startswith("rank 1 stopped by a signal")
    assert timeout_s + 2 < took_s - 3 <= timeout_s + 2.5


def test_a_rank_that_continues_is_not_blamed(watched: Any) -> None:
    def goes_on(world: World) -> None:
        world.stopped.clear()

    events = [(1, stops(0)), (5, goes_on), (6, stops(0)), (10, goes_on), (11, value(0)), (11, ends(0))]
    (found, _), _ = watched(World(1, events), 4.0)
    assert found == ["of 0"]


def test_a_deadline_names_the_silent_ranks(watched: Any) -> None:
    (found, _), took_s = watched(World(2, [(1, value(0)), (1, ends(0))]), deadline_s=30.0)
    assert str(found) == "rank 1 did not return within 30 s; it was before its first point"
    assert 30 < took_s <= 30.25


def test_the_failure_that_explains_the_others_is_listed_first() -> None:
    kinds = ["silent", "timed out", "cut off", "raised", "exited", "stopped", "killed"]
    failures = [Failure(number, cause, cause, "") for number, cause in enumerate(kinds)]
    for count in range(1, 8):
        error = run_failed(failures[:count])
        first, *others = str(error).split("; ")
        assert first == str(failures[count - 1])
        assert len(others) == min(count - 1, 2)
        assert count < 2 or others[0] == f"then {failures[count - 2]}"
        assert count < 3 or others[1] == f"and {count - 2} more"


@pytest.mark.parametrize(
    ("error", "cause", "reason"),
    [
        (ValueError("no"), "raised", "ValueError: no"),
        (ValueError(), "raised", "ValueError: ValueError"),
        (RuntimeError("Timed out\n after 5 s"), "timed out", "RuntimeError: Timed out after 5 s"),
        (TimeoutError("timeout"), "timed out", "TimeoutError: timeout"),
        (RuntimeError("Connection reset by peer"), "cut off", "RuntimeError: Connection reset by peer"),
        (ValueError("Connection reset by peer"), "raised", "ValueError: Connection reset by peer"),
        (RuntimeError("[/gloo/pair.cc:7] Broken pipe"), "cut off", "RuntimeError: Broken pipe"),
        (SystemExit(3), "exited", "exited early with code 3"),
        (SystemExit("no"), "exited", "exited early with code 1"),
        (SystemExit(), "exited", "exited early with code 0"),
    ],
)
def test_exceptions_are_classified_by_cause(error: BaseException, cause: str, reason: str) -> None:
    found = from_exception(2, error, "before_work", "")
    assert (found.rank, found.cause, found.reason, found.point) == (2, cause, reason, "before_work")
    assert str(found) == (
        f"rank 2 {reason} before work" if cause == "exited" else f"rank 2 failed before work: {reason}"
    )


@pytest.mark.parametrize(("code", "cause"), [(0, "exited"), (1, "exited"), (-9, "killed"), (-1, "killed")])
def test_a_negative_exit_code_is_a_signal(code: int, cause: str) -> None:
    assert from_exit(0, code, "").cause == cause


@pytest.mark.parametrize(
    ("name", "words"),
    [("", "before its first point"), ("mid_reduce_scatter:3", "during reduce-scatter step 3"),
     ("before_commit", "before commit"), ("mid_step:7", "during step 7"), ("after_step", "after step")],
)  # fmt: skip
def test_fault_points_are_described_in_words(name: str, words: str) -> None:
    assert in_words(name) == words


def test_messages_arrive_whole_and_in_order_for_any_fragmentation() -> None:
    ours, theirs = Pipe(duplex=False)
    inbox = Inbox(ours)
    messages = [b"x" * length for length in (0, 1, 5000)]
    post(theirs, messages[0])
    content = [LENGTH.pack(len(part)) + part for part in map(pickle.dumps, messages[1:])]
    text, found = b"".join(content), inbox.read()
    assert found == messages[:1]
    for start in range(0, len(text), 7):
        os.write(theirs.fileno(), text[start : start + 7])
        found += inbox.read()
    assert found == messages
    assert inbox.open
    theirs.close()
    assert inbox.read() == []
    assert not inbox.open
    inbox.close()


def test_a_board_keeps_the_point_of_every_rank_up_to_127_bytes() -> None:
    board = Board(None, 3)
    for number, name in enumerate(("a", "b" * 127, "c" * 300)):
        board.write(number, name)
    assert [board.read(number) for number in range(3)] == ["a", "b" * 127, "c" * 127]
    board.write(1, "short")
    assert [board.read(number) for number in range(3)] == ["a", "short", "c" * 127]
    board.close()


def test_timeouts_are_tested_without_processes_or_clocks() -> None:
    """A stop that ends in between is counted anew; failures that explain themselves end a run sooner."""
    world = World(2, [])
    patience = Patience(timeout_s=5.0, deadline_s=50.0, began_s=0.0)
    ends = [patience.end(world.ranks, stopped, now_s) for stopped, now_s in (((1,), 1), ((), 7), ((1,), 8), ((1,), 15))]
    assert ends == [None] * 4
    assert patience.end(world.ranks, (1,), 15.5) == "stopped"
    assert patience.end(world.ranks, (), 50.5) == "late"
    for cause, left_s in (("killed", 0.5), ("timed out", 2.0)):
        world.ranks[0].failure = Failure(0, cause, "because", "")
        patience = Patience(5.0, None, 0.0)
        assert [patience.end(world.ranks, (), now_s) for now_s in (1.0, 1.0 + left_s, 1.1 + left_s)] == [
            None,
            None,
            "failed",
        ]
