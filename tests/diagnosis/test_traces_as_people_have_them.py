"""Traces from public reports: steps without work, kernels over user buffers, no rank, exchanges of gloo with shapes."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_runner import run
from diagnosis.small_traces import Event, annotation, kernel, steps, write
from lockstep.explain.classes import CLASSES, class_of, op_of
from lockstep.explain.measure import measure
from lockstep.explain.read.kineto import read_kineto
from lockstep.explain.steps import steps_of, used

FULL_US = 10_000
OPERATOR = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 100, "tid": 100, "ts": 1100, "dur": 50, "args": {}}]
"""Of a rank that exchanges nothing."""


def numbers(path: Path) -> list[int]:
    return [one.step for one in steps_of(read_kineto(path)).windows]


def test_a_last_step_without_work_is_ignored(tmp_path: Path) -> None:
    """N3: one step of 10 ms and an annotation of 50 us were two steps of 4.978 ms."""
    found = measure([read_kineto(write(tmp_path / "a.json", steps([10, 0], [FULL_US, 50])))])
    assert found.inputs[0].steps == (1,)
    assert found.step_time_s == pytest.approx(10e-3, rel=1e-6)
    assert {one.part: one.measured_s for one in found.parts}["compute.matmul"] == pytest.approx(9e-3, rel=1e-6)
    assert [one.count for one in found.kernels] == [10]


@pytest.mark.parametrize(
    ("kernels", "kept"),
    [
        ((0, 10, 10), [2, 3]),
        ((0, 0, 10, 10, 0), [3, 4]),
        ((10, 10, 10, 10), [1, 2, 3, 4]),
        ((10, 0, 10), [1, 3]),
        ((10, 5, 10), [1, 2, 3]),
        ((10,), [1]),
        ((0, 0), [1, 2]),
    ],
)
def test_steps_are_chosen_by_their_work(tmp_path: Path, kernels: tuple[int, ...], kept: list[int]) -> None:
    """Those of warming up and the rest behind training have none; half of the work is a step."""
    lengths = [FULL_US if count else 50 for count in kernels]
    events = steps(kernels, lengths) + (kernel(9e6, 10) if not any(kernels) else [])
    assert numbers(write(tmp_path / "a.json", events)) == kept


def test_quick_steps_among_delayed_ones_are_kept(tmp_path: Path) -> None:
    """As many operations in a twentieth of the time: on a busy machine most of the others waited."""
    events = steps([10] * 3, [FULL_US] * 3)
    for number, at in ((4, 1000 + 3 * (FULL_US + 5)), (5, 2000 + 3 * (FULL_US + 5))):
        events.append(annotation(f"ProfilerStep#{number}", at, 600))
        events += [event for place in range(10) for event in kernel(at + 10 + 55 * place, 45)]
    assert numbers(write(tmp_path / "a.json", events)) == [1, 2, 3, 4, 5]


def test_a_pause_between_steps_does_not_lengthen_them(tmp_path: Path) -> None:
    """A step of 3 s in which nothing runs, as of a checkpoint, does not make its neighbours longer."""
    trace = read_kineto(write(tmp_path / "a.json", steps([10, 0, 10], [FULL_US, 3e6, FULL_US])))
    assert [one.seconds for one in steps_of(trace).windows] == pytest.approx([10e-3, 10e-3], rel=0.02)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(
    st.integers(0, 3), st.integers(1, 5), st.integers(0, 3), st.integers(3, 10), st.floats(20, 90),
)  # fmt: skip
def test_empty_steps_at_the_ends_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, before: int, full: int, after: int, count: int, empty_us: float
) -> None:
    """However many there are: the steps used are those of the same trace without them."""
    path = tmp_path_factory.getbasetemp() / "drawn.json"
    kernels = [0] * before + [count] * full + [0] * after
    lengths = [FULL_US if one else empty_us for one in kernels]
    found = steps_of(read_kineto(write(path, steps(kernels, lengths, first=7)))).windows
    assert [one.step for one in found] == list(range(7 + before, 7 + before + full))
    assert [one.seconds for one in used(found)] == pytest.approx([10e-3] * len(used(found)), rel=0.02)
    assert all(low.end_s == high.start_s for low, high in pairwise(found))


def test_collectives_of_a_single_step_give_no_recurrence(tmp_path: Path) -> None:
    """Nothing is measured between them, and no warning of numpy is printed."""
    events = steps([5] * 4, [FULL_US] * 4) + kernel(1000 + FULL_US + 9000, 500, "ncclDevKernel_AllReduce(int)", 20)
    assert steps_of(read_kineto(write(tmp_path / "a.json", events))).disagreement_frac == 0


def test_files_of_several_profiler_cycles_are_one_run(tmp_path: Path) -> None:
    """N8: schedule(repeat=2) and TensorBoard's folder have a file per cycle and rank; they were refused."""
    whole = steps([5] * 8, [FULL_US] * 8)
    begins = [one["ts"] for one in whole if one["cat"] == "user_annotation"]
    cycles = {(2, 3): (begins[1], begins[3]), (6, 7): (begins[5], begins[7])}
    files = []
    for rank in (0, 1):
        for number, (low, high) in enumerate(cycles.values()):
            chosen = [one for one in whole if low <= one["ts"] < high]
            files.append(write(tmp_path / f"rank{rank}.{number}.json", chosen, rank))
    found = run("diagnose", *map(str, files), "--json").json()
    assert [one["steps"] for one in found["inputs"]] == [[3, 6], [3, 6]]
    assert found["step_time_s"]["measured"] == pytest.approx(10e-3, rel=0.02)
    alone = measure([read_kineto(one) for one in files[:2]], steps=(2, 3, 6, 7))
    assert alone.step_time_s == pytest.approx(10e-3, rel=0.02)
    assert {one.name: one.count for one in alone.kernels} == {
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas": 5
    }


def test_profiler_cycles_without_ranks_are_one_run(tmp_path: Path) -> None:
    """One device has no torch.distributed; two files of the same steps are still two ranks that nobody can tell."""
    files = []
    for number in (0, 1):
        events = [
            {**one, "ts": one["ts"] + 1e6 * number} for one in steps([4, 4], [FULL_US] * 2, first=10 * number + 1)
        ]
        files.append(write(tmp_path / f"{number}.json", events, rank=None))
    assert measure([read_kineto(one) for one in files]).inputs[0].steps == (2, 11)
    again = write(tmp_path / "again.json", steps([4, 4], [FULL_US] * 2), rank=None)
    assert "does not state its rank" in run("diagnose", str(files[0]), str(again)).refusal()


def test_files_of_one_rank_that_overlap_are_refused(tmp_path: Path) -> None:
    """Other steps at the same time are of another run."""
    files = [write(tmp_path / f"{first}.json", steps([4, 4], [FULL_US] * 2, first=first)) for first in (1, 5)]
    assert "give one file per rank" in run("diagnose", *map(str, files)).refusal()


def test_reduce_scatter_over_user_buffers_is_communication(tmp_path: Path) -> None:
    """N5: 5 ms of Transformer Engine's reduce-scatter were norms and elementwise kernels."""
    name = "void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop(int, int)"
    events: list[Event] = []
    for number, at in ((1, 1000), (2, 11_000)):
        events.append(annotation(f"ProfilerStep#{number}", at, FULL_US))
        for place in range(4):
            events += kernel(at + 100 + 1000 * place, 1000)
        events += kernel(at + 4100, 5000, name, stream=20)
    found = measure([read_kineto(write(tmp_path / "a.json", events))])
    parts = {one.part: one.measured_s for one in found.parts}
    assert parts["compute.matmul"] == pytest.approx(4e-3, rel=1e-6)
    assert sum(seconds or 0 for part, seconds in parts.items() if part.startswith("dp")) == pytest.approx(
        5e-3, rel=1e-6
    )
    assert [one.op for one in found.collectives] == ["reduce-scatter"]


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("userbuffers_fp16_sum_inplace_gpu_rw<8>(int, int)", "all-reduce"),
        ("userbuffers_fp16_sum_inplace_gpu_mc(int)", "all-reduce"),
        ("userbuffers_fp16_sum_inplace_gpu_rw_ag(int)", "all-gather"),
        ("userbuffers_fp16_sum_inplace_gpu_mc_rs_oop(int)", "reduce-scatter"),
        ("userbuffers_fp16_sum_inplace_gpu_rr_rs_oop_fp8<__nv_fp8_e4m3>(int)", "reduce-scatter"),
        ("kuserbuffers_pushsendrecv(int)", "send-recv"),
        ("kuserbuffers_pushsend(int)", "send"),
        ("kuserbuffers_alltoall(int)", "all-to-all"),
        ("mscclKernel_Sum_half_Simple_LL128()", ""),
        ("mscclpp::allreduce7<__half>(int)", "all-reduce"),
    ],
)
def test_communication_kernels_of_other_libraries_are_recognised(name: str, op: str) -> None:
    """Transformer Engine's userbuffers.cu, and MSCCL."""
    assert CLASSES[class_of(name)] == "communication"
    assert op_of(name) == op


def test_a_trace_without_a_rank_is_named_after_its_file(tmp_path: Path) -> None:
    """N7: its kernels of unknown class were those of `rank None`."""
    events = [annotation("ProfilerStep#1", 1000, FULL_US), *kernel(1100, 5000, "mystery(int)")]
    path = write(tmp_path / "a.json", events, rank=None)
    told = run("diagnose", str(path))
    assert told.code == 0
    assert "None" not in told.out
    assert any(
        "a.json is of kernels whose class is unknown" in note
        for note in run("diagnose", str(path), "--json").json()["not_known"]
    )


def test_gloo_collectives_have_the_size_of_their_tensors(tmp_path: Path) -> None:
    """N7: with shapes recorded, as PyTorch 2.13 writes them; a part of an all-gather is not its size."""
    shapes = {
        "all_reduce": ([[1000], [8, 4]], ["float", "c10::BFloat16"], 4064.0),
        "broadcast": ([[10, 10]], ["double"], 800.0),
        "all_gather": ([[1000]], ["float"], None),
        "reduce": ([[[5], [5]]], ["TensorList"], None),
        "barrier": ([], [], None),
    }
    events = [annotation(f"ProfilerStep#{number}", 1000 + 5000 * number, 4990) for number in range(2)]
    for number in range(2):
        for place, (name, (dims, kinds, _)) in enumerate(shapes.items()):
            args = {"Input Dims": dims, "Input type": kinds}
            events.append(annotation(f"gloo:{name}", 1100 + 5000 * number + 300 * place, 200, args))
    found = measure([read_kineto(write(tmp_path / "a.json", events))])
    sizes = {one.op.replace("-", "_"): one.size_B for one in found.collectives}
    assert sizes == {name: size_B for name, (_, _, size_B) in shapes.items()}


def node(record: int, name: str, shapes: list[object], kinds: list[str]) -> Event:
    """A node of an execution trace, as PyTorch 2.13 writes it."""
    attributes = [{"name": "rf_id", "type": "uint64", "value": record}]
    inputs = {"values": [], "shapes": shapes, "types": kinds, "strides": []}
    return {"id": 7 * record, "name": name, "ctrl_deps": 2, "inputs": inputs, "attrs": attributes}


def test_execution_traces_have_the_sizes_of_gloos_exchanges(tmp_path: Path) -> None:
    """N11: beside the profiler's trace of the same process they say what that one does not record."""
    one, several = "Tensor(float)", "GenericList[Tensor(float)]"
    nodes = [
        node(101, "gloo:all_reduce", [[1000]], [one]),
        node(103, "gloo:all_gather", [[8, 4]], [one]),
        node(102, "c10d::allgather_", [[[[8, 4], [8, 4]]], [[8, 4]]], [f"GenericList[{several}]", several]),
        node(105, "gloo:broadcast", [[10]], ["Tensor(double)"]),
        node(107, "gloo:scatter", [[6]], [one]),
        node(106, "c10d::scatter_", [[[6]], [[[6], [6]]]], [several, f"GenericList[{several}]"]),
        node(109, "gloo:barrier", [], []),
        node(108, "c10d::barrier", [[1]], ["Tensor(unsigned char)"]),
    ]
    calls = {"all_reduce": 101, "all_gather": 103, "broadcast": 105, "scatter": 107, "barrier": 109}
    events: list[Event] = []
    for number, at in ((0, 1000), (1, 6000)):
        events.append(annotation(f"ProfilerStep#{number}", at, 4990))
        for place, (name, record) in enumerate(calls.items()):
            args = {"Record function id": record + 10 * number}
            events.append(annotation(f"gloo:{name}", at + 100 + 300 * place, 200, args))
    again = [{**each, "attrs": [{**each["attrs"][0], "value": each["attrs"][0]["value"] + 10}]} for each in nodes]
    trace, other = write(tmp_path / "trace.json", events), tmp_path / "et.json"
    other.write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 100, "nodes": [*nodes, *again]}))
    found = run("diagnose", str(trace), str(other), "--json").json()
    sizes = {each["op"]: each["size_B"] for each in found["collectives"]}
    whole = {"all-reduce": 4000.0, "all-gather": 256.0, "broadcast": 80.0, "scatter": 48.0, "barrier": None}
    assert sizes == whole
    assert "execution-trace" in [each["kind"] for each in found["inputs"]]
    other.write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 100, "nodes": []}))
    silent = write(tmp_path / "silent.json", [annotation("ProfilerStep#1", 1000, FULL_US), *OPERATOR])
    assert run("diagnose", str(silent), str(other)).code == 0
    alone = run("diagnose", str(other)).refusal()
    assert "says what ran and not when" in alone
    other.write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 101, "nodes": nodes}))
    assert "the trace of torch.profiler of the same process" in run("diagnose", str(trace), str(other)).refusal()
    other.write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 100, "nodes": [{"name": "gloo:send"}]}))
    assert "one of its nodes is damaged" in run("diagnose", str(trace), str(other)).refusal()
