"""Products in pieces, and beside a kernel that holds multiprocessors: `check/validation/tables/product_pieces.csv`.

    python benchmarks/gpu_pieces.py

Products of a layer's shapes in bf16, whole, in four pieces of their rows one after another, on two and on four streams,
and whole while a kernel that does nothing holds 4 to 32 multiprocessors. The median of nine means of four.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import cupy
import torch
from torch import Tensor

SHAPES = (
    (8192, 2560, 8192), (8192, 8192, 2048), (8192, 14336, 8192), (8192, 8192, 7168), (4096, 8192, 7168),
    (4096, 8192, 2048), (2048, 12288, 3072), (8192, 12288, 3072), (8192, 4096, 3584), (8192, 1536, 4096),
)  # fmt: skip
HELD = (4, 8, 16, 24, 32)
PIECES, REPEATS, SETTLING, MEAN = 4, 12, 3, 4
SHARED_B, LIMIT_CYCLES, HEAD_START_CYCLES = 200_000, 20_000_000, 200_000
"""Shared memory that leaves no room for another block, clocks after which the kernel ends, and before the products."""
HOLD = r"""
extern "C" __global__ void hold(int* released, long long limit) {
  extern __shared__ char room[];
  long long start = clock64();
  while (*((volatile int*)released) == 0 && clock64() - start < limit) __nanosleep(200);
}
"""


def main() -> None:
    """Prints the rows."""
    hold = cupy.RawModule(code=HOLD).get_function("hold")
    hold.max_dynamic_shared_size_bytes = SHARED_B
    released, side = torch.zeros(1, dtype=torch.int32, device="cuda"), torch.cuda.Stream()
    streams = [torch.cuda.Stream() for _ in range(PIECES)]

    def seconds(run: Callable[[], object], held: int = 0) -> float:
        found = []
        for _ in range(REPEATS):
            released.zero_()
            torch.cuda.synchronize()
            if held:
                with cupy.cuda.ExternalStream(side.cuda_stream):
                    hold((held,), (32,), (released.data_ptr(), LIMIT_CYCLES), shared_mem=SHARED_B)
            torch.cuda._sleep(HEAD_START_CYCLES)
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(MEAN):
                run()
            end.record()
            end.synchronize()
            released.fill_(1)
            torch.cuda.synchronize()
            found.append(start.elapsed_time(end) * 1e3 / MEAN)
        return statistics.median(found[SETTLING:])

    def in_pieces(x: Tensor, w: Tensor, many: int) -> None:
        current = torch.cuda.current_stream()
        begun = current.record_event()
        for number, piece in enumerate(x.chunk(PIECES)):
            stream = streams[number % many] if many else current
            stream.wait_event(begun)
            with torch.cuda.stream(stream):
                piece @ w
        for stream in streams[:many]:
            current.wait_stream(stream)

    for number, (m, n, k) in enumerate(SHAPES, 1):
        x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        w = torch.randn(n, k, device="cuda", dtype=torch.bfloat16).t()
        found = [seconds(lambda x=x, w=w: x @ w)]
        found += [seconds(lambda x=x, w=w, many=many: in_pieces(x, w, many)) for many in (0, 2, 4)]
        found += [seconds(lambda x=x, w=w: x @ w, held) for held in HELD]
        print(f"pp{number:02d},{m},{n},{k}," + ",".join(f"{one:.1f}" for one in found), flush=True)


if __name__ == "__main__":
    main()
