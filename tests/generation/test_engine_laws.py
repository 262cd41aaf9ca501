"""Laws of an engine: nothing beats the bytes that must be read, and time and memory move the way that physics says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lockstep.base.errors import BadInput, UnknownName
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Transformer, model, parameters
from lockstep.price.generation import Engine, Passes, pool_of, steady
from lockstep.price.generation.cache import state_elems, token_elems
from lockstep.price.generation.experts import visited
from lockstep.price.generation.pool import rank_weights_B

ENGINES = {
    "dense": {"model": "qwen3-32b", "tp": 2},
    "windows": {"model": "gemma3-27b", "tp": 2},
    "experts": {"model": "qwen3-30b-a3b", "tp": 2, "ep": 2},
    "latent": {"model": "deepseek-v3", "tp": 8, "weights_dtype": "fp8"},
    "recurrent": {"model": "qwen3-next-80b-a3b", "tp": 4},
    "attention in groups": {"model": "qwen3-30b-a3b", "dp": 4, "ep": 4},
    "stages": {"model": "qwen3-32b", "pp": 2},
    "narrow cache": {"model": "qwen3-32b", "tp": 2, "kv_dtype": "fp8"},
}


def _engine(words: dict[str, object]) -> Engine:
    found = model(str(words["model"]))
    assert isinstance(found, Transformer)
    return Engine(**{**words, "model": found, "cluster": cluster("dgx-h200:1")})


@pytest.fixture(params=ENGINES, scope="module")
def engine(request: pytest.FixtureRequest) -> Engine:
    return _engine(ENGINES[request.param])


@pytest.fixture(scope="module")
def passes(engine: Engine) -> Passes:
    return Passes(engine)


def _least_weights_B(engine: Engine, sequences: int) -> float:
    """Bytes of weights that a step of all ranks must read, table of embeddings left out."""
    counted = parameters(replace(engine.model, mtp_layers=0))
    element_B = engine.format_of("attention")[0]
    experts = engine.model.experts
    routed = 0.0
    if experts:
        one = experts.ffn * engine.model.hidden * (2 + experts.gated)
        routed = engine.model.num_expert_layers * float(visited(experts, sequences)) * one * element_B
    every = engine.model.num_expert_layers * (experts.experts * one if experts else 0)
    table = engine.model.vocab * engine.model.hidden * (0 if engine.model.tied_embeddings else 1)
    return routed + (counted.total - every - table) * element_B * 0.999


@pytest.mark.parametrize("sequences", [1, 16, 256])
def test_no_step_beats_the_bytes_of_weights_and_cache(engine: Engine, passes: Passes, sequences: int) -> None:
    """Dense layers alone are counted of weights that a rank does not share; caches are read by all ranks together."""
    context, pool = 4096, pool_of(engine)
    device = engine.cluster.device
    read_B = _least_weights_B(engine, sequences) / engine.stage_ranks
    cache_B = sequences / engine.dp * (pool.sequence_of(context) - pool.sequence_B)
    least_s = (read_B / engine.pp + cache_B / engine.pp) / device.memory_bandwidth_Bps
    assert float(passes.equal_step_s(sequences, context)) >= least_s


def test_prefill_beats_no_peak(engine: Engine, passes: Passes) -> None:
    """2 FLOPs per matrix element that a token uses, at the fastest rate that the device has for the formats."""
    tokens = 4096
    counted = parameters(replace(engine.model, mtp_layers=0))
    table = engine.model.vocab * engine.model.hidden
    flops = 2.0 * tokens * (counted.active - (1 if engine.model.tied_embeddings else 2) * table)
    peak = max(engine.cluster.device.peak_flops["bf16"], engine.cluster.device.peak(engine.format_of("attention")[1]))
    assert float(passes.prefill_s(1, tokens)) * peak * engine.stage_ranks > 0.99 * flops / engine.pp


def test_time_grows_with_sequences_context_and_prompts(passes: Passes) -> None:
    sequences = np.arange(1, 513)
    assert np.all(np.diff(passes.equal_step_s(sequences, 2048.0)) >= 0)
    assert np.all(np.diff(passes.equal_step_s(64, np.array([1.0, 512.0, 1024.0, 8192.0, 131072.0]))) >= 0)
    filled = [float(passes.prefill_s(1, tokens, 64)) for tokens in (1, 128, 1024, 8000, 16384, 50000)]
    assert np.all(np.diff(filled) > 0)


def test_a_sequence_gets_no_more_tokens_and_the_engine_no_fewer_with_more_beside_it(engine: Engine) -> None:
    found = [steady(engine, number, 512, 1024) for number in (1, 8, 64, 128)]
    assert np.all(np.diff([one.token_s for one in found]) >= 0)
    assert np.all(np.diff([one.tokens_per_s for one in found]) > 0)


@pytest.mark.parametrize("name", ["qwen3-32b", "deepseek-v3", "qwen3-next-80b-a3b", "gpt-oss-120b"])
def test_more_ranks_never_hold_more_each(name: str) -> None:
    held = [rank_weights_B(_engine({"model": name, "tp": tp, "weights_dtype": "fp8"})) for tp in (1, 2, 4, 8)]
    assert np.all(np.diff(held) < 0)


def test_ranks_hold_all_weights_together() -> None:
    """Of a dense model all but norms, which every rank has, and keys and values, where ranks outnumber their heads."""
    whole = rank_weights_B(_engine({"model": "qwen3-32b"}))
    assert whole == 2 * parameters(model("qwen3-32b")).total
    parts = 8 * rank_weights_B(_engine({"model": "qwen3-32b", "tp": 8}))
    assert whole <= parts < 1.001 * whole


def test_experts_are_held_once_however_they_are_cut() -> None:
    cut, apart = (rank_weights_B(_engine({"model": "qwen3-30b-a3b", "tp": 8, "ep": ep})) for ep in (1, 8))
    assert cut == apart


@pytest.mark.parametrize(
    ("name", "tp", "elems"),
    [
        ("llama3-8b", 1, 2 * 8 * 128),
        ("llama3-8b", 8, 2 * 128),
        ("llama3-8b", 16, 2 * 128),
        ("deepseek-v3", 8, 512 + 64),
    ],
)
def test_elements_of_a_token_by_hand(name: str, tp: int, elems: int) -> None:
    found = model(name)
    assert isinstance(found, Transformer)
    assert token_elems(found, tp) == elems


def test_a_state_of_fixed_size_by_hand() -> None:
    """Qwen3-Next: 32 heads of 128 x 128, and 4 tokens of 16 + 16 heads of keys and queries and 32 of values."""
    found = model("qwen3-next-80b-a3b")
    assert isinstance(found, Transformer)
    assert state_elems(found, 1) == 32 * 128 * 128 + 4 * (2 * 16 + 32) * 128
    assert pool_of(_engine({"model": "qwen3-next-80b-a3b", "tp": 4})).sequence_B > 0


def test_windows_hold_no_more_than_they_see() -> None:
    pool = pool_of(_engine({"model": "gemma3-27b"}))
    ((window, size_B),) = pool.windows_B
    assert window == 1024
    assert pool.sequence_of(1 << 20) == pytest.approx((1 << 20) * pool.token_B + 1024 * size_B)
    assert 52 * pool.token_B == 10 * size_B


def test_experts_visited_are_those_of_draws() -> None:
    experts = model("qwen3-30b-a3b").experts
    draws = np.random.default_rng(0)
    for tokens in (1, 4, 32):
        seen = [len(np.unique([draws.choice(128, 8, replace=False) for _ in range(tokens)])) for _ in range(200)]
        assert float(visited(experts, tokens)) == pytest.approx(np.mean(seen), rel=0.02)
    assert float(visited(experts, 1)) == pytest.approx(8)


def test_chunks_of_a_long_prompt_add_up(engine: Engine) -> None:
    """Attention of a prompt in two parts, the second after the first, is that of the whole."""
    passes = Passes(engine)
    whole = float(passes.prompt_s(1, 2048, 0))
    parts = float(passes.prompt_s(1, 1024, 0)) + float(passes.prompt_s(1, 1024, 1024))
    assert parts == pytest.approx(whole, rel=0.35)
    assert float(passes.prompt_s(3, 2048)) == pytest.approx(3 * whole)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"model": "qwen3-32b", "tp": 3}, "tp=3 does not divide 64 attention heads"),
        ({"model": "qwen3-32b", "tp": 16}, "needs 16 devices, there are 8"),
        ({"model": "qwen3-32b", "tp": 2, "ep": 2}, "ep=2 must divide the 0 experts"),
        ({"model": "qwen3-30b-a3b", "tp": 2, "ep": 8}, "ep=8 must divide the 128 experts"),
        ({"model": "bert-large"}, "does not generate text"),
        ({"model": "qwen3-32b", "memory_frac": 1.5}, "above 0 and at most 1"),
        ({"model": "qwen3-32b", "tp": 0}, "whole number from 1 to 4,096"),
        ({"model": "qwen3-32b", "most_sequences": 10**9}, "whole number from 1 to 65,536"),
        ({"model": "qwen3-32b", "weights_dtype": "nvfp4"}, "h200 has no units for products in nvfp4"),
        ({"model": "qwen3-32b", "host_s": -1.0}, "time of 0 or more"),
    ],
)
def test_engines_that_cannot_be(words: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        _engine(words)


def test_devices_without_bf16_generate_in_fp16() -> None:
    found = model("llama3-8b")
    assert isinstance(found, Transformer)
    engine = Engine(model=found, cluster=cluster("dgx-v100:1"))
    assert engine.format_of("attention") == (2.0, "fp16")
    assert (
        steady(engine, 8, 100, 100).token_s > rank_weights_B(engine) / engine.cluster.device.memory_bandwidth_Bps / 1.1
    )


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(UnknownName, match="fp8"):
        _engine({"model": "qwen3-32b", "kv_dtype": "fp9"})
    with pytest.raises(UnknownName, match="mxfp4"):
        _engine({"model": "qwen3-30b-a3b", "experts_dtype": "mxfp5"})
