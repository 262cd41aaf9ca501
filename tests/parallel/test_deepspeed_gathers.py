"""What DeepSpeed's ZeRO-3 gathers and holds, against counts on two real ranks (`tools/deepspeed_gathers.py`)."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.base.errors import BadInput
from lockstep.describe.workload import model
from lockstep.describe.workload.huggingface import config_of
from lockstep.price.layout.gathers import modules_of
from lockstep.simulate.parallel.data.coordinator import Gathered, Limits, Module, Tensor, gathered, read_limits

TABLE = Path(__file__).parent / "data" / "deepspeed_gathers.csv"
ROWS = list(csv.DictReader(line for line in TABLE.read_text().splitlines() if not line.startswith("#")))
NAMES = [f"{row['model']}-{number}" for number, row in enumerate(ROWS)]
WIDTH, FFN, VOCAB, PLACES, LAYERS, KEYS = 64, 176, 1024, 64, 8, 32
LLAMA = {"model_type": "llama", "hidden_size": WIDTH, "intermediate_size": FFN, "num_hidden_layers": LAYERS,
         "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": VOCAB, "max_position_embeddings": PLACES,
         "tie_word_embeddings": False}  # fmt: skip
GPT2 = {"model_type": "gpt2", "n_embd": WIDTH, "n_layer": LAYERS, "n_head": 4, "vocab_size": VOCAB,
        "n_positions": PLACES}  # fmt: skip
CONFIGS = {"llama": LLAMA, "gpt2": GPT2}


def limits_of(row: dict[str, str]) -> Limits:
    return Limits(**{one.name: int(row[one.name]) for one in fields(Limits) if one.name in row})


def counted(row: dict[str, str]) -> list[int]:
    """Elements gathered forward, backward and once per step, and the most that are whole from the loss on."""
    return [int(row[name]) for name in ("forward", "backward", "once")] + [
        max(int(row["at_loss"]), int(row["peak_backward"]))
    ]


def elements(found: Gathered, row: dict[str, str]) -> list[float]:
    shares = found.forward_frac, found.backward_frac, found.once_frac, found.most_frac
    return [share * int(row["elements"]) for share in shares]


class Written:
    """The modules of transformers 5.24's classes, in the order in which they are called."""

    def __init__(self) -> None:
        self.keys: Iterator[int] = count()

    def own(self, *sizes: int, looked_up: bool = False) -> Module:
        return Module(tuple(Tensor(float(size), next(self.keys)) for size in sizes), looked_up=looked_up)

    def llama(self, again: bool) -> Module:
        mixer = [self.own(WIDTH * out) for out in (WIDTH, KEYS, KEYS, WIDTH)]
        block = [self.own(WIDTH * FFN), Module(), self.own(WIDTH * FFN), self.own(WIDTH * FFN)]
        return self.layer(self.own(WIDTH), mixer, self.own(WIDTH), block, again)

    def gpt2(self, again: bool) -> Module:
        """With its dropouts, which prefetch as every module does."""
        mixer = [self.own(3 * WIDTH * WIDTH, 3 * WIDTH), self.own(WIDTH * WIDTH, WIDTH), Module()]
        block = [self.own(4 * WIDTH * WIDTH, 4 * WIDTH), Module(), self.own(4 * WIDTH * WIDTH, WIDTH), Module()]
        return self.layer(self.own(WIDTH, WIDTH), mixer, self.own(WIDTH, WIDTH), block, again)

    def layer(self, norm: Module, mixer: list[Module], later: Module, block: list[Module], again: bool) -> Module:
        inside = (norm, Module(inside=tuple(mixer)), later, Module(inside=tuple(block)))
        return Module(inside=inside, layer=True, recomputed=again)

    def model(self, name: str, again: bool) -> Module:
        table = self.own(VOCAB * WIDTH, looked_up=True)
        before = [table, Module()] if name == "llama" else [table, self.own(PLACES * WIDTH, looked_up=True), Module()]
        layers = [getattr(self, name)(again) for _ in range(LAYERS)]
        norm = self.own(WIDTH) if name == "llama" else self.own(WIDTH, WIDTH)
        head = self.own(VOCAB * WIDTH) if name == "llama" else Module(table.tensors)
        return Module(inside=(Module(inside=(*before, *layers, norm)), head))


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_gathered_and_held_elements_match_counts_on_two_ranks(row: dict[str, str]) -> None:
    """To the last element, of the modules that transformers' classes call in their order."""
    found = gathered(Written().model(row["model"], row["recompute"] == "1"), limits_of(row))
    assert [round(each) for each in elements(found, row)] == counted(row)


LAYER = {"llama": 2 * WIDTH * (WIDTH + KEYS) + 3 * WIDTH * FFN, "gpt2": 12 * WIDTH * WIDTH + 13 * WIDTH}
ALIKE = [row for row in ROWS if row["model"] == "llama" or int(row["prefetch_bucket_size"]) > 0]
"""GPT-2's class has queries, keys and values in one tensor, which persists above another threshold, and a dropout after
the last product, which is fetched twice by recomputation where nothing is prefetched."""


@pytest.mark.parametrize("row", ALIKE)
def test_the_modules_of_a_model_gather_what_its_class_does(row: dict[str, str]) -> None:
    """A layer's worth of difference at most."""
    read = config_of(json.dumps(CONFIGS[row["model"]]), row["model"])
    found = gathered(modules_of(read, redone=LAYERS * int(row["recompute"])), limits_of(row))
    assert elements(found, row) == pytest.approx(counted(row), abs=LAYER[row["model"]])


LIMIT = st.integers(0, 2 * 10**9)
EIGHT = modules_of(model("llama3-8b"))


@given(LIMIT, LIMIT, LIMIT, st.integers(0, 10**8))
def test_every_parameter_is_gathered_at_least_once_unless_persistent(
    reuse: int, live: int, bucket: int, persistent: int
) -> None:
    found = gathered(EIGHT, Limits(reuse, live, bucket, persistent))
    assert found.forward_frac >= 1 - found.once_frac - 1e-9
    assert found.forward_frac + found.backward_frac <= 2 * (1 - found.once_frac) + found.held_frac + 1e-9
    assert found.once_frac <= found.held_frac <= found.most_frac <= 1 + 1e-9


def test_an_unlimited_reuse_distance_gathers_once() -> None:
    found = gathered(
        EIGHT, Limits(max_reuse_distance=2 * 10**10, prefetch_bucket_size=0, param_persistence_threshold=0)
    )
    assert (found.forward_frac, found.backward_frac, found.held_frac) == pytest.approx((1, 0, 1))


@pytest.mark.parametrize("distance", [10**9, 2 * 10**9, 4 * 10**9])
def test_without_prefetch_half_of_the_reuse_distance_stays_gathered(distance: int) -> None:
    """A parameter is passed twice on the way from its forward to its backward pass: up to one more tensor is kept."""
    found, whole = gathered(EIGHT, Limits(distance, 0, 0, 0)), 8.03e9
    assert found.held_frac * whole == pytest.approx(distance / 2, abs=6e7)
    assert found.backward_frac == pytest.approx(1 - found.held_frac, abs=1e-3)


@pytest.mark.parametrize("text", ["max_reuse=1", "max_reuse_distance=-1", "max_reuse_distance=0.5", "5e8"])
def test_unknown_gather_limits_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        read_limits(text)


def test_limits_are_read_as_deepspeed_writes_them() -> None:
    said: dict[str, Any] = {"max_reuse_distance": 0, "prefetch_bucket_size": 2 * 10**7}
    assert read_limits("max_reuse_distance=0, prefetch_bucket_size=2e7") == Limits(**said)
    assert Limits(**said).changed == said
    assert read_limits("").changed == {}
