"""What the settings of training methods are without being set, and what they allow."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from lab.test_ends_of_settings import is_round
from lockstep.base.errors import BadInput
from lockstep.base.settings import read_settings
from lockstep.learn.methods.compression import COMPRESSORS
from lockstep.run.train import Method, all_methods, find_method

USUAL: dict[str, dict[str, Any]] = {
    "torch's DistributedDataParallel sends buckets of megabytes; ours a MiB": {"bucket_B": 2**20, "algorithm": "ring"},
    "Lin et al. 2020: local after half of the run": {"switch_frac": 1 / 2, "buffers": "keep"},
    "Douillard et al. 2023, table 5: outer Nesterov": {"outer_rate": 0.7, "outer_momentum": 0.9},
    "torch's GradScaler": {"scale": 65536, "interval": 2000, "scaling": "dynamic", "compute": "bfloat16"},
    "four micro-batches fill two stages twice": {"microbatches": 4, "schedule": "1f1b", "chunks": 0},
    "Ho et al. 2013: a few rounds apart": {"bound": 4, "weighting": "inverse", "straggler_s": 0},
    "what one process does": {"statistics": "synchronized", "in_turn": False, "topology": "ring"},
    "Lin et al. 2018: one entry in a hundred, indices of a word": {"keep_frac": 0.01, "index_bits": 32},
    "int8 and its 127 levels": {"bits": 8, "levels": 127, "rounding": "stochastic"},
    "Vogels et al. 2019: rank 2 is enough for digits": {"rank": 2},
    "small against gradients near 1": {"threshold": 1e-3},
    "what was not sent is remembered, not made up for twice": {"error_feedback": True, "scaled": False},
}
OTHERS: dict[tuple[str, str], Any] = {
    ("local-sgd", "period"): 8,
    ("post-local-sgd", "period"): 8,
    ("diloco", "period"): 20,
    ("sign", "error_feedback"): False,
    ("sign", "scaled"): False,
}
"""Local steps of a round; a sign alone is no contraction."""
ENDS: dict[str, dict[str, float]] = {
    "period": {"least": 1},
    "microbatches": {"least": 1},
    "interval": {"least": 1},
    "bucket_B": {"least": 1},
    "scale": {"above": 0},
    "outer_rate": {"above": 0, "most": 10},
    "outer_momentum": {"least": 0, "below": 1},
    "switch_frac": {"least": 0, "most": 1},
    "straggler_s": {"most": 60},
}
METHODS = [pytest.param(one, id=one.name) for one in all_methods()]


@pytest.mark.parametrize("method", METHODS)
def test_omitted_settings_take_their_documented_defaults(method: Method) -> None:
    usual = {name: value for some in USUAL.values() for name, value in some.items()}
    for one in fields(method.settings):
        assert one.default == OTHERS.get((method.name, one.name), usual.get(one.name, one.default)), one.name
        assert read_settings(method.settings, {one.name: one.default}) == method.settings()


@pytest.mark.parametrize("method", METHODS)
def test_limits_of_settings_are_round_and_enforced(method: Method) -> None:
    for one in fields(method.settings):
        given = {end: one.metadata[end] for end in ("least", "most", "above", "below") if one.metadata[end] is not None}
        assert given == ENDS.get(one.name, given), one.name
        for end, value in given.items():
            assert is_round(value)
            apart = -1 if end in ("least", "above") else 1
            outside = value if end in ("above", "below") else value + apart
            with pytest.raises(BadInput, match=f"--set {one.name}"):
                read_settings(method.settings, {one.name: outside})
            inside = value if end in ("least", "most") else value - apart / 1000
            assert getattr(read_settings(method.settings, {one.name: inside}), one.name) == inside


def test_compressors_are_methods_with_their_own_settings() -> None:
    assert {name for name in COMPRESSORS if name not in {one.name for one in all_methods()}} == {"none"}
    for name, kind in COMPRESSORS.items():
        if name != "none":
            own = {one.name: one.default for one in fields(kind)} | {"error_feedback": name != "sign"}
            own |= {"scaled": False} if "scaled" in own else {}
            assert {one.name: one.default for one in fields(find_method(name).settings)} == own
