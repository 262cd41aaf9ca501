"""What a trace shows behind the parts: counts and rates against those that the traces were made with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_refit import with_shapes

import lockstep
from lockstep.explain.answer import Collective
from lockstep.explain.evidence import short, with_predicted
from lockstep.explain.measure import measure
from lockstep.explain.partition import GAP_S
from lockstep.explain.predicted import Shown, traces_of
from lockstep.explain.ranks import all_ranks
from lockstep.explain.read.kineto import read_kineto
from lockstep.explain.replay import Replay, same
from lockstep.explain.write_kineto import write_kineto
from lockstep.show.verbs.estimate import estimate
from lockstep.simulate.program import Kind
from published_traces import published_trace


def test_late_kernel_launches_are_counted() -> None:
    """Computations of the program wait for their launches, and nothing else does; what is too short to tell is none."""
    found = estimate("gpt2-medium", "dgx-h100:1", tp=8, micro_batch=1, batch=2, seq=1024, overlap_tp="none")
    one = all_ranks(found, range(8))
    late = replace(same(8, 1), host_s=np.full((1, 8), 0.5 * found.step_time_s))
    replay = Replay(one, late)
    waited = replay.durations_s(late.names, 0)[1]
    seen = measure(traces_of([replay.timeline(late.names, 0)] * 4, Shown.of(one), [waited] * 4, world=8))
    told = {part.part: part.evidence for part in seen.parts}
    mine = (one.program.rank == 0) & (np.array(one.part) == "compute") & (one.program.kind == Kind.COMPUTE)
    # The step's own host work comes before the barrier that ends it.
    assert told["idle.host"].startswith(f"{int((mine & (waited > 2 * GAP_S)).sum()) + 1} of ")
    assert told["tp_comm.transfer"].startswith("all-reduce at ")
    assert told["optimizer"] == "1 kernel"


def test_products_with_recorded_shapes_have_rates(tmp_path: Path) -> None:
    """Shapes are written by which every product reaches half of the peak, some longer than others."""
    found = estimate("llama3-8b", "dgx-h100:1", tp=8, micro_batch=1, batch=8, seq=4096)
    one, peak = all_ranks(found, range(8)), found.cluster.device.peak("bf16")
    (trace,) = traces_of([Replay(one, same(8, 1)).timeline((), 0)] * 4, Shown.of(one))[:1]
    path = tmp_path / "0.json"
    write_kineto(trace, path)
    assert all(kernel.flops_per_s is None for kernel in measure([read_kineto(path)]).kernels)
    with_shapes(path, peak, max_frac=0.5)
    seen = measure([read_kineto(path)])
    for kernel in seen.kernels:
        assert (kernel.flops_per_s is not None) == (kernel.kind == "matmul")
        assert kernel.flops_per_s is None or kernel.flops_per_s == pytest.approx(0.5 * peak, rel=0.02)
    told = next(part.evidence for part in seen.parts if part.part == "compute.matmul")
    assert " kernels at 49" in told


def test_measured_rates_are_listed_beside_predicted_ones() -> None:
    """A run as predicted reaches the rates predicted; a size that nobody predicted has none."""
    one = Collective("dp", "all-reduce", 1e9, 1.0, busbw_Bps=2e11)
    (row,) = with_predicted([one], [replace(one, busbw_Bps=3e11), replace(one, size_B=1.5e9, busbw_Bps=4e11)])
    assert (row.busbw_Bps, row.predicted_busbw_Bps) == (2e11, 3e11)
    for other in (replace(one, size_B=5e9), replace(one, group="tp"), replace(one, op="all-gather")):
        assert with_predicted([one], [other]) == (one,)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::Add<float>, char*>(int)",
         "vectorized_elementwise_kernel"),
        ("void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnBwdSm90<flash::Main<2> > > >(P)",
         "FlashAttnBwdSm90"),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_16x6_nt_align4>(Params)",
         "cutlass_80_tensorop_s1688gemm_128x64_16…"),
        ("nvjet_tst_192x192_64x3_2x1_v_bz_coopB_NNN", "nvjet_tst_192x192_64x3_2x1_v_bz_coopB_N…"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD"),
    ],
)  # fmt: skip
def test_kernel_names_are_shortened(name: str, said: str) -> None:
    """What it is called without the template around it."""
    assert short(name).strip() == said


def test_evidence_of_a_real_trace_counts_kernels_and_launches() -> None:
    """DDP on two A100: most launches come late; attention of modded-nanogpt is FlashAttention-3."""
    told = real("hta_ddp_2xa100.rank0.json.gz")
    late, total = told["idle.host"].replace(",", "").split()[0:3:2]
    assert float(late) > 0.5 * float(total)
    assert "FlashAttn" in real("modded_nanogpt_20251031_after.rank0.json.gz")["compute.attention"]


def real(name: str) -> dict[str, str]:
    """By part, of a real trace."""
    seen = lockstep.diagnose(published_trace(name)).seen
    assert seen is not None
    return {one.part: one.evidence for one in seen.parts}
