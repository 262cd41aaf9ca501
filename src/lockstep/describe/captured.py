"""`Captured`: a training step as a program does it, read from the file that `lockstep capture` wrote.

A zip of `program.json` (what ran, on which card, what it asked), `operations.csv` (name, phase, shapes of what is read
and given, FLOPs, in order), `modules.txt` (the module of each of them) and `tensors.csv` (bytes; how many operations
after the tensor before it a tensor is made, and how many it lives; what it is). The peak is the largest sum of bytes
that live at once, each tensor in whole blocks of the allocator.

A line of `modules.txt` is `7,3,self_attn.q_proj`: 7 operations of one module, whose name begins with the first 3 parts
of the name in the line before. A layer's lines are then those of every other layer, but for the one with its number.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache
from itertools import groupby, takewhile
from math import prod

import numpy as np

from lockstep.base.documents.files import File, open_file
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json

SCHEMA = 5
PACKED = zipfile.ZIP_LZMA
"""Layers that repeat are further apart than the window of deflate: this takes a tenth of its bytes."""
SIZES = {
    "float64": 8, "int64": 8, "complex64": 8, "float32": 4, "int32": 4, "bfloat16": 2, "float16": 2, "int16": 2,
}  # fmt: skip
"""Bytes of an element; 1 of all other formats."""
PROGRAM, OPERATIONS, MODULES, TENSORS = "program.json", "operations.csv", "modules.txt", "tensors.csv"
FIELDS: dict[str, type] = {
    "script torch untimed": str,
    "parameters trained_parameters rank ranks": int,
    "arguments values notes groups tf32": list,
    "card": dict,
}
"""What the program says of itself, by type."""
ASKED: dict[str, type] = {"place": str, "kind": str, "times": int}
"""What it says of a value that it asked for."""
SHAPES = re.compile(r"(?:\d{0,18}(?:x\d{1,18})*:\w{1,30}(?:;|$))*")
"""Of the tensors of a call."""
CATEGORIES = ("parameters", "gradients", "optimizer", "activations", "buffers")
REDUCTION = "reduction"
"""The phase of sums of gradients that follow a backward pass."""
RECORD, WAIT, READ = "record", "wait", "read"
"""Rows of streams: an event, a stream that waits for one, and the host that waits for an event or a stream."""
POINT_TO_POINT = ("send", "recv")
COLLECTIVES = (
    *("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce", "gather", "scatter"),
    *POINT_TO_POINT,
)
MOST_TENSOR_B = 1 << 60
MOST_PARTS = 100
"""Of the name of a module, that another one may share."""
BLOCK_B = 512
"""To whose multiple the allocator of a GPU rounds a tensor up."""
MOST_B = 1 << 30
"""Bytes of a part of the file, unpacked."""


def tensor_B(shape: tuple[int, ...], dtype: str) -> int:
    """Bytes of a tensor."""
    return prod(shape) * SIZES.get(dtype, 1)


def blocks_B(size_B: int) -> int:
    """Bytes that the allocator of a GPU gives a tensor of `size_B` bytes."""
    return -(-size_B // BLOCK_B) * BLOCK_B


@dataclass(frozen=True, slots=True)
class Operation:
    """A call of PyTorch on the card."""

    name: str
    phase: str
    """forward, backward, recompute, reduction or optimizer."""
    shapes: str
    """Of the tensors that it reads and then of those that it gives, `4x2048:bfloat16;...`."""
    reads: int
    """How many of these it reads."""
    flops: int
    causal: bool = False
    """Whether it is attention under a causal mask, of which a fused kernel computes half."""
    stream: int = 0
    """In which it is in order; 0 is that of the program."""
    event: int = 0
    """What a row without work records or waits for; 0 is all that is in the stream."""
    group: str = ""
    """The ranks of a collective, by their name in the program."""
    module: str = ""
    """The module whose forward pass makes it, or made what it is the gradient of; empty where none did."""

    @property
    def is_order(self) -> bool:
        """Whether it does no work, and says what follows what."""
        return self.name in (RECORD, WAIT, READ)

    @property
    def size_B(self) -> int:
        """Bytes of a collective, as nccl-tests counts them: of what is read, or given where that is more."""
        sizes_B = [tensor_B(*one) for one in self.tensors()]
        return max(sum(sizes_B[: self.reads]), sum(sizes_B[self.reads :]))

    def tensors(self) -> tuple[tuple[tuple[int, ...], str], ...]:
        """Shape and format of each tensor, those that it reads first."""
        return _tensors(self.shapes)


@lru_cache(maxsize=1 << 16)
def _tensors(shapes: str) -> tuple[tuple[tuple[int, ...], str], ...]:
    parts = (one.partition(":") for one in shapes.split(";") if one)
    return tuple((tuple(int(size) for size in shape.split("x") if size), dtype) for shape, _, dtype in parts)


@dataclass(frozen=True, slots=True)
class Life:
    """A tensor on the card."""

    size_B: int
    """What it needs; the allocator gives whole blocks."""
    born: int
    """The operation that makes it; 0 also for what the step found."""
    died: int | None
    """The operation after which its bytes are free; None where the next step finds it."""
    category: str

    @property
    def held_B(self) -> int:
        """Bytes that the allocator gives it."""
        return blocks_B(self.size_B)


@dataclass(frozen=True)
class Captured:
    """A training step."""

    program: Json
    operations: tuple[Operation, ...]
    lives: tuple[Life, ...]

    @property
    def ranks(self) -> int:
        """How many ranks the program runs on, of which this is one."""
        return int(self.program["ranks"])

    @property
    def tf32(self) -> frozenset[str]:
        """Which of its fp32 "products" and "convolutions" the program lets run in TF32."""
        return frozenset(self.program["tf32"])

    @property
    def groups(self) -> dict[str, list[int]]:
        """The ranks of every group that has a collective."""
        return {one["name"]: one["ranks"] for one in self.program["groups"]}

    @cached_property
    def live_B(self) -> np.ndarray:
        """Bytes on the card during every operation, by category: a row each."""
        change = np.zeros((len(CATEGORIES), len(self.operations) + 2))
        for one in self.lives:
            row = CATEGORIES.index(one.category)
            change[row, one.born] += one.held_B
            if one.died is not None:
                change[row, one.died + 1] -= one.held_B
        return np.cumsum(change, axis=1)[:, :-1]

    @cached_property
    def changes_B(self) -> np.ndarray:
        """Bytes that each operation makes, and that are free after it: two rows."""
        change = np.zeros((2, len(self.operations) + 1))
        for one in self.lives:
            change[0, one.born] += one.held_B
            if one.died is not None:
                change[1, one.died] += one.held_B
        return change

    @property
    def peak_at(self) -> int:
        """The operation at which most bytes are held."""
        return int(np.argmax(self.live_B.sum(axis=0)))

    @property
    def peak_B(self) -> int:
        """Bytes of tensors at the fullest moment."""
        return int(self.live_B[:, self.peak_at].sum())

    @property
    def by_category(self) -> dict[str, int]:
        """These bytes by category."""
        return {name: int(size_B) for name, size_B in zip(CATEGORIES, self.live_B[:, self.peak_at], strict=True)}

    @property
    def peak_operation(self) -> Operation:
        """The call during which most bytes are held."""
        return self.operations[min(self.peak_at, len(self.operations) - 1)]

    @property
    def flops(self) -> int:
        """FLOPs of products and attention in the step."""
        return sum(one.flops for one in self.operations)

    @property
    def by_phase(self) -> dict[str, int]:
        """Calls in each phase."""
        return dict(Counter(one.phase for one in self.operations))


def read_captured(path: File, folder: str = "") -> Captured:
    """The step in a file, or in a folder of it. Raises BadInput where it is none, or of another schema."""
    with opened(path) as file:
        program = json.loads(part(file, folder + PROGRAM))
        if not isinstance(program, dict) or program.get("schema") != SCHEMA:
            raise ValueError(f"its schema is another than {SCHEMA}; capture the program again")
        _check(program)
        rows = list(_rows(part(file, folder + OPERATIONS)))
        modules = unpacked_modules(part(file, folder + MODULES), len(rows))
        operations = tuple(map(_operation, rows, modules))
        lives = _lives(part(file, folder + TENSORS), len(operations))
        unknown = {one.group for one in operations} - {""} - {one["name"] for one in program["groups"]}
        if unknown:
            raise ValueError(f"unknown group {min(unknown)!r}")
    return Captured(program, operations, lives)


@contextmanager
def opened(path: File) -> Iterator[zipfile.ZipFile]:
    """The parts of a file. Raises BadInput where what is read of them inside is no capture: it may be anybody's."""
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as parts:
            yield parts
    except BadInput:
        raise
    except (
        *(OSError, EOFError, LookupError, TypeError, AttributeError, ValueError, RuntimeError, ArithmeticError),
        *(zipfile.BadZipFile, lzma.LZMAError, zlib.error, csv.Error),
    ) as error:
        raise BadInput(f"is not a capture of a training step: {error}", str(path)) from None


def _check(program: Json) -> None:
    """Raises ValueError where the program lacks what is read of it."""
    for names, kind in FIELDS.items():
        for name in names.split():
            if not isinstance(program.get(name), kind):
                raise ValueError(f"{PROGRAM} has no {name}")
    for one in program["groups"]:
        if not (isinstance(one["name"], str) and one["name"] and all(isinstance(rank, int) for rank in one["ranks"])):
            raise ValueError(f"{PROGRAM} has a group without ranks")
    if not all(isinstance(one[name], kind) for one in program["values"] for name, kind in ASKED.items()):
        raise ValueError(f"{PROGRAM} asks without a place")
    if not all(isinstance(one, str) for one in (*program["arguments"], *program["notes"])):
        raise ValueError(f"{PROGRAM} has arguments or notes that are no text")
    if not isinstance(program["card"].get("name"), str) or program["ranks"] < 1:
        raise ValueError(f"{PROGRAM} has no card, or no ranks")


def part(file: zipfile.ZipFile, name: str) -> str:
    """The text of a part. Raises ValueError where it is too large."""
    if file.getinfo(name).file_size > MOST_B:
        raise ValueError(f"{name} is larger than {MOST_B >> 30} GiB")
    return file.read(name).decode()


def packed_modules(names: Iterable[str]) -> str:
    """The names of modules by operation as a text: runs, and what a name does not share with the one before it."""
    lines, before = [], list[str]()
    for name, run in groupby(names):
        parts = name.split(".")
        alike = (part == other for part, other in zip(parts, before, strict=False))
        shared = min(sum(takewhile(bool, alike)), MOST_PARTS)
        # An empty end would read as none.
        shared -= shared > 0 and parts[shared:] == [""]
        lines.append(f"{sum(1 for _ in run)},{shared},{'.'.join(parts[shared:])}")
        before = parts
    return "\n".join(lines)


def unpacked_modules(text: str, operations: int) -> list[str]:
    """The name of the module of each operation. Raises ValueError where there are not as many."""
    names, parts = list[str](), list[str]()
    for line in text.split("\n") if text else ():
        times, shared, rest = line.split(",", 2)
        if not (0 < int(times) <= operations - len(names) and 0 <= int(shared) <= min(len(parts), MOST_PARTS)):
            raise ValueError(f"{MODULES} has {line[:40]!r}")
        parts = parts[: int(shared)] + (rest.split(".") if rest or not int(shared) else [])
        names += [".".join(parts)] * int(times)
    if len(names) != operations:
        raise ValueError(f"{MODULES} has {len(names):,} names for {operations:,} operations")
    return names


def _rows(text: str) -> Iterator[dict[str, str]]:
    return csv.DictReader(io.StringIO(text, newline=""))


def _operation(row: dict[str, str], module: str) -> Operation:
    reads, flops, causal, stream, event = (int(row[name]) for name in ("reads", "flops", "causal", "stream", "event"))
    last = stream, event, row["group"], module
    if flops < 0 or reads < 0:
        raise ValueError("a call has less than no FLOPs, or tensors")
    return Operation(row["name"], row["phase"], _shapes(row["shapes"]), reads, flops, bool(causal), *last)


@lru_cache(1 << 12)
def _shapes(text: str) -> str:
    """Shapes and formats of a call; many calls are alike. Raises ValueError where they are none."""
    if not SHAPES.fullmatch(text):
        raise ValueError(f"{text[:40]!r} are no shapes")
    return text


def _lives(text: str, operations: int) -> tuple[Life, ...]:
    found, born = list[Life](), 0
    for row in _rows(text):
        if row["category"] not in CATEGORIES:
            raise ValueError(f"unknown category {row['category']!r}")
        born += int(row["later"])
        died = born + int(row["lasts"]) if row["lasts"] else None
        if not 0 <= born <= (born if died is None else died) <= operations:
            raise ValueError("a tensor lives longer than the step")
        if not 0 <= (size_B := int(row["size_B"])) <= MOST_TENSOR_B:
            raise ValueError(f"a tensor has {size_B} bytes")
        found.append(Life(size_B, born, died, row["category"]))
    return tuple(found)
