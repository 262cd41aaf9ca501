"""Counts against real torch modules on the meta device, written here the way each architecture defines them.

The modules are the oracle: they are typed from the papers and reference implementations, not from `describe.workload`.
The last part counts the bytes that autograd really saves, against the tensors that `activations.py` lists.
"""

import pytest

from lockstep.describe.stacks import find_way
from lockstep.describe.workload import (
    EXPERTS,
    Attention,
    ConvNet,
    Experts,
    LatentAttention,
    Mlp,
    Piece,
    Transformer,
    convnet_activation_B,
    kept_tensors,
    layer_activation_B,
    parameters,
)

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional

H, V, L = 48, 101, 3


class Rms(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight)


class Projections(nn.Module):
    """q, k, v, o of ordinary attention."""

    def __init__(self, hidden, heads, kv_heads, head_dim, qkv_bias=False, out_bias=False):
        super().__init__()
        self.q = nn.Linear(hidden, heads * head_dim, bias=qkv_bias)
        self.k = nn.Linear(hidden, kv_heads * head_dim, bias=qkv_bias)
        self.v = nn.Linear(hidden, kv_heads * head_dim, bias=qkv_bias)
        self.o = nn.Linear(heads * head_dim, hidden, bias=out_bias)


class Gated(nn.Module):
    def __init__(self, hidden, ffn):
        super().__init__()
        self.gate, self.up = nn.Linear(hidden, ffn, bias=False), nn.Linear(hidden, ffn, bias=False)
        self.down = nn.Linear(ffn, hidden, bias=False)


class Decoder(nn.Module):
    """Embedding, layers, final norm, and a head of its own or tied."""

    def __init__(self, layers, norm, tied=False, hidden=H, **more):
        super().__init__()
        self.embed = nn.Embedding(V, hidden)
        self.layers = nn.ModuleList(layers)
        self.norm = norm
        self.head = nn.Linear(hidden, V, bias=more.pop("head_bias", False))
        if tied:
            self.head.weight = self.embed.weight
        for name, module in more.items():
            setattr(self, name, module)


def stack(*modules):
    return nn.ModuleList(modules)


def gpt2():
    """c_attn is one fused (h, 3h) convolution of width 1; positions are learned; the head is tied."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(H), nn.LayerNorm(H)
            self.c_attn, self.c_proj = nn.Linear(H, 3 * H), nn.Linear(H, H)
            self.c_fc, self.mlp_proj = nn.Linear(H, 4 * H), nn.Linear(4 * H, H)

    return Decoder([Block() for _ in range(L)], nn.LayerNorm(H), tied=True, wpe=nn.Embedding(64, H))


def llama_gqa():
    return Decoder([stack(Projections(H, 4, 2, 12), Gated(H, 100), Rms(H), Rms(H)) for _ in range(L)], Rms(H))


def qwen2_bias():
    blocks = [stack(Projections(H, 4, 2, 12, qkv_bias=True), Gated(H, 100), Rms(H), Rms(H)) for _ in range(L)]
    return Decoder(blocks, Rms(H), tied=True)


def qwen3():
    return Decoder(
        [stack(Projections(H, 4, 2, 16), Rms(16), Rms(16), Gated(H, 80), Rms(H), Rms(H)) for _ in range(L)], Rms(H)
    )


def falcon_mqa():
    """One fused query_key_value of heads + 2 heads; one norm; no biases in linear layers; tied."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.query_key_value = nn.Linear(H, (6 + 2) * 8, bias=False)
            self.dense = nn.Linear(H, H, bias=False)
            self.up, self.down = nn.Linear(H, 4 * H, bias=False), nn.Linear(4 * H, H, bias=False)
            self.input_layernorm = nn.LayerNorm(H)

    return Decoder([Block() for _ in range(L)], nn.LayerNorm(H), tied=True)


def gpt_neox():
    def block():
        attention = Projections(H, 4, 4, 12, True, True)
        return stack(attention, nn.Linear(H, 4 * H), nn.Linear(4 * H, H), nn.LayerNorm(H), nn.LayerNorm(H))

    return Decoder([block() for _ in range(L)], nn.LayerNorm(H))


def gptj():
    def block():
        return stack(Projections(H, 4, 4, 12), nn.Linear(H, 4 * H), nn.Linear(4 * H, H), nn.LayerNorm(H))

    return Decoder([block() for _ in range(L)], nn.LayerNorm(H), head_bias=True)


def bloom():
    def block():
        attention = Projections(H, 4, 4, 12, True, True)
        return stack(attention, nn.Linear(H, 4 * H), nn.Linear(4 * H, H), nn.LayerNorm(H), nn.LayerNorm(H))

    return Decoder([block() for _ in range(L)], nn.LayerNorm(H), tied=True, word_embeddings_layernorm=nn.LayerNorm(H))


def gemma2():
    """Heads wider than h / heads; four norms per layer; tied."""
    norms = [[Rms(H) for _ in range(4)] for _ in range(L)]
    return Decoder([stack(Projections(H, 4, 2, 32), Gated(H, 64), *norms[i]) for i in range(L)], Rms(H), tied=True)


def olmo():
    return Decoder([stack(Projections(H, 4, 4, 12), Gated(H, 64)) for _ in range(L)], nn.Identity())


def olmo2():
    blocks = [stack(Projections(H, 4, 2, 12), Rms(48), Rms(24), Gated(H, 64), Rms(H), Rms(H)) for _ in range(L)]
    return Decoder(blocks, Rms(H))


def mixtral():
    def block():
        experts = nn.ModuleList(Gated(H, 40) for _ in range(8))
        return stack(Projections(H, 4, 2, 12), nn.Linear(H, 8, bias=False), experts, Rms(H), Rms(H))

    return Decoder([block() for _ in range(L)], Rms(H))


def qwen2_moe():
    """A shared expert behind a one-wide sigmoid gate, beside the routed ones."""

    def block():
        experts = nn.ModuleList(Gated(H, 24) for _ in range(6))
        shared = stack(Gated(H, 56), nn.Linear(H, 1, bias=False))
        attention = Projections(H, 4, 4, 12, qkv_bias=True)
        return stack(attention, nn.Linear(H, 6, bias=False), experts, shared, Rms(H), Rms(H))

    return Decoder([block() for _ in range(L)], Rms(H))


class LatentProjections(nn.Module):
    """DeepSeek's q_a, q_b, kv_a with its rope key, kv_b, o, and the two latent norms."""

    def __init__(self, heads=4, q_rank=20, kv_rank=16, nope=8, rope=4, value=10):
        super().__init__()
        self.q_a, self.q_norm = nn.Linear(H, q_rank, bias=False), Rms(q_rank)
        self.q_b = nn.Linear(q_rank, heads * (nope + rope), bias=False)
        self.kv_a, self.kv_norm = nn.Linear(H, kv_rank + rope, bias=False), Rms(kv_rank)
        self.kv_b = nn.Linear(kv_rank, heads * (nope + value), bias=False)
        self.o = nn.Linear(heads * value, H, bias=False)


class DeepseekMoe(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(H, 8, bias=False)
        self.e_score_correction_bias = nn.Parameter(torch.zeros(8))
        self.experts = nn.ModuleList(Gated(H, 16) for _ in range(8))
        self.shared = Gated(H, 2 * 16)


def deepseek():
    """First layer dense, then experts with two shared ones and a correction bias."""
    blocks = [stack(LatentProjections(), Gated(H, 100), Rms(H), Rms(H))]
    blocks += [stack(LatentProjections(), DeepseekMoe(), Rms(H), Rms(H)) for _ in range(L - 1)]
    return Decoder(blocks, Rms(H))


def bert():
    """torch's own encoder layer is BERT's; embeddings of words, positions and segments, a norm, a pooler."""
    layers = [nn.TransformerEncoderLayer(H, 4, 4 * H, activation="gelu") for _ in range(L)]
    tables = [nn.Embedding(V, H), nn.Embedding(64, H), nn.Embedding(2, H), nn.LayerNorm(H)]
    return stack(*tables, *layers, nn.Linear(H, H))


def bert_mlm():
    """The masked-language head: dense, norm, tied decoder with its own bias."""
    body = bert()
    bias = nn.Linear(V, 1, bias=False)  # V elements, as the decoder's bias
    return stack(body, nn.Linear(H, H), nn.LayerNorm(H), bias)


class Residual(nn.Module):
    """A torchvision-style bottleneck or basic block."""

    def __init__(self, inputs, inner, stride, bottleneck):
        super().__init__()
        outputs = inner * (4 if bottleneck else 1)
        kernels = [(inputs, inner, 1, 1), (inner, inner, 3, stride), (inner, outputs, 1, 1)]
        kernels = kernels if bottleneck else [(inputs, inner, 3, stride), (inner, outputs, 3, 1)]
        self.convs = stack(*(nn.Conv2d(i, o, k, s, k // 2, bias=False) for i, o, k, s in kernels))
        self.norms = stack(*(nn.BatchNorm2d(o) for _, o, _, _ in kernels))
        self.shortcut = None
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = x
        for index, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            y = norm(conv(y))
            y = F.relu(y, inplace=True) if index < len(self.convs) - 1 else y
        return F.relu(y + (self.shortcut(x) if self.shortcut else x), inplace=True)


def resnet(blocks=(3, 4, 6, 3), bottleneck=True, width=64):
    stem = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
    inputs, layers = width, []
    for stage, count in enumerate(blocks):
        inner = width * 2**stage
        for block in range(count):
            layers.append(Residual(inputs, inner, 2 if stage and not block else 1, bottleneck))
            inputs = inner * (4 if bottleneck else 1)
    return nn.Sequential(*stem, *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


BIASED = {"qkv_bias": True, "out_bias": True}
PLAIN = Mlp(ffn=4 * H, gated=False, activation="gelu", in_bias=True, out_bias=True)


def shape(attention, **more):
    fields = {"name": "tiny", "layers": L, "hidden": H, "vocab": V, "max_positions": 64}
    return Transformer(attention=Attention(**attention), **{**fields, **more})


def heads(count, kv=None, width=12, **more):
    return {"heads": count, "kv_heads": kv or count, "head_dim": width, **more}


LATENT = LatentAttention(q_rank=20, kv_rank=16, nope_dim=8, rope_dim=4, value_dim=10)
ENCODER = {
    "norm": "layernorm",
    "norm_placement": "post",
    "positions": "learned",
    "final_norm": False,
    "embedding_norm": True,
    "token_types": 2,
    "pooler": True,
    "tied_embeddings": True,
}

# One line per architecture: the torch module, and the description of the same model.
ARCHITECTURES = {
    "gpt2": (gpt2, shape(heads(4, **BIASED), mlp=PLAIN, norm="layernorm", positions="learned", tied_embeddings=True)),
    "llama": (llama_gqa, shape(heads(4, 2), mlp=Mlp(ffn=100))),
    "qwen2": (qwen2_bias, shape(heads(4, 2, qkv_bias=True), mlp=Mlp(ffn=100), tied_embeddings=True)),
    "qwen3": (qwen3, shape(heads(4, 2, 16, qk_norm="head"), mlp=Mlp(ffn=80))),
    "falcon": (
        falcon_mqa,
        shape(
            heads(6, 1, 8),
            mlp=Mlp(ffn=4 * H, gated=False, activation="gelu"),
            norm="layernorm",
            parallel_block=True,
            tied_embeddings=True,
        ),
    ),
    "gpt-neox": (
        gpt_neox,
        shape(heads(4, **BIASED), mlp=PLAIN, norm="layernorm", parallel_block=True, parallel_norms=2),
    ),
    "gptj": (gptj, shape(heads(4), mlp=PLAIN, norm="layernorm", parallel_block=True, head_bias=True)),
    "bloom": (
        bloom,
        shape(
            heads(4, **BIASED),
            mlp=PLAIN,
            norm="layernorm",
            positions="alibi",
            embedding_norm=True,
            tied_embeddings=True,
        ),
    ),
    "gemma2": (gemma2, shape(heads(4, 2, 32), mlp=Mlp(ffn=64), norm_placement="sandwich", tied_embeddings=True)),
    "olmo": (olmo, shape(heads(4), mlp=Mlp(ffn=64), norm="nonparametric")),
    "olmo2": (olmo2, shape(heads(4, 2, qk_norm="full"), mlp=Mlp(ffn=64), norm_placement="output")),
    "mixtral": (mixtral, shape(heads(4, 2), experts=Experts(experts=8, top_k=2, ffn=40))),
    "qwen2-moe": (
        qwen2_moe,
        shape(heads(4, qkv_bias=True), experts=Experts(experts=6, top_k=2, ffn=24, shared_ffn=56, shared_gate=True)),
    ),
    "deepseek": (
        deepseek,
        shape(
            heads(4, width=12, latent=LATENT),
            mlp=Mlp(ffn=100),
            experts=Experts(experts=8, top_k=2, ffn=16, shared_ffn=32, first_dense=1, correction_bias=True),
        ),
    ),
    "bert": (bert, shape(heads(4, causal=False, **BIASED), mlp=PLAIN, **ENCODER)),
    "bert-mlm": (
        bert_mlm,
        shape(heads(4, causal=False, **BIASED), mlp=PLAIN, mlm_head=True, head_bias=True, **ENCODER),
    ),
    "resnet50": (resnet, ConvNet(name="tiny", blocks=(3, 4, 6, 3))),
    "resnet18": (lambda: resnet((2, 2, 2, 2), False), ConvNet(name="tiny", blocks=(2, 2, 2, 2), bottleneck=False)),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_parameters_match_the_tensors_of_a_torch_module(name):
    make, model = ARCHITECTURES[name]
    with torch.device("meta"):
        module = make()
    assert parameters(model).total == sum(tensor.numel() for tensor in module.parameters())


# --- what autograd saves -------------------------------------------------------------------------------------


class Saved:
    """Bytes of distinct storages that autograd saves inside the block, parameters left out."""

    def __init__(self, module):
        self.skip = {tensor.untyped_storage().data_ptr() for tensor in module.parameters()}
        self.found = {}

    def __enter__(self):
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor)
        self.hooks.__enter__()
        return self

    def __exit__(self, *error):
        self.hooks.__exit__(*error)

    def _pack(self, tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.skip:
            # Kept alive, so that no later tensor reuses its address.
            self.found[storage.data_ptr()] = tensor
        return tensor

    def total_B(self, above_B=0):
        sizes = (tensor.untyped_storage().nbytes() for tensor in self.found.values())
        return sum(size for size in sizes if size > above_B)


class Layer(nn.Module):
    """A pre-norm layer with scaled-dot-product or written-out attention, gated or GELU block."""

    def __init__(self, hidden, heads, kv_heads, ffn, gated, fused):
        super().__init__()
        self.heads, self.kv_heads, self.width = heads, kv_heads, hidden // heads
        self.gated, self.fused = gated, fused
        self.norm_1, self.norm_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.p = Projections(hidden, heads, kv_heads, self.width)
        self.gate = nn.Linear(hidden, ffn, bias=False) if gated else None
        self.up, self.down = nn.Linear(hidden, ffn, bias=False), nn.Linear(ffn, hidden, bias=False)

    def attend(self, x):
        b, s, _ = x.shape
        q = self.p.q(x).view(b, s, self.heads, self.width)
        k = self.p.k(x).view(b, s, self.kv_heads, self.width)
        v = self.p.v(x).view(b, s, self.kv_heads, self.width)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        if self.fused:
            out = F.scaled_dot_product_attention(q, k, v, enable_gqa=self.heads != self.kv_heads)
        else:
            # One sequence, so that heads are the batch of the products and nothing is copied.
            probabilities = torch.softmax(torch.bmm(q[0], k[0].transpose(1, 2)), -1)
            out = torch.bmm(probabilities, v[0])[None]
        return self.p.o(out.transpose(1, 2).reshape(b, s, self.heads * self.width))

    def forward(self, x):
        x = x + self.attend(self.norm_1(x))
        y = self.norm_2(x)
        inner = F.silu(self.gate(y)) * self.up(y) if self.gated else F.gelu(self.up(y))
        return x + self.down(inner)


def saved_by(layer, hidden, seq):
    x = torch.randn(1, seq, hidden, requires_grad=True)
    scalars_B = 4 * seq  # mean and reciprocal deviation of a norm, left out by the paper and by us
    with Saved(layer) as saved:
        y = layer(x)
    y.sum().backward()
    return saved.total_B(above_B=scalars_B)


@pytest.mark.parametrize("gated", [False, True])
def test_kept_tensors_of_an_unfused_layer_match_autograd(gated):
    """fp32, no dropout, attention written out, every elementwise operation its own kernel."""
    hidden, seq, count, ffn = 64, 40, 4, 96
    layer = Layer(hidden, count, count, ffn, gated, fused=False)
    model = shape(
        heads(count, width=hidden // count),
        hidden=hidden,
        mlp=Mlp(ffn=ffn, gated=gated, activation="silu" if gated else "gelu"),
        norm="layernorm",
    )
    piece = Piece(
        micro_batch=1, seq=seq, element_B=4.0, flash_attention=False, saves={"gate": find_way("gate", "apart").saves}
    )
    # The attention output is transposed into the layout that the output projection reads: torch saves one copy of it.
    assert saved_by(layer, hidden, seq) == layer_activation_B(model, piece)


def test_kept_tensors_with_fused_attention_match_autograd():
    """torch's fused CPU attention saves q, k, v, output and log-sum-exp: nothing quadratic."""
    hidden, seq, count, ffn = 64, 40, 4, 96
    layer = Layer(hidden, count, count, ffn, gated=True, fused=True)
    model = shape(heads(count, width=16), hidden=hidden, mlp=Mlp(ffn=ffn), norm="layernorm")
    piece = Piece(micro_batch=1, seq=seq, element_B=4.0, saves={"gate": find_way("gate", "apart").saves})
    listed = {tensor.name: tensor.size_B for tensor in kept_tensors(model, piece)}
    assert saved_by(layer, hidden, seq) == sum(listed.values())


class WeightedExpert(nn.Module):
    """A GELU expert whose routing weights multiply what its second product reads, as in Megatron Core's mlp.py."""

    def __init__(self, hidden, ffn):
        super().__init__()
        self.up, self.down = nn.Linear(hidden, ffn, bias=False), nn.Linear(ffn, hidden, bias=False)

    def forward(self, x, weights):
        return self.down(F.gelu(self.up(x)) * weights)


def test_kept_tensors_of_an_expert_without_a_gate_match_autograd():
    hidden, seq, ffn = 64, 40, 96
    expert = WeightedExpert(hidden, ffn)
    weights = torch.rand(seq, 1, requires_grad=True)
    with Saved(expert) as saved:
        expert(torch.randn(seq, hidden, requires_grad=True), weights).sum().backward()
    described = Experts(experts=4, top_k=1, ffn=ffn, gated=False, activation="gelu")
    model = shape(heads(4), hidden=hidden, mlp=None, experts=described)
    listed = kept_tensors(model, Piece(micro_batch=1, seq=seq, element_B=4.0), EXPERTS)
    inside = sum(tensor.size_B for tensor in listed if tensor.name.startswith("expert "))
    assert saved.total_B(above_B=4 * seq) == inside


def test_kept_tensors_of_a_resnet_match_autograd():
    """Batch statistics, one float per channel (at most 512 here), are left out by us."""
    module = resnet((1, 1, 1, 1), width=16)
    images = torch.randn(2, 3, 64, 64)
    with Saved(module) as saved:
        module(images).sum().backward()
    model = ConvNet(name="tiny", blocks=(1, 1, 1, 1), width=16, image=64)
    assert saved.total_B(above_B=4 * 512) == convnet_activation_B(model, 2, element_B=4.0)
