"""What answers rest on: the matrix is complete, says no number where nothing runs, and answers carry its label."""

import pytest

import lockstep
from cli_runner import run
from lockstep.base.errors import UnknownName
from lockstep.decide.planner.support import FORMATS, LEVELS, matrix, support
from lockstep.describe.hardware import device, devices
from lockstep.describe.stacks import stack, stacks


def test_every_device_software_and_format_has_a_level() -> None:
    rows = matrix()
    assert len(rows) == len(devices()) * len(stacks()) * len(FORMATS)
    for row in rows:
        assert row.level in LEVELS
        assert (row.error_frac is None) == (row.level == "none")
        assert (row.rows > 0) == (row.level in ("measured", "fitted"))


def test_unsupported_combinations_have_no_support_level() -> None:
    assert support(device("v100-sxm-32gb"), stack("megatron-te"), "fp8").level == "none"
    assert support(device("tpu-v5p"), stack("torchtitan"), "bf16").level == "none"
    assert support(device("tpu-v7"), stack("maxtext"), "bf16").level == "extrapolated"


def test_fitted_and_compared_combinations_are_distinguished() -> None:
    assert support(device("h100-sxm"), stack("nemo-24"), "bf16").level == "fitted"
    assert support(device("mi300x"), stack("torchtitan"), "bf16").level == "measured"


def test_answers_state_their_support_level() -> None:
    asked = {"batch": 64, "dp": 8}
    found = lockstep.estimate("llama3-8b", "dgx-h100:1", stack="nemo-24", **asked)
    assert found.to_dict()["support"] == "fitted"
    other = lockstep.estimate("llama3-8b", "dgx-h100:1", stack="gpt-neox", **asked)
    assert other.to_dict()["support"] == "extrapolated"
    for one, words in (
        (found, "published steps are of h100-sxm, nemo-24 and bf16"),
        (other, "no published step is of"),
    ):
        assert any(words in said for said in one.assumptions())
    trainium = lockstep.estimate("llama3-8b", "aws-trn2:1", batch=64, dp=16)
    assert trainium.to_dict()["support"] == "none"
    assert any("is not known to run on trainium2" in said for said in trainium.assumptions())


def test_the_command_asks_for_one_device_or_software() -> None:
    rows = run("support", "h100-sxm", "--json").json()["rows"]
    assert {row["device"] for row in rows} == {"h100-sxm"}
    rows = run("support", "--stack", "torchtitan", "--json").json()["rows"]
    assert {row["stack"] for row in rows} == {"torchtitan"}
    out = run("support", "h100-sxm").out
    assert all(words in out for words in ("Published", "nemo-24", "Extrapolated"))
    with pytest.raises(UnknownName, match="h100"):
        lockstep.support("h100-smx")
