"""What kernels do: by the names of today's libraries, by where they ran, and by who launched them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_runner import run
from diagnosis.small_traces import GEMM, Event, annotation, kernel, steps, write
from lockstep.explain.classes import CLASSES, class_of
from lockstep.explain.measure import measure
from lockstep.explain.read.kineto import read_kineto

STEP_US = 10_000
NAMES = {
    "communication": (
        "void deep_ep::internode::dispatch<true, 12>(int4*, float*)",
        "void deep_ep::intranode::cached_notify_combine<8>(void**, int*)",
        "deep_ep::internode_ll::combine",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<__half>()",
        "void tensorrt_llm::kernels::twoShotAllReduceKernel<__half, 8>()",
        "void aiter::cross_device_reduce_2stage<__hip_bfloat16, 8>()",
        "quickreduce::allreduce_prototype_twoshot<int>",
        "mscclKernel_Sum_half_Simple_false(ncclDevComm*)",
        "ncclSymkDevKernel_AllGather_ST(ncclSymkDevWorkArgs4K)",
        "kuserbuffers_pushrecv(int)",
    ),
    "matmul": (
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 24576u, 1536u>()",
        "bmm_E4m3_E4m3E4m3_Fp32_t128x8x128u2_s7_et64x8_m64x8x32_cga1x1x1_16dp256b_TN_transOut_schedS_sm100f",
        "Custom_Cijk_Alik_Bljk_F8BS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x128",
        "_ZN2ck16tensor_operation27kernel_gemm_xdl_cshuffle_v3ILb1EEE",
        "aiter::fmoe_fp8_blockscale_g1u1_vs_silu_1tg_32x256",
        "_matmul_ogs_NNT_bf16xbf16xbf16_128x256x64x1",
        "_w8a8_block_fp8_matmul",
        "_ZN2ck16tensor_operation6device12_GLOBAL__N_149kernel_grouped_conv_fwd_multiple_abd_xdl_cshuffleINS_34Gridwise"
        "GemmMultipleD_xdl_cshuffleItttftNS_5TupleIJEEE_NSA_IJLi2ELi3EEEEES19_",
        "fused_moe_kernel",
        "void marlin::Marlin<__half, 256, 1, 8>()",
        "triton_tem_fused_mm_12",
        "nvjet_qqtst_192x192_128x4_2x1_v_bz_coopA_TNT",
    ),
    "attention": (
        "cudnn_generated_fort_native_sdpa_sm100_flash_bprop_wgmma_f16_knob_1",
        "void flashinfer::BatchPrefillWithPagedKVCacheKernel<1, 64>()",
        "aiter::fmha_bwd_hd128_bf16_causal_br_a32_psskddv",
        "_attn_bwd_dkdv",
        "_attn_fwd",
        "mla_a8w8_qh16_qseqlen1_gqaratio16",
        "chunk_gated_delta_rule_fwd_kernel_h_blockdim64",
        "fmhaSm100fKernel_QkvE4m3OBfloat16HQk192HV128",
    ),
    "norm": (
        "_rms_norm_backward_kernel",
        "void transformer_engine::normalization::ln_bwd_tuned_kernel<int>()",
        "void flashinfer::norm::FusedAddRMSNormKernel<8, __half>()",
        "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_3",
        "void cuComputePartGradGammaBeta<float, float>()",
    ),
    "elementwise": (
        "_swiglu_forward_kernel",
        "_geglu_tanh_backward_kernel",
        "liger_cross_entropy_kernel",
        "void transformer_engine::detail::cast_transpose_fused_kernel<true>()",
        "_per_token_group_quant_8bit",
        "void vllm::moe::topkGatingSoftmax<8, 256>()",
        "moe_align_block_size_kernel",
        "triton_poi_fused_add_mul_silu_0",
    ),
    "optimizer": (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>()",
        "kOptimizerStatic8bit2StateBlockwise<__nv_bfloat16, 0, 256, 1>",
        "adamw_fused_kernel",
    ),
}
"""Names as the libraries write them, by what they do."""


@pytest.mark.parametrize("kind", NAMES)
def test_kernels_of_todays_libraries_have_their_class(kind: str) -> None:
    """W15: DeepEP, TensorRT-LLM's products and others were unknown, or counted as elementwise."""
    assert {name: CLASSES[class_of(name)] for name in NAMES[kind]} == dict.fromkeys(NAMES[kind], kind)


def parts(path: Path) -> dict[str, float]:
    return {one.part: one.measured_s or 0.0 for one in measure([read_kineto(path)]).parts}


def updating(inside: str, before: str = GEMM) -> list[Event]:
    """Two steps of 4 ms, then 5 ms launched inside the step of an optimizer."""
    events: list[Event] = []
    for number, at in ((1, 1000), (2, 11_000)):
        events.append(annotation(f"ProfilerStep#{number}", at, STEP_US))
        events += [one for place in range(4) for one in kernel(at + 100 + 1000 * place, 1000, before)]
        events.append(annotation("Optimizer.step#Muon.step", at + 4030, 5000))
        events += [one for place in range(5) for one in kernel(at + 4100 + 1000 * place, 1000, inside)]
    return events


def test_what_an_optimizer_launches_is_the_update(tmp_path: Path) -> None:
    """W15: the products of Muon are no work of a layer."""
    found = parts(write(tmp_path / "a.json", updating(GEMM)))
    assert found["optimizer"] == pytest.approx(5e-3, rel=1e-6)
    assert found["compute.matmul"] == pytest.approx(4e-3, rel=1e-6)


def test_a_step_inside_its_optimizer_is_no_update(tmp_path: Path) -> None:
    """As with a closure, which runs the whole step there."""
    found = parts(write(tmp_path / "a.json", updating("flash_bwd_kernel", GEMM)))
    assert "optimizer" not in found
    assert found["compute.attention"] == pytest.approx(5e-3, rel=1e-6)


def test_operators_of_an_update_on_a_cpu_are_of_the_optimizer(tmp_path: Path) -> None:
    events: list[Event] = []
    for number, at in ((1, 1000), (2, 11_000)):
        events += [
            annotation(f"ProfilerStep#{number}", at, 9990),
            annotation("Optimizer.step#AdamW.step", at + 5000, 4000),
        ]
        for begin, name in ((0, "aten::mm"), (5000, "aten::_foreach_add_"), (7000, "aten::mul_")):
            where = {"ph": "X", "cat": "cpu_op", "pid": 100, "tid": 100, "args": {}}
            events.append({**where, "name": name, "ts": at + begin + 10, "dur": 1900})
    found = parts(write(tmp_path / "a.json", events))
    assert found["optimizer"] == pytest.approx(3.8e-3, rel=1e-6)


@pytest.mark.parametrize("on", [20, 7])
def test_an_unknown_kernel_on_a_stream_that_sends_is_communication(tmp_path: Path, on: int) -> None:
    """On a stream that computes it stays unknown, and is named before all other numbers, with its share."""
    events: list[Event] = []
    for number, at in ((1, 1000), (2, 11_000)):
        events.append(annotation(f"ProfilerStep#{number}", at, STEP_US))
        events += [one for place in range(4) for one in kernel(at + 100 + 1000 * place, 1000)]
        events += kernel(at + 4100, 1000, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", stream=20)
        events += kernel(at + 5200, 3000, "zebra_step_17", stream=on)
    path = write(tmp_path / "a.json", events)
    found = parts(path)
    share = sum(value for name, value in found.items() if name.partition(".")[0].endswith("_comm"))
    assert share == pytest.approx(4e-3 if on == 20 else 1e-3, rel=1e-6)
    told = run("diagnose", str(path))
    assert told.code == 0
    first = told.out.index("Where the time goes")
    assert ("zebra_step_17" in told.out[:first] and "43%" in told.out[:first]) == (on == 7)


def test_a_trace_without_a_backward_pass_is_refused(tmp_path: Path) -> None:
    """W16: a run of inference was read as a training step whose tensor-parallel traffic was data-parallel."""
    forward = steps([4, 4], [STEP_US] * 2) + kernel(6000, 500, "void flash::flash_fwd_splitkv_mla_kernel<int>()")
    path = write(tmp_path / "inference.json", forward)
    assert "holds no backward pass" in run("diagnose", str(path)).refusal()
    words = ("--model", "llama3-8b", "-c", "dgx-h100:1", "--batch", "8")
    assert "holds no backward pass" in run("diagnose", str(path), *words).refusal()
    for more in (
        kernel(7000, 500, "void flash::flash_bwd_dq_dk_dv_loop_kernel<int>()"),
        kernel(7000, 500, "multi_tensor_apply_kernel<FusedAdam>"),
        [annotation("Optimizer.step#SGD.step", 7000, 500)],
        [{"ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: MmBackward0", "pid": 1, "tid": 2,
          "ts": 7000, "dur": 5, "args": {"External id": 9}}],
    ):  # fmt: skip
        assert run("diagnose", str(write(tmp_path / "training.json", forward + more))).code == 0
