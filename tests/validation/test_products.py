"""Curves from products alone: the catalog has what the fit finds, and they meet the products that they are from."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from fit_scripts import fit_script
from lockstep.check.validation.case import read_rows
from lockstep.describe.hardware import device, efficiency
from lockstep.describe.stacks import find_way, stack, ways
from lockstep.price.kernels import casts
from lockstep.price.kernels.clock import OPERATIONS as PYTORCH
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.layer import PIECES
from lockstep.price.kernels.slots import OF_LOSS
from lockstep.price.kernels.states import INSIDE_FRAC
from lockstep.price.layout import Recipe
from recipes import counted, norm_written

compiled_layers, products = fit_script("compiled_layers"), fit_script("products")
ROWS = [row for row in read_rows("torch_products.csv") if int(row["n"]) >= products.SMALLEST]


@pytest.mark.parametrize("gpu", products.DEVICES)
def test_catalog_product_rates_equal_the_fit(gpu: str) -> None:
    curve = efficiency(products.DEVICES[gpu])
    assert (curve.matmul_max_frac, curve.matmul_bytes_factor) == products.fit(gpu)
    assert curve.devices == (products.DEVICES[gpu],)


def test_catalog_stream_rates_of_h100_equal_the_measurement() -> None:
    assert efficiency("h100").stream_frac == products.h100_stream_frac()
    assert efficiency("h100").kind == "measured"


@pytest.mark.parametrize(("kind", "count", "allowed"), [("matmul.", 100, 0.06), ("fp8.tensorwise.", 24, 0.10)])
def test_products_on_another_card_match_the_curve(kind: str, count: int, allowed: float) -> None:
    """The curve is fitted to layers on a card of another day."""
    found = products.h100_errors(kind)
    assert len(found) == count
    assert np.median(np.abs(found)) < allowed


def test_catalog_product_rates_of_a100_equal_the_measurement() -> None:
    curve = efficiency("a100")
    assert {name: getattr(curve, name) for name in products.A100_CURVE} == products.a100()


def test_operations_of_pytorch_are_priced_as_they_were_measured_alone() -> None:
    assert products.operations()["torch"] == pytest.approx(PYTORCH, abs=0.005)
    assert products.operations() == {
        "torch": pytest.approx(stack("fsdp-eager").elementwise_factor, abs=0.005),
        "loss": pytest.approx(OF_LOSS, abs=0.005),
    }


def test_products_take_longer_in_pieces_and_beside_a_kernel_that_holds_multiprocessors() -> None:
    rows = [{name: float(row[name]) for name in row if name.endswith("_us")} for row in read_rows("product_pieces.csv")]
    longer = {name: sum(row[name] for row in rows) / sum(row["whole_us"] for row in rows) - 1.0 for name in rows[0]}
    assert longer["two_streams_us"] == pytest.approx(PIECES, abs=0.005)
    for held in (4, 8, 16, 24):
        assert 0.15 < longer[f"beside_{held}_us"] < 0.26
    assert 1.0 / (1.0 - efficiency("h100").traffic_device_frac) - 1.0 == pytest.approx(longer["beside_8_us"], abs=0.05)


def test_casts_of_compiled_code_are_those_that_layers_show() -> None:
    for scaling, passes in compiled_layers.casts().items():
        assert [one for one, _ in passes] == pytest.approx(casts.COMPILED[scaling], rel=0.02)
    assert [weight for _, weight in compiled_layers.casts()["rows"]] == pytest.approx(casts.WEIGHTS["rows"], rel=0.02)


def test_compiled_layers_are_priced_as_they_were_measured() -> None:
    """The mean over layers; each alone within half of it, and none faster than a stream of its bytes."""
    found = compiled_layers.factors()
    assert len(found) == 2 * len(read_rows(compiled_layers.FILE))
    assert all(0.97 < one < 1.5 for one in found.values()), found
    for name in ("fsdp-compile", "torchtitan"):
        assert stack(name).elementwise_factor == pytest.approx(compiled_layers.factor(), abs=0.005)


@pytest.mark.parametrize(
    ("kernel", "passes", "takes"),
    [("rmsnorm.eager", norm_written(), find_way("norm", "written").slow),
     ("rotary.eager", counted("rotary", "written"), find_way("rotary", "written").slow),
     ("softmax.eager", counted("scores", "several"), find_way("scores", "several").takes)],
)  # fmt: skip
def test_unfused_operations_match_their_measured_time(
    kernel: str, passes: tuple[float, ...], takes: tuple[float, float]
) -> None:
    stream_Bps = device("h100-sxm").memory_bandwidth_Bps * efficiency("h100").stream_frac
    for place, way in enumerate(("forward", "backward")):
        found = []
        for row in read_rows(products.H100_FILE):
            elements = math.prod(map(int, row["shape"].split("x"))) if row["kernel"] == f"{kernel}.{way}" else 0
            if elements >= products.LEAST_ELEMENTS:
                found.append(float(row["time_us"]) * 1e-6 * stream_Bps / (2.0 * passes[place] * elements))
        assert np.median(found) == pytest.approx(takes[place], abs=0.01)


def taken(kernel: str, size_B: Callable[[list[int]], float]) -> list[float]:
    """Times a stream of their bytes that kernels took on H100, of numbers that fill more than a cache."""
    stream_Bps = device("h100-sxm").memory_bandwidth_Bps * efficiency("h100").stream_frac
    found = [row for row in read_rows(products.H100_FILE) if row["kernel"].startswith(kernel)]
    shapes = [[int(side) for side in row["shape"].split("x")] for row in found]
    return [
        float(row["time_us"]) * 1e-6 * stream_Bps / size_B(shape)
        for row, shape in zip(found, shapes, strict=True)
        if shape[0] * shape[1] >= products.LEAST_ELEMENTS
    ]


def test_dropout_and_masks_match_their_measured_time() -> None:
    """A mask is a byte for each number."""
    wide = {"bf16": 5.0, "fp32": 9.0}
    forward, backward = (
        [
            one
            for name, each_B in wide.items()
            for one in taken(f"dropout.{name}.{way}", lambda s, e=each_B: e * s[0] * s[1])
        ]
        for way in ("forward", "backward")
    )
    fused, *others = (one.parts["dropout"] for one in reversed(ways()["adapters"].values()))
    for one in others:
        assert one.slow == (pytest.approx(np.mean(forward), abs=0.02), pytest.approx(np.mean(backward), abs=0.02))
    assert fused.slow[0] == others[0].slow[0]
    compared, multiplied = fused.backward
    masked = (fused.passes[1] * fused.slow[1] - compared.passes * PYTORCH) / multiplied.passes
    assert taken("masked", lambda sides: 5.0 * sides[0] * sides[1]) == [pytest.approx(masked, abs=0.01)]


def test_adapter_rank_products_match_the_page() -> None:
    found = taken("narrow.", lambda sides: 2.0 * (sides[0] * sides[1] + sides[2] * (sides[0] + sides[1])))
    assert len(found) >= 50
    assert np.median(found) == pytest.approx(1.36, abs=0.01)


KERNELS_OF_H100 = [row for row in read_rows(products.H100_FILE) if row["kernel"].startswith(("matmul.", "fp8."))]


@pytest.mark.parametrize("row", KERNELS_OF_H100, ids=lambda row: row["row_id"])
def test_products_of_linear_layers_on_h100_match_the_measurement(row: dict[str, str]) -> None:
    """Scales per row, which one per tensor was fitted to, cost up to a quarter more."""
    m, n, k = map(int, row["shape"].split("x"))
    fp8 = row["kernel"].startswith("fp8.")
    clock = Clock.of(device("h100-sxm"), Recipe(seq=1, batch=1, dtype="fp8" if fp8 else "bf16"))
    assert abs(float(clock.matmul(m, n, k).device_s) / (float(row["time_us"]) * 1e-6) - 1) < (0.25 if fp8 else 0.18)


OPERATIONS = {
    "sum.forward": 3, "gelu.forward": 2, "gelu.backward": 3, "swiglu.eager.forward": 5, "swiglu.eager.backward": 9,
    "rmsnorm.eager.forward": 18, "rmsnorm.eager.backward": 46, "softmax.eager.forward": 18,
    "softmax.eager.backward": 24, "cross-entropy.eager.forward": 11, "cross-entropy.eager.backward": 13,
    "cross-entropy.in-place.forward": 19, "cross-entropy.in-place.backward": 11,
    "rotary.eager.forward": 10, "rotary.eager.backward": 14, "cross-entropy.compiled.forward": 1,
}  # fmt: skip
"""Passes over every number in half precision; in place, the loss is measured with a copy backward (4)."""


def test_pytorch_operations_match_the_page_per_byte() -> None:
    stream_Bps = device("h100-sxm").memory_bandwidth_Bps * efficiency("h100").stream_frac
    factors: dict[str, list[float]] = {}
    for row in read_rows(products.H100_FILE):
        numbers = math.prod(map(int, row["shape"].split("x"))) if row["kernel"] in OPERATIONS else 0
        if numbers >= 2**24:
            seconds = float(row["time_us"]) * 1e-6
            found = seconds * stream_Bps / (2.0 * OPERATIONS[row["kernel"]] * numbers)
            factors.setdefault(row["kernel"], []).append(found)
    rotary = [*factors.pop("rotary.eager.forward"), *factors.pop("rotary.eager.backward")]
    assert min(rotary) > 1.55
    assert max(rotary) < 1.95
    assert max(factors.pop("cross-entropy.compiled.forward")) < 2.2
    assert np.median(np.concatenate(list(factors.values()))) == pytest.approx(1.1, abs=0.02)


def test_half_of_what_sums_inside_products_move_is_not_hidden() -> None:
    """A sum in fp32 reads 4 bytes and writes 4 where the gradient alone writes 2."""
    rows = read_rows(products.H100_FILE)
    plain = {row["shape"]: float(row["time_us"]) for row in rows if row["kernel"] == "matmul.weight-grad"}
    curve, bandwidth_Bps = efficiency("h100"), device("h100-sxm").memory_bandwidth_Bps
    shares = []
    for row in rows:
        if row["kernel"] == "accumulated.fp32":
            _, n, k = map(int, row["shape"].split("x"))
            stream_us = 6.0 * n * k / (bandwidth_Bps * curve.stream_frac) * 1e6
            shares.append((float(row["time_us"]) - plain[row["shape"]]) / stream_us)
    assert len(shares) == 10
    assert np.median(shares) == pytest.approx(INSIDE_FRAC, abs=0.05)


@pytest.mark.parametrize(
    "row", [row for row in read_rows(products.H100_FILE) if row["kernel"].startswith("attention.")],
    ids=lambda row: row["row_id"],
)  # fmt: skip
def test_attention_on_h100_is_within_a_quarter_of_an_independent_curve(row: dict[str, str]) -> None:
    _, kernel, way = row["kernel"].split(".")
    batch, heads, tokens, head = map(int, row["shape"].split("x"))
    clock = Clock.of(device("h100-sxm"), Recipe(seq=tokens, batch=1, attention_kernel=kernel))
    flops = 2.0 * batch * heads * tokens**2 * head * (2.5 if way == "backward" else 1.0)
    seconds = clock.fused_attention(flops, tokens, head, causal=True, backward=way == "backward").attention_s
    assert abs(float(seconds) / (float(row["time_us"]) * 1e-6) - 1) < 0.25


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["row_id"])
def test_products_are_within_six_percent(row: dict[str, str]) -> None:
    n, recipe = int(row["n"]), Recipe(seq=1, batch=1)
    clock = Clock.of(device(products.DEVICES[row["gpu"]]), recipe)
    seconds = 2.0 * n**3 / (float(row["tflops"]) * 1e12)
    assert abs(float(clock.matmul(n, n, n).device_s) / seconds - 1) < 0.06


@pytest.mark.parametrize(("name", "like"), [("h20", "h100"), ("rtx-4090", "a100")])
def test_streams_are_those_of_the_generation(name: str, like: str) -> None:
    assert efficiency(name).stream_frac == efficiency(like).stream_frac
