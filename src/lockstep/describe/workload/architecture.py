"""What a model is: `Transformer`, or the `ConvNet` of `convnet.py`; frozen descriptions that check themselves.

Nothing is counted here. `parameters.py` lists the weights that follow from a description, `flops.py` the arithmetic,
`activations.py` the tensors kept for the backward pass. A description that breaks a rule raises `BadInput` naming
the field, what it holds and what would be allowed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field, replace
from lockstep.base.types.brief import Brief
from lockstep.describe.workload.checks import LIMITS, divisors_near, flags, one_of, positive, whole
from lockstep.describe.workload.classifier import Classifier
from lockstep.describe.workload.convnet import ConvNet as ConvNet
from lockstep.describe.workload.kind import LayerKind, kinds_of
from lockstep.describe.workload.modulation import Modulation
from lockstep.describe.workload.patches import Patches
from lockstep.describe.workload.recurrent import Recurrent
from lockstep.describe.workload.together import check_input, check_together

POSITIONS = ("rotary", "learned", "alibi", "relative", "none")
NORMS = ("rmsnorm", "layernorm", "layernorm-no-bias", "nonparametric")
NORM_PLACEMENTS = ("pre", "post", "sandwich", "output")
QK_NORMS = ("none", "head", "per-head", "full", "nonparametric")
ACTIVATIONS = ("silu", "gelu", "gelu_new", "relu", "relu2")


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention: queries, keys and values through low-rank projections (DeepSeek-V2, 2.1)."""

    q_rank: int | None = None
    """Width of the query bottleneck; None projects queries directly (DeepSeek-V2-Lite)."""
    kv_rank: int
    """Width of the shared key-value bottleneck."""
    nope_dim: int
    """Part of each query and key head without positions."""
    rope_dim: int
    """Rotary part of each head; its key is shared by all heads."""
    value_dim: int
    """Width of each value head."""

    def __post_init__(self) -> None:
        for name in ("kv_rank", "nope_dim", "rope_dim", "value_dim"):
            whole("attention.latent", name, getattr(self, name), LIMITS["hidden"])
        if self.q_rank is not None:
            whole("attention.latent", "q_rank", self.q_rank, LIMITS["hidden"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Multi-head (kv_heads = heads), grouped-query, multi-query (kv_heads = 1) or latent attention."""

    heads: int
    kv_heads: int
    head_dim: int
    """Width of one query or key head; with latent attention, nope_dim + rope_dim."""
    latent: LatentAttention | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: str = "none"
    """Norm on queries and keys: a weight of head_dim ("head"), one per head, over the full width, or none."""
    causal: bool = True
    window: int | None = None
    """Keys that a query of a local layer sees; None means that every layer is global."""
    global_every: int = 0
    """With a window: layers n-1, 2n-1, ... are global all the same (0: none is)."""
    first_local: int = 0
    """With a window: layers before this one are global."""
    chunked: bool = False
    """The window is a chunk: a query sees the keys before it in its own (Llama 4)."""
    sinks: bool = False
    """A learned score per head that takes part in the softmax (gpt-oss)."""
    gated: bool = False
    """A sigmoid gate on the heads' output, made by the query projection, twice as wide (Qwen3-Next)."""

    def __post_init__(self) -> None:
        for name in ("heads", "kv_heads", "head_dim"):
            whole("attention", name, getattr(self, name), LIMITS[name])
        if self.heads % self.kv_heads:
            tries = " or ".join(str(number) for number in divisors_near(self.heads, self.kv_heads))
            raise BadInput(f"kv_heads={self.kv_heads} does not divide {self.heads} heads; try {tries}", "attention")
        one_of("attention", "qk_norm", self.qk_norm, QK_NORMS)
        flags("attention", self, "qkv_bias", "out_bias", "causal", "chunked", "sinks", "gated")
        if self.window is not None:
            whole("attention", "window", self.window, LIMITS["positions"])
        whole("attention", "global_every", self.global_every, LIMITS["layers"], 0)
        whole("attention", "first_local", self.first_local, LIMITS["layers"], 0)
        latent = self.latent
        if latent is not None and self.head_dim != latent.nope_dim + latent.rope_dim:
            wanted = latent.nope_dim + latent.rope_dim
            raise BadInput(f"head_dim={self.head_dim}, but nope_dim + rope_dim = {wanted}; use {wanted}", "attention")
        if latent is not None and self.kv_heads != self.heads:
            raise BadInput(f"latent attention has a key per head; set kv_heads to {self.heads}", "attention")

    @property
    def value_dim(self) -> int:
        """Width of one value head."""
        return self.latent.value_dim if self.latent else self.head_dim

    @property
    def query_width(self) -> int:
        """Width of all query heads together."""
        return self.heads * self.head_dim

    @property
    def out_width(self) -> int:
        """Width of all value heads that enter the output projection."""
        return self.heads * self.value_dim

    def window_of(self, layer: int) -> int | None:
        """The window of layer number `layer` (from 0), None where it is global."""
        is_global = self.global_every > 0 and (layer + 1) % self.global_every == 0
        return None if is_global or layer < self.first_local else self.window


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotary:
    """Rotary positions: their angles, which no count or time depends on but exports need."""

    base: float = 10_000.0
    share_frac: float = 1.0
    """Share of a head that is rotated."""
    scaling: str = "none"
    """How angles are stretched for long sequences: none, linear, llama3, yarn, or another kind's name."""
    factor: float = 1.0
    original_positions: int | None = None
    """Longest sequence before the stretch."""
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    """These two of llama3."""
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float = 1.0
    mscale_all_dim: float = 0.0
    """These four of yarn."""

    def __post_init__(self) -> None:
        for name in ("base", "share_frac", "factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow"):
            positive("rotary", name, getattr(self, name))
        if self.share_frac > 1:
            raise BadInput(f"share_frac must be at most 1, got {self.share_frac:g}", "rotary.share_frac")
        for name in ("mscale", "mscale_all_dim"):
            if getattr(self, name) != 0:
                positive("rotary", name, getattr(self, name))
        if self.original_positions is not None:
            whole("rotary", "original_positions", self.original_positions, LIMITS["positions"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlp:
    """Feed-forward block: down(act(up(x))), or down(act(gate(x)) * up(x)) when gated."""

    ffn: int
    gated: bool = True
    activation: str = "silu"
    in_bias: bool = False
    out_bias: bool = False

    def __post_init__(self) -> None:
        whole("mlp", "ffn", self.ffn, LIMITS["ffn"])
        one_of("mlp", "activation", self.activation, ACTIVATIONS)
        flags("mlp", self, "gated", "in_bias", "out_bias")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Mixture of experts in place of the feed-forward block of some or all layers."""

    experts: int
    """Routed experts per layer."""
    top_k: int
    """Routed experts that each token visits."""
    ffn: int
    """Inner width of one routed expert."""
    gated: bool = True
    activation: str = "silu"
    shared_ffn: int = 0
    """Inner width of all shared experts together; 0 means none."""
    shared_gate: bool = False
    """A sigmoid gate on the shared expert (Qwen2-MoE)."""
    groups: int = 1
    """Groups of neighbouring experts that routing knows, one per node or device (DeepSeek-V2, 2.1.2)."""
    top_groups: int = 1
    """Groups among which a token's experts are chosen."""
    router_bias: bool = False
    """A bias in the router's linear layer."""
    in_bias: bool = False
    out_bias: bool = False
    """Biases of every routed expert (gpt-oss)."""
    shared_bias: bool = False
    """Biases of all projections of the shared experts (DeepSeek-V2 with mlp_bias)."""
    correction_bias: bool = False
    """A per-expert balancing bias that is stored but gets no gradient (DeepSeek-V3, 2.1.2)."""
    router_normalized: bool = field(default=True, compare=False)
    """The weights of a token's experts add up to one (Mixtral), or are taken as the router gives them (DeepSeek-V2)."""
    router_scale: float = field(default=1.0, compare=False)
    """What they are multiplied by."""
    first_dense: int = 0
    """The first so many layers keep the dense block."""
    every: int = 1
    """Of the later layers, each n-th has experts."""
    dense_layers: tuple[int, ...] = ()
    """Further layers, numbered from 0, that keep the dense block."""

    def __post_init__(self) -> None:
        whole("experts", "experts", self.experts, LIMITS["experts"])
        whole("experts", "top_k", self.top_k, LIMITS["experts"])
        if self.top_k > self.experts:
            raise BadInput(f"top_k={self.top_k} is more than the {self.experts} experts there are", "experts")
        whole("experts", "groups", self.groups, LIMITS["experts"])
        whole("experts", "top_groups", self.top_groups, LIMITS["experts"])
        if self.experts % self.groups or self.top_groups > self.groups:
            raise BadInput(
                f"top_groups={self.top_groups} of groups={self.groups} must be at most all of them, and groups must "
                f"divide {self.experts} experts",
                "experts",
            )
        whole("experts", "ffn", self.ffn, LIMITS["ffn"])
        whole("experts", "shared_ffn", self.shared_ffn, LIMITS["ffn"], 0)
        whole("experts", "first_dense", self.first_dense, LIMITS["layers"], 0)
        whole("experts", "every", self.every, LIMITS["layers"])
        one_of("experts", "activation", self.activation, ACTIVATIONS)
        flags("experts", self, "gated", "shared_gate", "router_bias", "correction_bias", "router_normalized")
        flags("experts", self, "in_bias", "out_bias", "shared_bias")
        positive("experts", "router_scale", self.router_scale)
        for layer in self.dense_layers:
            whole("experts", "dense_layers", layer, LIMITS["layers"], 0)
        if self.shared_gate and not self.shared_ffn:
            raise BadInput("shared_gate needs shared experts; set shared_ffn, or shared_gate to false", "experts")

    def in_layer(self, layer: int) -> bool:
        """Whether layer number `layer` (from 0) has experts."""
        beyond = layer - self.first_dense
        return beyond >= 0 and (beyond + 1) % self.every == 0 and layer not in self.dense_layers


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Transformer(Brief):
    """A decoder (causal attention), an encoder, or an encoder with a decoder; over text, or over patches of images."""

    name: str
    layers: int
    hidden: int
    vocab: int = 0
    """Rows of the token table; 0 for images."""
    patches: Patches | None = None
    """The images that it reads instead of text."""
    modulation: Modulation | None = None
    """Of images: what norms and blocks take from a time step and a label (DiT)."""
    attention: Attention
    mlp: Mlp | None = None
    """The dense feed-forward block; may be None when every layer has experts."""
    experts: Experts | None = None
    recurrent: Recurrent | None = None
    """The mixer of the layers that the pattern calls recurrent."""
    pattern: tuple[str, ...] = ()
    """A word per layer (`kind.py`), repeated over the layers; empty where attention and experts say it all."""
    encoder_layers: int = 0
    """The first so many layers are an encoder, all later ones a decoder that attends to its output too (T5). Then a
    sequence is a pair: as many tokens into the encoder as out of the decoder.
    """
    positions: str = "rotary"
    max_positions: int = 0
    """Longest sequence that the model was made for; with learned positions, rows of their table. Tokens of an image."""
    extra_positions: int = 0
    """Rows of a learned table beyond max_positions (OPT and RoBERTa keep 2)."""
    buckets: int = 32
    """With relative positions: the number of distinct distances, each with its own score for every head (T5)."""
    norm: str = "rmsnorm"
    norm_placement: str = "pre"
    """pre; post (after the residual sum, BERT); sandwich (pre, and on block outputs, Gemma 2); output (OLMo 2)."""
    final_norm: bool = True
    embedding_norm: bool = False
    """A norm on the embeddings (BLOOM, BERT)."""
    parallel_block: bool = False
    """Attention and feed-forward read the same input and add to it together (GPT-J, Falcon, PaLM)."""
    parallel_norms: int = 1
    """Norms at the head of a parallel block: shared, or 2, one each (GPT-NeoX, Falcon-40B)."""
    tied_embeddings: bool = False
    head_bias: bool = False
    token_types: int = 0
    """Rows of the segment embedding (BERT: 2)."""
    pooler: bool = False
    """A dense layer on the first token (BERT)."""
    mlm_head: bool = False
    """BERT's masked-language head: dense, norm, tied projection with bias. Without it an encoder has no head."""
    classifier: Classifier | None = None
    """Labels read off the last layer; after causal attention they replace the projection onto the vocabulary."""
    model_type: str = field(default="", compare=False)
    """Whose class of transformers it is, by the words of its config.json; which linear layers it has follows."""
    headless: bool = False
    """Nothing follows the last norm, as in a model that makes embeddings of texts."""
    mtp_layers: int = 0
    """Multi-token-prediction modules (DeepSeek-V3, 2.2), counted separately from the main model."""
    norm_epsilon: float | None = field(default=None, compare=False)
    """Added to the variance in every norm; None where it is unknown."""
    rotary: Rotary | None = field(default=None, compare=False)
    """None where the angles are unknown."""
    scaled_stream: bool = field(default=False, compare=False)
    """Embeddings, residuals, scores or logits have multipliers of their own (Granite)."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """Parts of the file that are ignored; answers list them among their assumptions."""
    source: str = field(default="", compare=False)
    date: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for name in ("layers", "hidden"):
            whole("model", name, getattr(self, name), LIMITS[name])
        check_input(self)
        if self.patches is not None:
            object.__setattr__(self, "max_positions", self.patches.tokens)
        for name in ("extra_positions", "token_types", "mtp_layers"):
            whole("model", name, getattr(self, name), 1_000, 0)
        whole("model", "buckets", self.buckets, LIMITS["positions"])
        whole("model", "encoder_layers", self.encoder_layers, LIMITS["layers"], 0)
        whole("model", "parallel_norms", self.parallel_norms, 2)
        one_of("model", "positions", self.positions, POSITIONS)
        one_of("model", "norm", self.norm, NORMS)
        one_of("model", "norm_placement", self.norm_placement, NORM_PLACEMENTS)
        flags("model", self, "final_norm", "embedding_norm", "parallel_block", "tied_embeddings", "head_bias")
        flags("model", self, "pooler", "mlm_head", "headless")
        if self.norm_epsilon is not None:
            positive("model", "norm_epsilon", self.norm_epsilon)
        check_together(self)

    @property
    def kinds(self) -> tuple[LayerKind, ...]:
        """The kind of every layer, in order."""
        return _kinds(self)

    @property
    def expert_layers(self) -> tuple[bool, ...]:
        """For each layer, whether it has experts."""
        return tuple(kind.experts for kind in self.kinds)

    @property
    def num_expert_layers(self) -> int:
        """Layers with experts."""
        return sum(kind.experts for kind in self.kinds)

    @property
    def num_dense_layers(self) -> int:
        """Layers with the dense feed-forward block."""
        return sum(kind.block == "dense" for kind in self.kinds)

    @property
    def num_attention_layers(self) -> int:
        """Layers with attention."""
        return sum(kind.attends for kind in self.kinds)

    @property
    def windows(self) -> tuple[int | None, ...]:
        """For each layer, its attention window, None where it is global."""
        return tuple(kind.window or None for kind in self.kinds)

    @property
    def has_head(self) -> bool:
        """Whether hidden states are projected onto the vocabulary."""
        return self.mlm_head or (self.attention.causal and self.classifier is None and not self.headless)

    def masks(self, kind: LayerKind) -> bool:
        """Whether a token of a layer of this kind sees only itself and those before it."""
        return self.attention.causal and kind.mixer != "encoder"

    def norms_of(self, kind: LayerKind) -> int:
        """Norms of hidden width in a layer of a kind."""
        if self.parallel_block:
            return self.parallel_norms
        if not kind.whole:
            return 1
        return 4 if self.norm_placement == "sandwich" else 2 + kind.crosses


@lru_cache(maxsize=256)
def _kinds(model: Transformer) -> tuple[LayerKind, ...]:
    """The kind of every layer."""
    attention, experts = model.attention, model.experts
    return kinds_of(
        model.layers,
        model.pattern,
        attention.window,
        attention.window_of,
        lambda layer: experts is not None and experts.in_layer(layer),
        model.encoder_layers,
    )


Model = Transformer | ConvNet


def with_masked_language_head(model: Model) -> Model:
    """An encoder with the head over the vocabulary with which it is pre-trained; a ConvNet as it is."""
    return replace(model, mlm_head=True, head_bias=True) if isinstance(model, Transformer) else model


def to_dict(model: Model) -> dict[str, Any]:
    """The description as plain JSON, every field."""
    from dataclasses import asdict

    return {"kind": type(model).__name__, **asdict(model)}
