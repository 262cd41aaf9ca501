"""Calls of a captured step: bytes by arithmetic, kernels by PyTorch's chunks, and times by those of profiled steps."""

import gzip
import json
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path
from statistics import median

import pytest

from lockstep.check.validation.case import read_rows
from lockstep.describe import stacks
from lockstep.describe.captured import Captured, Operation
from lockstep.describe.hardware import Cluster, cluster, device
from lockstep.describe.stacks import find_way, stack
from lockstep.price.kernels.adapters import THIN
from lockstep.price.kernels.calls import SPREAD, call_works
from lockstep.price.kernels.captured import CALL_FRAC
from lockstep.price.kernels.clock import MIXED, WIDENED, Clock, Work
from lockstep.price.kernels.optimizer import BLOCKS, CHUNK, MULTI_TENSOR, TENSORS, launches
from lockstep.price.step.captured import captured_time

H100 = device("h100-sxm")
ON_H100 = cluster("h100-sxm:1")
CLOCKS = {name: Clock(H100, name, stack=stack("hf-trainer-5")) for name in ("bf16", "fp16", "fp32", "tf32")}
CLOCK = CLOCKS["bf16"]
PROFILES = Path(__file__).parents[1] / "diagnosis" / "h100"
LLAMA = [128256 * 2048] + 16 * [2048**2, 512 * 2048, 512 * 2048, 2048**2, *3 * [8192 * 2048], 2048, 2048] + [2048]
"""Numbers in the tensors of Llama 3.2 1B, which was profiled."""
HEADS, SLICED = "4x32x2048x64:bfloat16", "4x32x2048x32:bfloat16"
TURN = Operation("aten.transpose.int", "forward", f"4x2048x32x64:bfloat16;{HEADS}", 1, 0)
SUM = Operation("aten.add.Tensor", "forward", f"{HEADS};{HEADS};{HEADS}", 2, 0)


def works(*operations: Operation) -> list[Work]:
    return list(call_works(operations, CLOCKS))


def call(name: str, read: str, given: str = "", phase: str = "forward", flops: int = 0) -> Operation:
    reads = read.count(";") + 1
    return Operation(f"aten.{name}", phase, ";".join(one for one in (read, given) if one), reads, flops)


def seconds(*about: str, phase: str = "forward") -> float:
    return float(works(call(*about, phase=phase))[0].device_s)


def moved_s(size_B: float) -> float:
    return float(CLOCK.operations(size_B).stream_s)


@cache
def kernels_of(profile: str) -> dict[tuple[str, str, str], list[list[float]]]:
    """Microseconds of each kernel of calls, by their name, shapes and formats."""
    events = json.loads(gzip.decompress((PROFILES / f"{profile}.json.gz").read_bytes()))["traceEvents"]
    launched, found = defaultdict(list), defaultdict(list)
    for one in events:
        if one.get("cat") in ("kernel", "gpu_memset"):
            launched[one["args"].get("External id")].append(one["dur"])
    for one in events:
        if one.get("cat") == "cpu_op" and (durations := launched.get(one["args"]["External id"])):
            about = one["args"]
            shapes = [shape for shape in about["Input Dims"] if shape]
            formats = [kind for kind in about["Input type"] if kind and kind != "Scalar"]
            found[one["name"].removeprefix("aten::"), str(shapes), str(formats)].append(durations)
    return found


@pytest.mark.parametrize(("passed", "flops", "reads"), [("", 4, 3), ("_backward", 10, 6)])
def test_attention_within_sequences_of_one_batch_takes_what_a_batch_of_these_takes(
    passed: str, flops: int, reads: int
) -> None:
    """Two sequences of 2,048 tokens in one, and as two rows."""
    flops *= 2 * 32 * 64 * 2048**2
    several = call(f"_varlen_attn{passed}.default", ";".join(["4096x32x64:bfloat16"] * reads), flops=flops)
    rows = f"_scaled_dot_product_flash_attention{passed}.default"
    alone = call(rows, ";".join(["2x32x2048x64:bfloat16"] * reads), flops=flops)
    taken, expected = works(several, alone)
    assert taken.attention_s == pytest.approx(expected.attention_s)
    assert expected.attention_s > 0


WIDE, NARROW = "float", "c10::BFloat16"
MEASURED = [
    ("fused", "mul", [[4, 2048, 2048], [4, 2048, 1]], [WIDE, WIDE],
     ("mul.Tensor", "4x2048x2048:float32;4x2048x1:float32", "4x2048x2048:float32")),
    ("fused", "mul", [[4, 2048, 2048], [2048]], [WIDE, WIDE],
     ("mul.Tensor", "4x2048x2048:float32;2048:float32", "4x2048x2048:float32")),
    ("fused", "mul", [[4, 2048, 2048], [4, 2048, 2048]], [WIDE, WIDE],
     ("mul.Tensor", "4x2048x2048:float32;4x2048x2048:float32", "4x2048x2048:float32")),
    ("fused", "add", [[4, 2048, 2048], [4, 2048, 2048]], [WIDE, NARROW],
     ("add.Tensor", "4x2048x2048:float32;4x2048x2048:bfloat16", "4x2048x2048:float32")),
    ("fused", "copy_", [[4, 2048, 2048], [4, 2048, 2048]], [WIDE, NARROW],
     ("_to_copy.default", "4x2048x2048:bfloat16", "4x2048x2048:float32")),
    ("fused", "copy_", [[4, 2048, 2048], [4, 2048, 2048]], [NARROW, WIDE],
     ("_to_copy.default", "4x2048x2048:float32", "4x2048x2048:bfloat16")),
    ("fused", "_log_softmax", [[8192, 128256]], [WIDE],
     ("_log_softmax.default", "8192x128256:float32", "8192x128256:float32")),
    ("fused", "_log_softmax_backward_data", [[8192, 128256], [8192, 128256]], [WIDE, WIDE],
     ("_log_softmax_backward_data.default", "8192x128256:float32;8192x128256:float32", "8192x128256:float32")),
    ("unfused", "add", [[2, 32, 2048, 2048], [2, 1, 2048, 2048]], [NARROW, WIDE],
     ("add.Tensor", "2x32x2048x2048:bfloat16;2x1x2048x2048:float32", "2x32x2048x2048:float32")),
    ("unfused", "_softmax", [[2, 32, 2048, 2048]], [WIDE],
     ("_softmax.default", "2x32x2048x2048:float32", "2x32x2048x2048:float32")),
]  # fmt: skip


@pytest.mark.parametrize(("profile", "name", "shapes", "formats", "about"), MEASURED)
def test_kernels_of_profiled_steps_take_what_their_calls_are_priced_at(profile, name, shapes, formats, about) -> None:
    measured_s = [sum(each) * 1e-6 for each in kernels_of(profile)[name, str(shapes), str(formats)]]
    assert seconds(*about) == pytest.approx(median(measured_s), rel=0.1)


def test_softmax_is_multiplied_by_its_result_before_its_gradient() -> None:
    scores = "2x32x2048x2048:float32"
    of = kernels_of("unfused")
    shapes = str([[2, 32, 2048, 2048], [2, 32, 2048, 2048]])
    measured = [median(map(sum, of[name, shapes, str([WIDE, WIDE])])) for name in ("mul", "_softmax_backward_data")]
    (work,) = works(call("_softmax_backward_data.default", f"{scores};{scores}", scores))
    assert work.device_s == pytest.approx(sum(measured) * 1e-6, rel=0.1)
    assert work.kernels == 2


def test_rows_of_softmax_are_read_once_where_they_fit() -> None:
    for columns, passes in ((12287, 2), (12288, 4)):
        rows = f"64x{columns}:float32"
        assert seconds("_log_softmax.default", rows, rows) == pytest.approx(moved_s(passes * 64 * columns * 4))


def test_safe_softmax_looks_for_rows_that_are_masked_whole() -> None:
    scores, size = "8x1024x1024:float32", 8 * 2**20
    safe, bare = (works(call(name, scores, scores))[0] for name in ("_safe_softmax.default", "_softmax.default"))
    # Compared (4 + 1 bytes), reduced (1), and chosen (4 + 4).
    assert safe.device_s - bare.device_s == pytest.approx(moved_s(14 * size))
    assert safe.kernels == bare.kernels + 3


def test_operands_that_are_spread_or_differ_take_longer_than_their_bytes() -> None:
    wide, half, row = "1024x1024:float32", "1024x1024:bfloat16", "1024:float32"
    same, mega = seconds("add.Tensor", f"{wide};{wide}", wide), 2**20
    assert same == pytest.approx(moved_s(12 * mega))
    assert seconds("add.Tensor", f"{wide};{half}", wide) == pytest.approx(moved_s(MIXED * 10 * mega))
    assert seconds("mul.Tensor", f"{row};{wide}", wide) == pytest.approx(moved_s(MIXED * (8 * mega + 4096)))
    assert seconds("mul.Tensor", f"{half};{row}", wide) == pytest.approx(moved_s(SPREAD * (6 * mega + 4096)))
    assert seconds("_to_copy.default", half, wide) == pytest.approx(moved_s(WIDENED * 6 * mega))
    assert seconds("_to_copy.default", wide, half) == pytest.approx(moved_s(6 * mega))
    assert seconds("mul.Tensor", f"{wide};:float32", wide) == pytest.approx(moved_s(8 * mega + 4))


def test_what_a_transpose_left_is_slow_until_it_is_copied() -> None:
    slow, turned = find_way("rotary", "written").slow, find_way("heads", "gpt-neox").takes[0]
    number_B = 4 * 32 * 2048 * 64 * 2
    back = Operation("aten.add.Tensor", "backward", SUM.shapes, 2, 0)
    copy = call("clone.default", HEADS, HEADS)
    one = call("exp.default", HEADS, HEADS)
    found = [float(work.device_s) for work in works(SUM, TURN, SUM, back, one, copy, SUM)]
    plain = moved_s(3 * number_B)
    expected = [1.0, 0.0, slow[0], slow[1], 2 / 3, turned * 2 / 3, 1.0]
    assert found == pytest.approx([factor * plain for factor in expected])


def test_parts_of_what_lies_turned_have_gaps() -> None:
    cut = call("slice.Tensor", HEADS, SLICED)
    turned = find_way("rotary", "written").slow[0]
    half_B = 4 * 32 * 2048 * 32 * 2
    (*_, negated) = works(TURN, cut, call("neg.default", SLICED, SLICED))
    assert negated.device_s == pytest.approx(turned * moved_s(2 * half_B))


def test_ways_of_one_number_are_not_turned() -> None:
    view = call("transpose.int", "1x2048x1x64:bfloat16", "1x1x2048x64:bfloat16")
    after = "1x1x2048x64:bfloat16"
    assert works(view, call("add.Tensor", f"{after};{after}", after))[1] == works(
        call("add.Tensor", f"{after};{after}", after)
    )[0]  # fmt: skip


def test_a_gradient_of_a_part_is_zeros_and_a_copy() -> None:
    (work,) = works(call("slice_backward.default", "64x512:float32", "64x1024:float32"))
    assert work.device_s == pytest.approx(moved_s(64 * 1024 * 4 + 2 * 64 * 512 * 4))
    assert work.kernels == 2


def test_losses_read_what_their_labels_choose() -> None:
    logits, labels = "8192x128256:float32", "8192:int64"
    forward = seconds("nll_loss_forward.default", f"{logits};{labels}", ":float32;:float32")
    assert forward < 1e-6
    backward = seconds("nll_loss_backward.default", f":float32;{logits};{labels};:float32", logits, phase="backward")
    assert backward == pytest.approx(moved_s(8192 * 128256 * 4))


def test_the_gradient_of_a_table_is_sorted_where_tokens_are_many() -> None:
    for tokens, kernels in ((3072, 2), (3073, 20)):
        given = f"{tokens}x64:float32;{tokens}:int64"
        (work,) = works(call("embedding_dense_backward.default", given, "1000x64:float32", "backward"))
        assert work.kernels == kernels
        assert work.device_s == pytest.approx(moved_s(1000 * 64 * 4 + 2 * tokens * 64 * 4))


def test_norms_take_their_instructions_or_their_bytes() -> None:
    way, numbers = find_way("norm", "split"), 4096 * 1024
    for dtype, passes in (("bfloat16", way.passes[1] * 2), ("float32", 5 * 4)):
        rows = f"4096x1024:{dtype}"
        found = seconds("native_layer_norm_backward.default", f"{rows};{rows}", rows, phase="backward")
        assert found == pytest.approx(float(CLOCK.elementwise(passes * numbers).stream_s))


def test_layer_norm_alone_on_an_h100() -> None:
    for row in read_rows("h100_kernels.csv"):
        if row["kernel"].startswith("layernorm.F.") and row["shape"] != "2048x2048":
            rows, back = f"{row['shape']}:bfloat16", row["kernel"].endswith("backward")
            name = "native_layer_norm_backward.default" if back else "native_layer_norm.default"
            found = seconds(name, f"{rows};{rows}", rows, phase="backward" if back else "forward")
            assert found == pytest.approx(float(row["time_us"]) * 1e-6, rel=0.2)


def test_products_with_a_rank_are_far_from_the_memorys_rate() -> None:
    rows, inner, rank = 16384, 4096, 16
    shapes = f"{rows}x{inner}:bfloat16;{inner}x{rank}:bfloat16", f"{rows}x{rank}:bfloat16"
    (work,) = works(call("mm.default", *shapes, flops=2 * rows * inner * rank))
    size_B = 2 * (rows * inner + inner * rank + rows * rank)
    assert work.matmul_s == pytest.approx(THIN * float(CLOCK.stream(size_B).stream_s))
    sides = "4096x4096:bfloat16;4096x65:bfloat16", "4096x65:bfloat16"
    (wider,) = works(call("mm.default", *sides, flops=2 * 4096 * 4096 * 65))
    assert wider == CLOCK.matmul(4096, 65, 4096)


@pytest.mark.parametrize("depth", range(1, 6))
def test_kernels_of_many_tensors_take_so_many_tensors_and_chunks(depth: int) -> None:
    most = TENSORS[depth - 1]
    assert [launches([1] * count, depth) for count in (0, 1, most, most + 1, 2 * most)] == [0, 1, 1, 2, 2]
    assert [launches([count * CHUNK], depth) for count in (1, BLOCKS, BLOCKS + 1, 3 * BLOCKS)] == [1, 1, 2, 3]
    # One tensor fills the first kernel and begins the second, which has room for as many but one.
    assert launches([BLOCKS * CHUNK + 1] + [1] * (most - 1), depth) == 2
    assert launches([BLOCKS * CHUNK + 1] + [1] * most, depth) == 3


def test_as_many_kernels_of_many_tensors_as_in_a_profile() -> None:
    counted = {name: {len(each) for each in calls} for (name, *_), calls in kernels_of("fused").items()}
    for name, depth in (("_foreach_add_", 1), ("_foreach_sqrt", 2), ("_foreach_lerp_", 2), ("_foreach_addcdiv_", 3)):
        assert counted[name] == {launches(LLAMA, depth)}
    assert counted["_foreach_norm"] == {launches(LLAMA, 1) + 1}


def test_updates_of_many_tensors_move_their_lists() -> None:
    each = ";".join(f"{numbers}:float32" for numbers in LLAMA)
    size_B = 4 * sum(LLAMA)
    cases = {"add_.Scalar": (1, 2), "mul_.Scalar": (1, 2), "lerp_.Scalar": (2, 3), "addcmul_.Scalar": (3, 3),
             "addcdiv_.ScalarList": (3, 4)}  # fmt: skip
    for name, (lists, passes) in cases.items():
        (work,) = works(call(f"_foreach_{name}", ";".join([each] * lists), phase="optimizer"))
        assert work.stream_s == pytest.approx(MULTI_TENSOR * float(CLOCK.stream(passes * size_B).stream_s))
        assert work.kernels == launches(LLAMA, lists)


def test_a_fused_update_reads_four_lists_and_writes_three() -> None:
    numbers = [CHUNK * 3, 5]
    lists = ";".join([f"{one}:float32" for one in numbers] * 4 + [":float32"] * 2)
    (work,) = works(call("_fused_adamw_.default", lists, phase="optimizer"))
    moved_B = 7 * 4 * sum(numbers)
    assert work.stream_s == pytest.approx(MULTI_TENSOR * float(CLOCK.stream(moved_B).stream_s), rel=1e-4)
    assert work.kernels == 1


def step(*operations: Operation, tf32: tuple[str, ...] = ()) -> Captured:
    return Captured({"ranks": 1, "groups": [], "tf32": tf32}, operations, ())


def test_products_of_fp32_run_in_the_unit_that_the_program_allows() -> None:
    """No device reaches in fp32 what it does in TF32; one without a unit for TF32 has but one time for both."""
    side = 4096
    wide = f"{side}x{side}:float32;{side}x{side}:float32", f"{side}x{side}:float32"
    image = "64x256x56x56:float32;256x256x3x3:float32", "64x256x56x56:float32"
    matmul = call("mm.default", *wide, flops=2 * side**3)
    convolution = call("convolution.default", *image, flops=2 * 64 * 56**2 * 256**2 * 9)
    both = ("products", "convolutions")
    for device_name, faster in ("h100-sxm", True), ("v100-sxm-32gb", False), ("mi300x", False):
        machine = cluster(f"{device_name}:1")

        def took_s(*calls: Operation, tf32: tuple[str, ...] = (), machine: Cluster = machine) -> float:
            return captured_time(step(*calls, tf32=tf32), machine).products_s

        for one, its, other in (matmul, *both), (convolution, *both[::-1]):
            assert took_s(one, tf32=(other,)) == took_s(one)
            assert took_s(one, tf32=(its,)) == took_s(one, tf32=both)
            assert (took_s(one, tf32=both) < 0.3 * took_s(one)) is faster
            assert took_s(one, tf32=both) <= took_s(one)


def test_a_norm_over_images_reads_twice_what_it_sums_over() -> None:
    size_B, images, rows = 4.0 * 32 * 64 * 56 * 56, "32x64x56x56:float32", "64:float32"
    forward = seconds("native_batch_norm.default", images, f"{images};{rows};{rows}")
    backward = seconds("native_batch_norm_backward.default", f"{images};{images}", f"{images};{rows}", phase="backward")
    for took_s, passes in (forward, 3), (backward, 5):
        assert took_s == pytest.approx(moved_s(passes * size_B), rel=0.01)


def test_every_call_takes_the_host_as_long_as_one_alone_did() -> None:
    (alone_us,) = (float(row["time_us"]) for row in read_rows("h100_kernels.csv") if row["kernel"] == "launch")
    assert CALL_FRAC * CLOCK.launch_s == pytest.approx(alone_us * 1e-6)
    view = call("view.default", "8x8:float32", "64:float32")
    add = call("add_.Tensor", "8:float32;8:float32", "8:float32", "backward")
    forward_s, backward_s = CLOCK.launches_s
    found = captured_time(step(*[view] * 7, *[add] * 5), ON_H100)
    assert found.host_s == pytest.approx(CALL_FRAC * (7 * forward_s + 5 * backward_s))
    assert found.step_time_s > CALL_FRAC * (7 * forward_s + 5 * backward_s) + CLOCK.step_s


def test_the_update_does_not_cool_the_passes() -> None:
    side = 8192
    shapes = f"{side}x{side}:bfloat16;{side}x{side}:bfloat16", f"{side}x{side}:bfloat16"
    product = call("mm.default", *shapes, flops=2 * side**3)
    update = call("_foreach_mul_.Scalar", f"{2**30}:float32", phase="optimizer")
    passes, whole = captured_time(step(product), ON_H100), captured_time(step(product, update), ON_H100)
    assert whole.products_s == pytest.approx(passes.products_s)


def test_the_factor_of_spread_operands_is_that_of_a_mask_in_written_scores() -> None:
    ways = tomllib.loads(Path(stacks.__file__).with_name("ways.toml").read_text("utf-8"))
    (added,) = (one for one in ways["scores"]["autocast"]["forward"] if "mask added" in one)
    assert added.endswith(f" x{SPREAD:g}")
