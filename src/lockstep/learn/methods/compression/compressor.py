"""What a compressor is: a payload instead of a vector, and what is known about the loss.

    unbiased:      E C(x) = x,  E |C(x) - x|^2 <= omega |x|^2             omega: `variance_factor`
    contractive:   E |C(x) - x|^2 <= (1 - q) |x|^2,  0 < q <= 1           q: `contraction_frac`
An unbiased compressor with omega < 1 is contractive with q = 1 - omega; any unbiased one is after division by 1 +
omega, with q = 1 / (1 + omega).

One exchange between ranks (`exchange.exchange` in process, the same order over real wires):

    agreed  = mean over ranks of compressor.agree(vector, state)          if it is not None
    payload, state = compressor.compress(vector, state, generator, agreed)
    mean    = combine(compressor, payloads)                               all-reduce if `summable`, else all-gather
    state   = compressor.settle(state, mean payload)                      if `summable`

Sources: Stich, Cordonnier, Jaggi, "Sparsified SGD with memory", NeurIPS 2018 (contraction); Alistarh et al., "QSGD",
NeurIPS 2017 (variance factor); Beznosikov et al., "On biased compression for distributed learning", 2020 (relation).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.random import Generator

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.learn.methods.arrays import Array

State = Any
INDEX_BITS = (32, 64)


@dataclass(frozen=True, slots=True)
class Payload:
    """What stands for a vector of `num_elems` entries."""

    arrays: tuple[Array, ...]
    """What this rank sends."""
    num_elems: int
    agreed: Array = None
    """What the ranks averaged before; it travelled too."""
    shared: Any = None
    """What every rank knows without sending."""

    @property
    def size_B(self) -> int:
        """Bytes on the wire for one copy: values, indices, scales and what was agreed on before."""
        sent = (*self.arrays, self.agreed) if self.agreed is not None else self.arrays
        return sum(array.nbytes for array in sent)


class Compressor(ABC):
    """One way to send less than a vector. Immutable; what it remembers is the state, which the caller keeps."""

    name: ClassVar[str]
    source: ClassVar[str]
    summable: ClassVar[bool] = False
    """Whether the mean of payloads is a payload of the mean: then an all-reduce does, else it takes an all-gather."""
    neutral: ClassVar[Mapping[str, Any] | None] = None
    """Settings that lose nothing, if there are any."""
    summary: ClassVar[str] = ""
    """What it sends, in a few words: how it is listed as a training method; empty for one that is none."""
    with_feedback: ClassVar[Mapping[str, Any] | None] = {}
    """Settings that differ with error feedback: what it remembers must not be made up for as well.

    None for errors unbounded relative to the vector, which feedback would pile up (Karimireddy et al. 2019, section 3).
    """

    @property
    def unbiased(self) -> bool:
        """Whether the mean over random draws is the vector itself."""
        return False

    def variance_factor(self, num_elems: int) -> float | None:
        """omega for vectors of that many entries; None for a biased compressor or where no vector-free bound exists."""
        return None

    def contraction_frac(self, num_elems: int) -> float | None:
        """q that holds for every vector of that many entries; None where there is none above 0."""
        omega = self.variance_factor(num_elems)
        return None if omega is None or omega >= 1 else 1 - omega

    @abstractmethod
    def size_B(self, num_elems: int, value_B: int = 4) -> float | None:
        """Bytes of a payload by formula, indices included; None where it depends on the vector."""

    def start(self, vector: Array) -> State:
        """The state before the first `vector` [...] of that shape."""
        return None

    def agree(self, vector: Array, state: State) -> Array | None:
        """What the ranks average before they compress `vector` [...]; None for most."""
        return None

    @abstractmethod
    def compress(
        self, vector: Array, state: State, generator: Generator, agreed: Array | None = None
    ) -> tuple[Payload, State]:
        """(payload, next state) of `vector` [...].

        `generator` draws what is random, the same numbers for numpy and torch; equal generators on all ranks draw the
        same. `agreed` is the mean of what `agree` returned, this rank's own by default.
        """

    @abstractmethod
    def decompress(self, payload: Payload) -> Array:
        """The vector [elems] that a payload stands for."""

    def settle(self, state: State, mean: Payload) -> State:
        """The state once the mean payload of all ranks is known."""
        return state


def check_share(value: float, name: str) -> None:
    """Raises `BadInput` unless 0 < value <= 1."""
    if not 0 < value <= 1:
        raise BadInput(f"{name} = {value:g}: it must be above 0 and at most 1 (1 sends everything)", name)


def check_index_bits(index_bits: int) -> None:
    """Raises `BadInput` unless indices are of 32 or 64 bits."""
    if index_bits not in INDEX_BITS:
        raise BadInput(f"index_bits = {index_bits}: indices have 32 or 64 bits", "index_bits")


def kept_elems(keep_frac: float, num_elems: int) -> int:
    """How many of `num_elems` entries a share keeps: rounded, at least one."""
    return max(1, round(keep_frac * num_elems))
