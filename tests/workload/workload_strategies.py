"""Hypothesis strategies: small valid models of every shape."""

from hypothesis import strategies as st

from lockstep.describe.workload import Attention, Experts, LatentAttention, Mlp, Transformer


@st.composite
def attentions(draw):
    count = draw(st.sampled_from([1, 2, 4, 8]))
    if draw(st.booleans()):
        latent = LatentAttention(
            q_rank=draw(st.none() | st.integers(1, 64)),
            kv_rank=draw(st.integers(1, 64)),
            nope_dim=draw(st.integers(1, 16)),
            rope_dim=draw(st.integers(1, 16)),
            value_dim=draw(st.integers(1, 16)),
        )
        width = latent.nope_dim + latent.rope_dim
        return Attention(heads=count, kv_heads=count, head_dim=width, latent=latent)
    return Attention(
        heads=count,
        kv_heads=draw(st.sampled_from([each for each in (1, 2, 4, 8) if count % each == 0])),
        head_dim=draw(st.integers(1, 32)),
        qkv_bias=draw(st.booleans()),
        out_bias=draw(st.booleans()),
        qk_norm=draw(st.sampled_from(["none", "head", "per-head", "full"])),
        window=draw(st.none() | st.integers(1, 64)),
        global_every=draw(st.integers(0, 3)),
    )


@st.composite
def mlps(draw):
    return Mlp(
        ffn=8 * draw(st.integers(1, 32)),
        gated=draw(st.booleans()),
        activation=draw(st.sampled_from(["silu", "gelu", "relu"])),
        in_bias=draw(st.booleans()),
        out_bias=draw(st.booleans()),
    )


@st.composite
def experts(draw):
    count = draw(st.integers(1, 16))
    shared = 8 * draw(st.integers(0, 8))
    return Experts(
        experts=count,
        top_k=draw(st.integers(1, count)),
        ffn=8 * draw(st.integers(1, 16)),
        gated=draw(st.booleans()),
        shared_ffn=shared,
        shared_gate=shared > 0 and draw(st.booleans()),
        router_bias=draw(st.booleans()),
        correction_bias=draw(st.booleans()),
    )


@st.composite
def transformers(draw):
    parallel = draw(st.booleans())
    placement = "pre" if parallel else draw(st.sampled_from(["pre", "post", "sandwich", "output"]))
    mixture = draw(st.none() | experts())
    return Transformer(
        name="drawn",
        layers=draw(st.integers(1, 5)),
        hidden=8 * draw(st.integers(1, 16)),
        vocab=draw(st.integers(1, 300)),
        attention=draw(attentions()),
        mlp=None if mixture else draw(mlps()),
        experts=mixture,
        positions=draw(st.sampled_from(["rotary", "learned", "alibi", "none"])),
        max_positions=draw(st.integers(1, 128)),
        norm=draw(st.sampled_from(["rmsnorm", "layernorm", "layernorm-no-bias", "nonparametric"])),
        norm_placement=placement,
        parallel_block=parallel,
        parallel_norms=draw(st.integers(1, 2)),
        tied_embeddings=draw(st.booleans()),
        head_bias=draw(st.booleans()),
        mtp_layers=draw(st.integers(0, 1)),
    )
