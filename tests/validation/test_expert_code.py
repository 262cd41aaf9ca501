"""Layers of experts in PyTorch's operations take what one H100 took for them."""

from __future__ import annotations

import pytest

from fit_scripts import fit_script
from lockstep.check.validation.case import read_rows

expert_code = fit_script("expert_code")
ERRORS = expert_code.errors()
ROWS = read_rows(expert_code.FILE)


def test_every_row_is_compared() -> None:
    for row in ROWS:
        assert any(name.startswith(f"{row['row_id']} ") for name in ERRORS)


@pytest.mark.parametrize("name", ERRORS)
def test_expert_layers_match_the_measurement(name: str) -> None:
    """Products within 3 % where kernels are compiled: in eager layers torch's grouped one does not follow the clock."""
    allowed = 0.11 if not name.endswith("products") else 0.03 if "compiled" in name else 0.16
    assert abs(ERRORS[name]) <= allowed


def test_a_loop_over_small_experts_waits_for_the_host() -> None:
    """Of Qwen3's 128 experts the wall is five times the kernels, of Mixtral's 8 a tenth longer."""
    walls = {row["ffn"]: row for row in ROWS if row["code"] == "transformers-4"}
    for ffn, least, most in (("768", 4.0, 6.0), ("14336", 1.0, 1.2)):
        row = walls[ffn]
        priced_s = expert_code.wall_s(*expert_code.priced(row))
        assert least < float(row["wall_both_us"]) / float(row["both_us"]) < most
        assert least < priced_s / (float(row["both_us"]) * 1e-6) < most
