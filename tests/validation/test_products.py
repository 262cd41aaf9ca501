"""Curves from products alone: the catalog has what the fit finds, and they meet the products that they are from."""

import pytest

from lockstep.hardware import device, efficiency
from lockstep.kernels.clock import Clock
from lockstep.layout import Recipe
from lockstep.validation import products
from lockstep.validation.case import read_rows

ROWS = [row for row in read_rows("torch_products.csv") if int(row["n"]) >= products.SMALLEST]


@pytest.mark.parametrize("gpu", products.DEVICES)
def test_the_catalog_has_what_the_fit_of_products_finds(gpu: str) -> None:
    curve = efficiency(products.DEVICES[gpu])
    assert (curve.matmul_max_frac, curve.matmul_bytes_factor) == products.fit(gpu)
    assert curve.devices == (products.DEVICES[gpu],)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["row_id"])
def test_a_product_is_met_within_six_percent(row: dict[str, str]) -> None:
    n, recipe = int(row["n"]), Recipe(seq=1, batch=1)
    clock = Clock.of(device(products.DEVICES[row["gpu"]]), recipe)
    seconds = 2.0 * n**3 / (float(row["tflops"]) * 1e12)
    assert abs(float(clock.matmul(n, n, n).device_s) / seconds - 1) < 0.06


@pytest.mark.parametrize(("name", "like"), [("h20", "h100"), ("rtx-4090", "a100")])
def test_streams_are_those_of_the_generation(name: str, like: str) -> None:
    assert efficiency(name).stream_frac == efficiency(like).stream_frac
