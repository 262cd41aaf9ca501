"""A captured step beside a profile of it: kernels by the calls that launched them, and what is of another step."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from small_traces import GEMM, annotation, write

import lockstep
from lockstep.base.errors import BadInput
from lockstep.describe.captured import Captured, Operation
from lockstep.describe.hardware import cluster
from lockstep.explain.captured_calls import CallRow, CallsBeside, CapturedStep, base_name, calls_beside
from lockstep.explain.gather import gather
from lockstep.explain.read.operators import read_operators
from lockstep.explain.seen import see
from lockstep.price.kernels.captured import priced_calls
from lockstep.price.step.captured import captured_time

ON = cluster("h100-sxm:1")
LINEAR = "512x256:float32;256x1024:float32", "512x1024:float32"
ROW = "512x1024:float32"
Event = dict[str, Any]


def call(name: str, read: str, given: str, module: str, phase: str = "forward", flops: int = 0) -> Operation:
    return Operation(f"aten.{name}", phase, f"{read};{given}", read.count(";") + 1, flops, module=module)


PRODUCT = 2 * 512 * 256 * 1024
STEP = tuple(
    one
    for layer in range(3)
    for one in (
        call("view.default", ROW, ROW, f"blocks.{layer}"),
        call("mm.default", *LINEAR, f"blocks.{layer}.up", flops=PRODUCT),
        call("_to_copy.default", ROW, "512x1024:bfloat16", f"blocks.{layer}"),
        call("relu_.default", ROW, ROW, f"blocks.{layer}"),
    )
)
RAN = [
    ("aten::linear aten::matmul aten::mm", "512x256", 100.0),
    ("aten::to aten::_to_copy aten::copy_", "512x1024", 30.0),
    ("aten::relu_ aten::clamp_min_", "512x1024", 20.0),
] * 3  # fmt: skip


def captured(operations: Sequence[Operation] = STEP, **program: object) -> Captured:
    said = {"script": "train.py", "arguments": [], "rank": 0, "ranks": 1, "groups": [], "tf32": [], **program}
    return Captured(said, tuple(operations), ())


def step(number: int, ran: Sequence[tuple[str, str, float]], last: int = 0) -> list[Event]:
    """A step in which operators lie in one another, and the innermost launches a kernel of so many microseconds."""
    at = 10_000.0 * number
    found = [annotation(f"ProfilerStep#{number}", at, 9_000)]
    for place, (around, shape, took_us) in enumerate(ran):
        begins = at + 300 + 400 * place
        external = 1000 * number + 10 * place + last
        for depth, name in enumerate(around.split()):
            args = {"External id": external + depth, "Input Dims": [[int(one) for one in shape.split("x")]]}
            found.append(host(name, "cpu_op", begins + depth, 50 - 2 * depth, args))
        inner = external + len(around.split()) - 1
        found.append(host("cudaLaunchKernel", "cuda_runtime", begins + 10, 3, {"correlation": inner}))
        args = {"stream": 7, "device": 0, "correlation": inner, "External id": inner}
        ran_on = {"ph": "X", "cat": "kernel", "name": GEMM, "pid": 0, "tid": 7, "ts": begins + 60, "dur": took_us}
        found.append({**ran_on, "args": args})
    return found


def host(name: str, category: str, ts: float, dur: float, args: Event) -> Event:
    return {"ph": "X", "cat": category, "name": name, "pid": 100, "tid": 100, "ts": ts, "dur": dur, "args": args}


def beside(
    folder: Path, events: Sequence[Event], found: Captured | None = None, world: int | None = None
) -> CallsBeside:
    path = write(folder / "run.json", events, None if world is None else 0, world or 1)
    found = found or captured()
    priced = priced_calls(found, ON.device)
    time = captured_time(found, ON, priced)
    seen = see(gather([path]).traces)
    return calls_beside(CapturedStep("step.capture", found, ON, priced, time, 0.0, 1.0), read_operators(path), seen, 0)


def rows(found: CallsBeside) -> dict[str, CallRow]:
    return {one.operation: one for one in found.rows}


STEPS = [event for number in (1, 2, 3) for event in step(number, RAN)]


def test_kernels_belong_to_the_outermost_operator_that_is_a_call(tmp_path: Path) -> None:
    found = beside(tmp_path, STEPS)
    us = {name: (one.calls, one.profiled, 1e6 * one.measured_s) for name, one in rows(found).items()}
    assert us == {
        "mm": (3, 3, pytest.approx(300)),
        "copy": (3, 3, pytest.approx(90)),
        "relu": (3, 3, pytest.approx(60)),
    }
    assert found.matched_frac == pytest.approx(1.0)
    assert (found.times, found.apart) == (1.0, ())


def test_what_is_priced_is_all_that_the_calls_are_priced_at(tmp_path: Path) -> None:
    found = beside(tmp_path, STEPS)
    assert sum(one.priced_s for one in found.rows) == pytest.approx(found.step.time.device_s)
    assert sum(one.priced_s for one in found.places) == pytest.approx(found.step.time.device_s)
    assert sum(one.measured_s for one in found.places) == pytest.approx(450e-6)
    measured_s, priced_s = (sum(column) for column in zip(*found.shares.values(), strict=True))
    assert measured_s == pytest.approx(found.measured_s)
    assert priced_s == pytest.approx(found.step.time.step_time_s)


def test_the_same_operation_of_every_layer_is_one_row_of_its_module(tmp_path: Path) -> None:
    slow = [(*one[:2], 100.0 * (1 + place)) for place, one in enumerate(RAN)]
    found = beside(tmp_path, [event for number in (1, 2, 3) for event in step(number, slow)])
    us = {(one.module, one.operation): (one.calls, 1e6 * one.measured_s) for one in found.places}
    assert us == {
        ("blocks.*.up", "mm"): (3, pytest.approx(100 + 400 + 700)),
        ("blocks.*", "copy"): (3, pytest.approx(200 + 500 + 800)),
        ("blocks.*", "relu"): (3, pytest.approx(300 + 600 + 900)),
    }


def test_kernels_of_no_call_are_a_row_of_their_own(tmp_path: Path) -> None:
    alien = [*RAN, ("CompiledFunction triton_poi_fused", "512x1024", 75.0)]
    found = beside(tmp_path, [event for number in (1, 2, 3) for event in step(number, alien)])
    assert 1e6 * rows(found)["(not in the capture)"].measured_s == pytest.approx(75)
    assert found.matched_frac == pytest.approx(450 / 525)


def test_operations_that_run_more_often_are_compared_in_sum_alone(tmp_path: Path) -> None:
    more = [*RAN, RAN[2]]
    found = beside(tmp_path, [event for number in (1, 2, 3) for event in step(number, more)])
    assert (rows(found)["relu"].calls, rows(found)["relu"].profiled) == (3, 4)
    assert {one.operation for one in found.places} == {"mm", "copy"}
    assert found.matched_frac == pytest.approx(390 / 470)


@pytest.mark.parametrize(
    ("ran", "program", "said"),
    [
        (RAN * 2, {}, "calls of the capture run 2 times in a step of the profile"),
        (
            [(name, "64x256" if shape == "512x256" else shape, took) for name, shape, took in RAN],
            {},
            "3 of 9 calls read other shapes: mm reads 64x256 in the profile and 512x256 in the capture",
        ),
        (RAN, {"ranks": 1, "world": 8}, "the profile is of 8 ranks, the capture of 1"),
    ],
)
def test_a_profile_of_another_step_is_said_to_be_one(
    tmp_path: Path, ran: list[tuple[str, str, float]], program: dict[str, Any], said: str
) -> None:
    world = program.pop("world", None)
    events = [event for number in (1, 2, 3) for event in step(number, ran)]
    assert any(said in one for one in beside(tmp_path, events, captured(**program), world).apart)


def test_a_profile_without_steps_is_refused(tmp_path: Path) -> None:
    events = [one for one in STEPS if not one["name"].startswith("ProfilerStep")]
    with pytest.raises(BadInput, match=r"call step\(\) of torch.profiler"):
        beside(tmp_path, events)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("aten.relu_.default", "relu"), ("aten::relu_", "relu"), ("aten.mul.out", "mul"), ("aten::mul", "mul"),
        ("aten._foreach_add_.List", "_foreach_add"), ("aten::cudnn_batch_norm", "native_batch_norm"),
        ("aten.clone.default", "copy"), ("aten::copy_", "copy"), ("mine.norm.default", "mine.norm"),
        ("mine::norm", "mine.norm"), ("all-reduce", "all-reduce"), ("ProfilerStep#3", "ProfilerStep#3"),
    ],
)  # fmt: skip
def test_names_of_calls_and_of_operators_meet(name: str, base: str) -> None:
    assert base_name(name) == base


EXAMPLE = Path(__file__).parents[2] / "examples" / "pretrain.capture"
PROFILE = Path(__file__).parent / "h100" / "fused.json.gz"


def test_the_verb_says_what_is_missing(tmp_path: Path) -> None:
    for words, said in (
        ({"file": PROFILE, "measured": "1s"}, "does not belong to a captured step"),
        ({"file": EXAMPLE.with_name("watched.log")}, "needs a profile of the program"),
        ({"file": PROFILE, "model": "llama3-8b"}, "does not belong to a captured step"),
        ({"file": PROFILE, "tp": 2}, "does not belong to a captured step"),
    ):
        with pytest.raises(BadInput, match=said):
            lockstep.diagnose(**words, capture=EXAMPLE)


def test_a_profile_of_another_model_is_not_passed_off_as_the_captured_one() -> None:
    found = lockstep.diagnose(PROFILE, capture=EXAMPLE, at={"layers": 3, "batch": 2}, fail_above="10%")
    assert found.captured is not None
    assert any("times in a step" in one or "other shapes" in one for one in found.captured.apart)
    said = found.to_dict()
    assert said["captured"]["apart"]
    assert said["step_time_s"]["predicted"] == found.captured.step.time.step_time_s
    assert found.ok is (found.measured_s <= 1.1 * found.captured.step.time.step_time_s)
