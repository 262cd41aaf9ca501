"""Streams and events of the card: what is recorded of the order in which its work may run.

Work of one stream is in order, and streams are not in order with each other but for events: a stream that waits for an
event begins what follows when the work is done that stood before the event in its own stream.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import torch

from lockstep.describe.captured import READ, RECORD, WAIT

SEEN = "cuda"
"""The device that programs see."""
Note = Callable[[str, int, int], None]


class Order:
    """The stream of the moment, and where rows go; one in a process of capture."""

    numbers = count(1)
    events = count(1)
    current: Stream
    note: Note = staticmethod(lambda name, stream, event: None)

    @classmethod
    def recorded(cls, stream: int) -> int:
        """A new event behind what is in a stream."""
        event = next(cls.events)
        cls.note(RECORD, stream, event)
        return event


class Event:
    """A point in a stream."""

    def __init__(self, *args: Any, **words: Any) -> None:
        self.number = 0

    def record(self, stream: Stream | None = None) -> Event:
        """The point behind what is in a stream now."""
        self.number = Order.recorded((stream or Order.current).number)
        return self

    def wait(self, stream: Stream | None = None) -> None:
        """A stream waits for it."""
        if self.number:
            Order.note(WAIT, (stream or Order.current).number, self.number)

    def synchronize(self) -> None:
        """The host waits for it."""
        if self.number:
            Order.note(READ, Order.current.number, self.number)

    def query(self) -> bool:
        """All is done."""
        return True

    def elapsed_time(self, other: Any) -> float:
        """Milliseconds: no time passes."""
        return 1.0


class Stream:
    """A stream of the card; as a context, that of the moment."""

    def __init__(self, *args: Any, number: int | None = None, **words: Any) -> None:
        self.number = next(Order.numbers) if number is None else number
        self.device, self.cuda_stream, self.priority = torch.device(SEEN, 0), self.number, 0
        self.before: list[Stream] = []

    def __enter__(self) -> Stream:
        self.before.append(Order.current)
        Order.current = self
        return self

    def __exit__(self, *error: Any) -> None:
        Order.current = self.before.pop()

    def query(self) -> bool:
        """All is done."""
        return True

    def is_capturing(self) -> bool:
        """Whether it is part of a CUDA graph: never."""
        return False

    def record_event(self, event: Event | None = None) -> Event:
        """An event behind what is in the stream now."""
        return (event or Event()).record(self)

    def wait_event(self, event: Event) -> None:
        """Waits for an event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Waits for what is in another stream now."""
        if stream.number != self.number:
            self.wait_event(stream.record_event())

    def synchronize(self) -> None:
        """The host waits for all of it."""
        Order.note(READ, self.number, 0)


Order.current = Stream(number=0)


def default_stream(*args: Any) -> Stream:
    """The stream that all others begin beside."""
    return Stream(number=0)


def current_stream(*args: Any) -> Stream:
    """The stream of the moment."""
    return Order.current


def set_stream(stream: Stream) -> None:
    """Makes a stream that of the moment."""
    Order.current = stream


def stream(one: Stream | None) -> Stream:
    """A context in which a stream is that of the moment; the one that is, where none is given."""
    return Order.current if one is None else one


def synchronize(*args: Any) -> None:
    """The host waits for the stream of the moment."""
    Order.note(READ, Order.current.number, 0)
