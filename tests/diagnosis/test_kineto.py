"""Traces of PyTorch's profiler: what is read, what must not matter, and files that are damaged."""

from __future__ import annotations

import dataclasses
import gzip
import json
import random
from pathlib import Path

import numpy as np
import pytest

from lockstep.base.errors import BadInput
from lockstep.explain.align import align
from lockstep.explain.classes import CLASSES, class_of, op_of
from lockstep.explain.predicted import Shown, traces_of
from lockstep.explain.ranks import all_ranks
from lockstep.explain.read.kineto import read_kineto
from lockstep.explain.seen import Seen, see
from lockstep.explain.steps import steps_of
from lockstep.explain.trace import RankTrace
from lockstep.explain.write_kineto import kineto_events, write_kineto
from lockstep.show.verbs.estimate import estimate
from lockstep.simulate.play import Noise, parse_law, simulate

STEP = 12


@pytest.fixture(scope="module")
def traces() -> list[RankTrace]:
    """Four steps of eight ranks of a pipeline with tensor parallelism, every operation with noise of its own."""
    found = estimate("gpt2-medium", "dgx-h100:1", tp=2, pp=2, micro_batch=1, batch=8, seq=1024, zero=1)
    one = all_ranks(found, range(8))
    noise = Noise(per_operation=parse_law("lognormal:mean=1,cv=0.03"))
    lines = [simulate(one.program, noise=noise, seed=seed) for seed in range(4)]
    return traces_of(lines, Shown.of(one), world=8)


def told(seen: Seen) -> list[dict[str, float]]:
    """Parts of every rank in order of the ranks, of one step."""
    (number,) = {place for place, step in enumerate(seen.steps) if step == STEP}
    return [each[number] for each in seen.parts()]


def same(one: list[dict[str, float]], two: list[dict[str, float]]) -> None:
    """The same parts, to the nanosecond that a file keeps of an event."""
    assert len(one) == len(two)
    for first, second in zip(one, two, strict=True):
        assert sum(first.values()) == pytest.approx(sum(second.values()), abs=1e-7)
        for name in set(first) | set(second):
            assert first.get(name, 0.0) == pytest.approx(second.get(name, 0.0), abs=2e-5), name


def read(paths: list[Path]) -> Seen:
    """The files of a run, of the one step that all of them have whole."""
    return see([read_kineto(path) for path in paths], steps=(STEP,))


def written(traces: list[RankTrace], folder: Path, **how: object) -> list[Path]:
    """A plain file of every rank."""
    paths = [folder / f"{trace.rank}.json" for trace in traces]
    for trace, path in zip(traces, paths, strict=True):
        write_kineto(trace, path, **how)  # type: ignore[arg-type]
    return paths


def test_written_kineto_traces_are_read_back(traces: list[RankTrace], tmp_path: Path) -> None:
    """Spans, classes, groups, launches and sizes come back."""
    trace = traces[3]
    (path,) = written([trace], tmp_path)
    back = read_kineto(path)
    assert (back.rank, back.world) == (trace.rank, trace.world)
    assert back.groups == trace.groups
    assert len(back.spans) == len(trace.spans)
    shift = trace.spans.start_s[0] - back.spans.start_s[0]
    order = np.lexsort((trace.spans.stream, trace.spans.end_s, trace.spans.start_s))
    mine = np.lexsort((back.spans.stream, back.spans.end_s, back.spans.start_s))
    np.testing.assert_allclose(back.spans.end_s[mine] + shift, trace.spans.end_s[order], atol=2e-9 * 1e3)
    assert sorted(back.spans.kind.tolist()) == sorted(trace.spans.kind.tolist())
    assert np.isfinite(back.spans.called_s).all()
    sizes = [round(size) for size in back.spans.size_B[back.spans.communicates].tolist()]
    assert sum(sizes) == pytest.approx(trace.spans.size_B.sum(), rel=1e-6)


def test_every_step_is_the_sum_of_its_parts(traces: list[RankTrace], tmp_path: Path) -> None:
    """Exactly, and nothing is negative."""
    seen = see([read_kineto(path) for path in written(traces, tmp_path)])
    for each, parts in zip(seen.partitions, seen.parts(), strict=True):
        for one, of in zip(each, parts, strict=True):
            assert sum(of.values()) == pytest.approx(one.window.seconds, rel=1e-12)
            assert min(of.values()) >= 0


def test_irrelevant_differences_of_traces_change_nothing(traces: list[RankTrace], tmp_path: Path) -> None:
    """Clocks, order of events, compression and order of files."""
    plain = told(read(written(traces, tmp_path)))
    chance, paths = random.Random(1), []
    for trace in traces:
        path = tmp_path / f"other-{trace.rank}.json.gz"
        order = np.random.default_rng(trace.rank)
        write_kineto(trace, path, clock_s=chance.uniform(0, 300), base_ns=chance.randrange(10**18), order=order)
        paths.append(path)
    chance.shuffle(paths)
    same(plain, told(read(paths)))


def test_lost_launches_and_groups_change_only_idle_causes(traces: list[RankTrace], tmp_path: Path) -> None:
    """Of a fifth of the kernels launch and group are lost: nothing changes but causes of idle time, by microseconds."""
    plain, lost = told(read(written(traces, tmp_path))), told(read(written(traces, tmp_path, seen=0.8)))
    for first, second in zip(plain, lost, strict=True):
        idle = [sum(seconds for name, seconds in one.items() if name.startswith("idle.")) for one in (first, second)]
        assert idle[1] == pytest.approx(idle[0], abs=2e-6)
        assert sum(second.values()) == pytest.approx(sum(first.values()), abs=2e-6)
        for name in set(first) | set(second):
            within_s = 1e-4 if name.startswith("idle.") else 2e-6
            assert second.get(name, 0.0) == pytest.approx(first.get(name, 0.0), abs=within_s), name


def test_lost_groups_are_recovered(traces: list[RankTrace], tmp_path: Path) -> None:
    """By their places in other steps and the ends of other ranks' collectives, whatever the clocks."""
    paths = [tmp_path / f"lost-{trace.rank}.json" for trace in traces]
    for trace, path in zip(traces, paths, strict=True):
        write_kineto(trace, path, clock_s=3.0 * (trace.rank or 0), seen=0.8)
    read_back = [read_kineto(path) for path in paths]
    assert sum(int(trace.lost_group.sum()) for trace in read_back) > 100
    plain, named, total = {trace.rank: collectives(trace) for trace in traces}, 0, 0
    for trace in align(read_back).traces:
        for known, group in zip(plain[trace.rank], collectives(trace), strict=True):
            assert group in ("", known)
            named, total = named + (group != ""), total + 1
    assert named > 0.99 * total


def collectives(trace: RankTrace) -> list[str]:
    """Groups of its collectives, stream by stream in order of their starts, to the nanosecond that a file keeps."""
    spans = trace.spans.at(trace.spans.communicates)
    after_s = np.round(spans.start_s - spans.start_s.min(), 8)
    order = np.lexsort((spans.name, np.round(spans.end_s - spans.start_s, 8), after_s, spans.stream))
    return [trace.name(int(spans.group[i])) for i in order.tolist()]


def test_a_lost_step_annotation_is_recovered(traces: list[RankTrace]) -> None:
    """Its step lies between those before and after it; two in a row are no step, and the others stay."""
    trace = traces[2]
    whole = steps_of(trace).windows
    for lost, kept in (((11,), (10, 11, 12, 13)), ((11, 12), (10, 13))):
        marks = tuple(one for one in trace.marks if one.name not in {f"ProfilerStep#{step}" for step in lost})
        found = steps_of(dataclasses.replace(trace, marks=marks)).windows
        assert [one.step for one in found] == list(kept)
        for one in found:
            assert one == next(other for other in whole if other.step == one.step)


def test_drifting_clocks_are_aligned(traces: list[RankTrace], tmp_path: Path) -> None:
    """Hosts' clocks run apart by parts in a million: partners, parts and ends are those of clocks that do not."""
    plain = told(read(written(traces, tmp_path)))
    drift = {trace.rank: 20e-6 * (trace.rank or 0) for trace in traces}
    drifting = [trace.clocked(1.0 + drift[trace.rank], 0.0) for trace in traces]
    seen = read(written(drifting, tmp_path))
    same(plain, told(seen))
    assert seen.aligned.matched_frac == 1.0
    assert seen.aligned.end_skew_s == pytest.approx(0.0, abs=5e-8)
    for trace, found in zip(seen.traces, seen.aligned.drift_frac, strict=True):
        assert found == pytest.approx(drift[trace.rank], abs=1e-7)


@pytest.mark.parametrize("late", [1, 4, 10])
def test_traces_with_a_late_start_are_aligned(traces: list[RankTrace], tmp_path: Path, late: int) -> None:
    """Some ranks miss the first collectives; partners are found all the same."""
    plain = told(read(written(traces, tmp_path)))
    paths = []
    for trace in traces:
        path = tmp_path / f"late-{trace.rank}.json"
        write_kineto(trace, path, clock_s=7.5 * (trace.rank or 0))
        if (trace.rank or 0) % 3 == 1:
            data = json.loads(path.read_text())
            starts = sorted(e["ts"] for e in data["traceEvents"] if e["cat"] == "kernel" and "nccl" in e["name"])
            data["traceEvents"] = [e for e in data["traceEvents"] if e["ts"] > starts[late - 1]]
            path.write_text(json.dumps(data))
        paths.append(path)
    same(plain, told(read(paths)))


def test_ends_of_matched_collectives_coincide(traces: list[RankTrace], tmp_path: Path) -> None:
    """Which is the test of a match."""
    paths = [tmp_path / f"{trace.rank}.json.gz" for trace in traces]
    for trace, path in zip(traces, paths, strict=True):
        write_kineto(trace, path, clock_s=11.0 * (trace.rank or 0))
    found = align([read_kineto(path) for path in paths])
    assert found.matched_frac == 1.0
    assert found.end_skew_s is not None
    assert found.end_skew_s < 1e-8


def test_one_rank_cannot_separate_transfer_from_waiting(traces: list[RankTrace], tmp_path: Path) -> None:
    """Transfer and waiting are one number."""
    (path,) = written(traces[:1], tmp_path)
    seen = see([read_kineto(path)])
    assert any("one rank" in line for line in seen.not_known)
    assert not any(name.endswith((".waiting", ".transfer")) for each in seen.parts()[0] for name in each)


@pytest.mark.parametrize(
    ("name", "operator", "kind"),
    [
        ("triton_red_fused__log_softmax_backward_data_div_mm_backward_mul_5", "", "elementwise"),
        ("void at::native::cunn_SoftMaxForward<4, float, LogSoftMaxForwardEpilogue>(...)", "", "elementwise"),
        ("void at::native::cunn_SoftMaxForward<4, float, SoftMaxForwardEpilogue>(...)", "", "attention"),
        ("triton_tem_fused_mm_3", "", "matmul"),
        ("nvjet_tst_192x192_64x3_2x1_v_bz_coopB_NNN", "", "matmul"),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>(...)", "", "matmul"),
        ("Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32", "", "matmul"),
        ("void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnBwdSm90<...>>>", "", "attention"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "", "communication"),
        ("void deep_ep::internode::dispatch<...>", "", "communication"),
        ("void split_embedding_codegen_forward_unweighted_kernel<...>(fbgemm_gpu::...)", "", "elementwise"),
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<...>", "", "optimizer"),
        ("XXT_kernel", "", "unknown"),
        ("my_kernel", "aten::addmm", "matmul"),
        ("Memcpy DtoD (Device -> Device)", "", "copy"),
    ],
)
def test_kernels_are_classified_by_name_and_operator(name: str, operator: str, kind: str) -> None:
    """By the first pattern found in the name, else by the operator."""
    assert CLASSES[class_of(name, operator)] == kind


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("_reduce_scatter_base", "reduce-scatter"), ("allreduce", "all-reduce"), ("_allgather_base", "all-gather"),
        ("ncclDevKernel_SendRecv", "send-recv"), ("send", "send"), ("recv", "recv"), ("all_to_allv", "all-to-all"),
    ],
)  # fmt: skip
def test_collective_names_are_recognised_in_every_spelling(text: str, op: str) -> None:
    """However they are written."""
    assert op_of(text) == op


EVENT = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1.0, "dur": 2.0, "args": {"stream": 7}}


def document(*events: object, **head: object) -> str:
    """A trace of some events."""
    return json.dumps({**head, "traceEvents": list(events)})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("{}", "holds no traceEvents"),
        ('{"traceEvents": []}', "holds no traceEvents"),
        ("no json", "is not a JSON object"),
        (document(EVENT)[:-30], "ends in the middle"),
        (document(EVENT).replace('"dur"', "dur"), "is not JSON, at byte"),
        (document(EVENT, 3), "event 2 is not an object"),
        (document(EVENT | {"dur": -1}), "event 1 ('gemm'): it takes -1 microseconds"),
        (document(EVENT | {"ts": float("nan")}), "event 1 ('gemm'): its time is not a number"),
        (document(EVENT | {"ts": "soon"}), "event 1 is damaged"),
        (document(EVENT | {"args": 5}), "event 1 is damaged"),
        (document(EVENT, EVENT | {"ts": 1e300}), "lie too far apart"),
        (document({"ph": "X", "cat": "other", "name": "x", "ts": 1, "dur": 1}), "neither kernels nor operators"),
        (document(EVENT, distributedInfo={"rank": "one"}), "the head of the trace is damaged"),
        ('{"traceEvents": ' + "[" * 5000, "nested too deeply"),
    ],
)
def test_damaged_traces_are_refused_at_their_place(text: str, why: str, tmp_path: Path) -> None:
    """Are bad input, with the place."""
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(BadInput) as raised:
        read_kineto(path)
    assert why in raised.value.message
    assert raised.value.where == str(path)


def test_trailing_commas_and_bare_event_lists_are_read(tmp_path: Path) -> None:
    """Are accepted, as other readers of such files do."""
    path = tmp_path / "trace.json"
    path.write_text(document(EVENT).replace("]}", ",]}"))
    assert len(read_kineto(path).spans) == 1
    path.write_text(json.dumps([EVENT, EVENT]))
    assert len(read_kineto(path).spans) == 2


def test_a_truncated_gzip_file_is_refused(traces: list[RankTrace], tmp_path: Path) -> None:
    """Says so."""
    path = tmp_path / "trace.json.gz"
    write_kineto(traces[0], path)
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(BadInput, match="cut off"):
        read_kineto(path)
    path.write_bytes(gzip.compress(b"x")[:8])
    with pytest.raises(BadInput, match="cut off"):
        read_kineto(path)


def test_traces_of_different_runs_are_refused(traces: list[RankTrace], tmp_path: Path) -> None:
    """Two of one rank, ranks of different runs, none said, and no step in common."""
    one, two = (read_kineto(path) for path in written(traces[:2], tmp_path))
    with pytest.raises(BadInput, match="give one file per rank"):
        align([one, one])
    with pytest.raises(BadInput, match="runs with 8 and 16 ranks"):
        align([one, dataclasses.replace(two, world=16)])
    with pytest.raises(BadInput, match="does not state its rank"):
        align([one, dataclasses.replace(two, rank=None)])
    others = tuple(dataclasses.replace(mark, name=f"ProfilerStep#{100 + i}") for i, mark in enumerate(two.marks))
    with pytest.raises(BadInput, match="no step in common"):
        align([one, dataclasses.replace(two, marks=others)])
    with pytest.raises(BadInput, match="none of the requested steps"):
        see([one], steps=(99,))


def test_events_are_read_in_chunks(traces: list[RankTrace], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a chunk ends, numbers and names come out whole."""
    (path,) = written(traces[:1], tmp_path)
    whole = read_kineto(path)
    for chunk in (37, 1000):
        monkeypatch.setattr("lockstep.explain.read.json_stream.CHUNK_B", chunk)
        again = read_kineto(path)
        np.testing.assert_array_equal(again.spans.start_s, whole.spans.start_s)
        assert again.names == whole.names


def test_exported_traces_have_the_expected_number_of_events(traces: list[RankTrace]) -> None:
    """One kernel and two events of its launch for every operation, one annotation per step."""
    trace = traces[0]
    assert len(list(kineto_events(trace))) == 3 * len(trace.spans) + len(trace.marks)
