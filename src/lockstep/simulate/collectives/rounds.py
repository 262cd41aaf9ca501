"""`Rounds`: writes a collective's program round by round, for many equal groups of ranks at once.

In a round every rank sends at most one message and receives at most one; its next round starts when both are done, as
with MPI_Sendrecv. A received message that must be added goes to `inbox` first and is reduced on the receive port.
Groups are a matrix `members[group, index] -> rank`; chunks are in elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.cost import LinkLike
from lockstep.simulate.program import Kind, Program, ProgramBuilder


def cut(start: Number, stop: Number, parts: int) -> Array:
    """Boundaries [..., parts + 1] of the balanced shares of [start, stop): the first ones are larger by one element."""
    start, stop = np.asarray(start, dtype=np.int64), np.asarray(stop, dtype=np.int64)
    each, larger = np.divmod(stop - start, parts)
    index = np.arange(parts + 1)
    offset = index * each[..., np.newaxis] + np.minimum(index, larger[..., np.newaxis])
    return np.asarray(start[..., np.newaxis] + offset)


def everyone(ranks: int) -> Array:
    """Members [1, ranks] of the one group of all ranks."""
    return np.arange(ranks)[np.newaxis, :]


def fold(ranks: int) -> tuple[Array, Array, Array]:
    """(core [core], absorbed [extra], absorber [extra]): members of the power of two, extra ones, who takes each in.

    Member 2j + 1 is absorbed by member 2j for the first ranks - 2^k pairs.
    """
    extra = ranks - (1 << ranks.bit_length() - 1)
    absorbed = 2 * np.arange(extra) + 1
    return np.delete(np.arange(ranks), absorbed), absorbed, absorbed - 1


class Rounds:
    """A program under construction: `ranks`, bytes per element, and the last operations of every rank.

    Every rank has `ports` send and receive ports: streams send, recv, send2, recv2, ...
    """

    def __init__(
        self, ranks: int, element_B: float, builder: ProgramBuilder | None = None, port: int = 0, ports: int = 2
    ) -> None:
        self.ranks = ranks
        self.first_switch = ranks
        """Switches that reduce are numbered after the ranks."""
        self.over: LinkLike | None = None
        """The link that messages to and from switches take; the network's own between ranks."""
        self.element_B = element_B
        self.builder = ProgramBuilder(ranks, _streams(range(ports))) if builder is None else builder
        self.send_stream, self.recv_stream = _streams([port])
        self.last = np.full((ranks, 2), -1, dtype=np.int64)

    @staticmethod
    def with_switches(ranks: int, switches: int, ports: int, element_B: float) -> Rounds:
        """A program of `ranks`, and beside them of switches with a port for each of `ports` members of a group."""
        rounds = Rounds(ranks + switches, element_B, ports=max(2, ports))
        rounds.first_switch = ranks
        return rounds

    def start(self, members: Array, start_s: float) -> None:
        """Work of `start_s` on each of `members` before whatever comes next; none for 0."""
        if start_s:
            rank = np.ravel(members)
            self.last[rank, 0] = self.builder.extend(
                Kind.COMPUTE, rank, duration_s=start_s, stream=self.send_stream, after=self.last[rank]
            )

    def through(self, port: int) -> Rounds:
        """The same program through every rank's send and receive port number `port` (from 0), starting now."""
        other = Rounds(self.ranks, self.element_B, self.builder, port)
        other.last = self.last.copy()
        return other

    def join(self, other: Rounds) -> None:
        """Whatever comes next waits for the other port too."""
        self.last = np.concatenate((self.last, other.last), axis=1)

    def messages(
        self,
        source: Whole,
        destination: Whole,
        start: Whole,
        stop: Whole,
        *,
        reduce: bool = False,
        buffer: str = "data",
        to_buffer: str | None = None,
        to_start: Whole | None = None,
        after: Whole | None = None,
    ) -> Array:
        """One round: message k takes elements [start, stop) of `buffer` from source[k] to destination[k].

        They land at `to_start` (default: the same place) of `to_buffer`, or are added there when `reduce`. Both sides
        wait for their last round; with `after` only the send waits, for after[k], and the rest is the order on the
        ports. Returns the operation that completes each message at its destination.
        """
        shape = np.broadcast(source, destination, start, stop).shape
        source, destination, start, stop = (_flat(a, shape) for a in (source, destination, start, stop))
        if not source.size:
            return np.zeros(0, dtype=np.int64)
        to_buffer = buffer if to_buffer is None else to_buffer
        to_start = start if to_start is None else _flat(to_start, shape)
        to_stop = to_start + stop - start
        size_B = (stop - start) * self.element_B
        sends = self.builder.extend(
            Kind.SEND, source, peer=destination, size_B=size_B, stream=self.send_stream, buffer=buffer,
            chunk_start=start, chunk_stop=stop, after=self.last[source] if after is None else np.ravel(after),
        )  # fmt: skip
        done = self.builder.extend(
            Kind.RECV, destination, peer=source, size_B=size_B, stream=self.recv_stream,
            buffer="inbox" if reduce else to_buffer, chunk_start=to_start, chunk_stop=to_stop,
            after=self.last[destination] if after is None else None,
        )  # fmt: skip
        self.last[source, 0] = sends
        if reduce:
            ready = done
            if after is None and buffer == to_buffer:
                # A rank that swaps the same elements must not add before it has sent them.
                swapped = self._sends_some_of(source, start, stop, destination, to_start, to_stop)
                ready = np.stack((done, np.where(swapped, self.last[destination, 0], -1)), axis=1)
            done = self.builder.extend(
                Kind.REDUCE, destination, size_B=size_B, stream=self.recv_stream, buffer=to_buffer, source="inbox",
                chunk_start=to_start, chunk_stop=to_stop, after=ready,
            )  # fmt: skip
        self.last[destination, 1] = done
        return done.reshape(shape)

    def _sends_some_of(self, source: Array, start: Array, stop: Array, rank: Array, first: Array, last: Array) -> Array:
        """Whether rank[k], in a round where source[j] sends [start[j], stop[j]), sends any of [first[k], last[k])."""
        sent = np.zeros((2, self.ranks), dtype=np.int64)
        sent[:, source] = start, stop
        return np.asarray((first < sent[1, rank]) & (sent[0, rank] < last))

    def copies(self, rank: Whole, start: Whole, stop: Whole, source: str, source_start: Whole, buffer: str) -> None:
        """Local copies buffer[start:stop) = source[source_start:...), free of time, after all the rank did so far."""
        shape = np.broadcast(rank, start, stop, source_start).shape
        rank, start, stop, source_start = (_flat(a, shape) for a in (rank, start, stop, source_start))
        if not rank.size:
            return
        done = self.builder.extend(
            Kind.COPY, rank, size_B=(stop - start) * self.element_B, stream=self.recv_stream, buffer=buffer,
            source=source, chunk_start=start, chunk_stop=stop, source_start=source_start, after=self.last[rank],
        )  # fmt: skip
        self.last[rank, 1] = done

    def rotate(self, members: Array, edges: Array, back: bool = False) -> Callable[[int], Array]:
        """Copies `data` to `rotated` so that member i's own share comes first and runs never wrap; `back` undoes it.

        Returns place(k)[group, member]: where the share k places after the member's own begins in `rotated`.
        """
        ranks = members.shape[1]
        start, stop, own = edges[:, :1], edges[:, -1:], edges[:, :-1]
        pieces = ((own, stop, start), (start, own, start + stop - own))
        for first, last, moved in pieces:
            if back:
                self.copies(members, first, last, "rotated", moved, "data")
            else:
                self.copies(members, moved, moved + last - first, "data", first, "rotated")

        def place(k: int) -> Array:
            turns, share = np.divmod(np.arange(ranks) + k, ranks)
            return np.asarray(start + edges[:, share] - own + turns * (stop - start))

        return place

    def build(self) -> Program:
        """The checked program."""
        return self.builder.build()


def _flat(values: Whole, shape: tuple[int, ...]) -> Array:
    """The values of every place, in one row."""
    array = np.asarray(values)
    return (array if array.shape == shape else np.broadcast_to(array, shape)).ravel()


def _streams(ports: Iterable[int]) -> list[str]:
    """Names of the streams of some ports: the first without a number."""
    return [f"{name}{port + 1 if port else ''}" for port in ports for name in ("send", "recv")]
