"""Seconds and bytes per second of every compressor at several sizes, as ratios to a copy of the same bytes.

    python benchmarks/compression.py [--sizes 65536,4194304,67108864] [--rounds 5]

A round copies the vector, then compresses it and restores it with every compressor in turn, so that whatever else the
machine does falls on all. `x copy` is the median time over that of the copy in the same rounds; `of size` is what is
sent. `B*` is the bandwidth below which two ranks that exchange once save time, (bytes saved) / (seconds), at equal
steps. The last table has the steps too: `converge compression-time` with the time measured here.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

import lockstep
from lockstep.learn.methods.compression import COMPRESSORS, Compressor, compressor

KINDS: tuple[tuple[str, dict[str, object], bool], ...] = (
    *((name, {}, False) for name in COMPRESSORS if name not in ("none", "threshold")),
    ("threshold", {"threshold": 2.576}, False),
    ("one-bit", {}, True), ("top-k", {"keep_frac": 0.01}, True), ("power-sgd", {"rank": 4}, True),
)  # fmt: skip
"""Every compressor with its own settings, the threshold at 1 % of normal entries; some with the memory for the rest."""


def seconds(action: Callable[[], object]) -> float:
    """Of one call."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def trip(made: Compressor, vector: np.ndarray) -> tuple[Callable[[], None], Callable[[], int]]:
    """(compresses and restores once more, size of the last payload)."""
    draw, last = np.random.default_rng(1), [0]
    state = [made.start(vector)]

    def once() -> None:
        payload, state[0] = made.compress(vector, state[0], draw)
        made.decompress(payload)
        last[0] = payload.size_B

    return once, lambda: last[0]


def table(size_B: int, rounds: int) -> None:
    """All compressors at one size."""
    vector = np.random.default_rng(0).standard_normal(size_B // 4).astype(np.float32)
    target = np.empty_like(vector)
    made = {
        f"{name}{'+ef' * memory} {', '.join(f'{key}={value}' for key, value in words.items())}".strip():
        compressor(name, error_feedback=memory, **words) for name, words, memory in KINDS
    }  # fmt: skip
    trips = {name: trip(one, vector) for name, one in made.items()}
    taken: dict[str, list[float]] = {name: [] for name in ("copy", *made)}
    for turn in range(rounds + 1):
        for name in taken:
            found = seconds(lambda: np.copyto(target, vector)) if name == "copy" else seconds(trips[name][0])
            if turn:
                taken[name].append(found)
    copy_s = statistics.median(taken["copy"])
    print(f"\n{size_B:,} B; copy {copy_s * 1e6:,.0f} us, {size_B / copy_s / 1e9:.1f} GB/s; medians of {rounds} rounds")
    print(f"{'':<26}{'ms':>10}{'GB/s':>8}{'x copy':>9}{'of size':>9}{'B* GB/s':>9}")
    for name in made:
        middle_s, sent_B = statistics.median(taken[name]), trips[name][1]()
        print(
            f"{name:<26}{middle_s * 1e3:>10.3f}{size_B / middle_s / 1e9:>8.2f}{middle_s / copy_s:>9.1f}"
            f"{sent_B / size_B:>9.3f}{max(size_B - sent_B, 0) / middle_s / 1e9:>9.2f}",
            flush=True,
        )


def runs() -> None:
    """Break-even with the steps to the target, by the time measured here."""
    found = lockstep.converge("compression-time", {"compress_time": "measured"})
    print("\n100 million entries, 8 ranks, compute 0.1 s a step, steps counted on a quadratic, time measured here")
    print(f"{'':<26}{'steps':>10}{'B* GB/s':>10}")
    for row in found.rows:
        edge = row["break_even_Bps"]
        said = "" if edge is None else "never" if edge == 0 else f"{edge / 1e9:.2f}"
        print(f"{row['compressor']:<26}{row['steps'] or 'none':>10}{said:>10}")


def main() -> None:
    """Prints a table per size, and one of whole runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="65536,4194304,67108864", help="bytes of fp32")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    for size_B in (int(word) for word in given.sizes.split(",")):
        table(size_B, given.rounds)
    runs()


if __name__ == "__main__":
    main()
