"""Encoders with decoders against a torch module typed from T5's paper: parameters, FLOPs, what autograd saves."""

from dataclasses import replace

import pytest
from test_workload_torch import Saved

from lockstep import workload
from lockstep.base.errors import BadInput
from lockstep.describe.stacks import find_way
from lockstep.describe.workload import Attention, LayerKind, Mlp, Piece, Transformer

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional

HIDDEN, HEADS, HEAD, FFN, WORDS, BUCKETS, SEQ = 64, 4, 24, 96, 101, 8, 40
ENCODER, DECODER = 3, 2

PUBLISHED = {
    "flan-t5-small": 76_961_152, "flan-t5-base": 247_577_856, "flan-t5-large": 783_150_080,
    "flan-t5-xl": 2_849_757_184, "flan-t5-xxl": 11_135_332_352,
}  # fmt: skip
"""Parameters of T5ForConditionalGeneration in transformers 4.57.6, whose head is not tied where the file says so."""
SHAPES = {"small": (512, 1024, 8, 6), "base": (768, 2048, 12, 12), "large": (1024, 2816, 24, 16),
          "xl": (2048, 5120, 24, 32), "xxl": (4096, 10240, 24, 64)}  # fmt: skip


def pair():
    """The model that `Pair` is."""
    return Transformer(
        name="pair",
        layers=ENCODER + DECODER,
        encoder_layers=ENCODER,
        hidden=HIDDEN,
        vocab=WORDS,
        max_positions=SEQ,
        attention=Attention(heads=HEADS, kv_heads=HEADS, head_dim=HEAD),
        mlp=Mlp(ffn=FFN, gated=True, activation="silu"),
        norm="layernorm",
        positions="relative",
        buckets=BUCKETS,
        tied_embeddings=True,
    )


class Attend(nn.Module):
    """Attention of one sequence over another, written out, heads as the batch of its products."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(HIDDEN, HEADS * HEAD, bias=False) for _ in range(3))
        self.o = nn.Linear(HEADS * HEAD, HIDDEN, bias=False)

    def forward(self, x, other, scores):
        q, k, v = (
            made(of).view(SEQ, HEADS, HEAD).transpose(0, 1)
            for made, of in ((self.q, x), (self.k, other), (self.v, other))
        )
        out = torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)) + scores, -1), v)
        return self.o(out.transpose(0, 1).reshape(1, SEQ, HEADS * HEAD))


class Block(nn.Module):
    """A layer of the encoder, or with attention over its output one of the decoder."""

    def __init__(self, crosses):
        super().__init__()
        self.own, self.other = Attend(), Attend() if crosses else None
        self.norms = nn.ModuleList(nn.LayerNorm(HIDDEN) for _ in range(3 if crosses else 2))
        self.gate, self.up = nn.Linear(HIDDEN, FFN, bias=False), nn.Linear(HIDDEN, FFN, bias=False)
        self.down = nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x, scores, encoded=None):
        y = self.norms[0](x)
        x = x + self.own(y, y, scores)
        if self.other:
            x = x + self.other(self.norms[2](x), encoded, torch.zeros(()))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Pair(nn.Module):
    """Raffel et al. 2019 (arXiv 1910.10683), section 2.1; gated blocks as in its release 1.1."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, HIDDEN)
        self.tables = nn.ModuleList(nn.Embedding(BUCKETS, HEADS) for _ in range(2))
        self.encoder = nn.ModuleList(Block(False) for _ in range(ENCODER))
        self.decoder = nn.ModuleList(Block(True) for _ in range(DECODER))
        self.norms = nn.ModuleList(nn.LayerNorm(HIDDEN) for _ in range(2))

    def scores(self, stack):
        """Of every pair of positions, for every head."""
        apart = (torch.arange(SEQ)[:, None] - torch.arange(SEQ)[None]).clamp(0, BUCKETS - 1)
        return self.tables[stack](apart).permute(2, 0, 1)

    def forward(self, x, y, scores):
        for block in self.encoder:
            x = block(x, scores[0])
        encoded = self.norms[0](x)
        for block in self.decoder:
            y = block(y, scores[1], encoded)
        return self.norms[1](y) @ self.words.weight.T


def run(module):
    x, y = torch.randn(1, SEQ, HIDDEN, requires_grad=True), torch.randn(1, SEQ, HIDDEN, requires_grad=True)
    return module, (x, y, [module.scores(0), module.scores(1)])


def test_encoder_decoder_parameters_match_its_module():
    assert workload.parameters(pair()).total == sum(one.numel() for one in Pair().parameters())


def test_encoder_decoder_flops_match_torch():
    from torch.utils.flop_counter import FlopCounterMode

    module, inputs = run(Pair())
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        module(*inputs)
    assert workload.forward_flops(pair(), SEQ).total * SEQ == pytest.approx(counter.get_total_flops(), rel=1e-12)


def test_kept_tensors_of_an_encoder_decoder_match_autograd():
    module, inputs = run(Pair())
    with Saved(module) as saved:
        out = module(*inputs)
    out.sum().backward()
    model = pair()
    piece = Piece(
        micro_batch=1, seq=SEQ, element_B=4.0, flash_attention=False, saves={"gate": find_way("gate", "apart").saves}
    )
    layers = sum(workload.layer_activation_B(model, piece, kind) for kind in model.kinds)
    head = sum(one.size_B for one in workload.head_kept_tensors(model, piece) if one.name != "logits")
    assert saved.total_B(above_B=4 * SEQ) == pytest.approx(layers + head, rel=1e-12)


def test_only_the_decoder_skips_masked_attention():
    """The encoder's attention and that over its output see all keys, the decoder's own a half."""
    full, masked = (workload.forward_flops(pair(), SEQ, counting).attention_core for counting in ("full", "causal"))
    each = 2 * SEQ * 2 * HEADS * HEAD
    assert full == (ENCODER + 2 * DECODER) * each
    assert full - masked == DECODER * each / 2


def test_encoder_decoder_layers_are_of_two_kinds():
    assert pair().kinds == (LayerKind(mixer="encoder"),) * ENCODER + (LayerKind(mixer="decoder"),) * DECODER


@pytest.mark.parametrize("size", SHAPES)
def test_totals_with_untied_heads_match_the_published_ones(tmp_path, size):
    import json

    hidden, ffn, layers, heads = SHAPES[size]
    path = tmp_path / "config.json"
    path.write_text(json.dumps({
        "model_type": "t5", "d_model": hidden, "d_ff": ffn, "num_layers": layers, "num_heads": heads,
        "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False,
    }))  # fmt: skip
    assert workload.parameters(workload.model(path)).total == PUBLISHED[f"flan-t5-{size}"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"encoder_layers": ENCODER + DECODER}, "no decoder"),
        ({"attention": Attention(heads=4, kv_heads=4, head_dim=24, causal=False)}, "causal attention"),
        ({"mtp_layers": 1}, "mtp_layers"),
        ({"norm_placement": "post"}, "norm_placement"),
    ],
)
def test_unsupported_encoder_decoder_models_are_refused(fields, said):
    with pytest.raises(BadInput, match=said):
        replace(pair(), **fields)
