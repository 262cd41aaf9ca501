"""Transformers over images against torch modules typed from their papers: parameters, FLOPs, what autograd saves."""

from dataclasses import replace

import pytest
from test_workload_torch import Layer, Saved

from lockstep import workload
from lockstep.base.errors import BadInput
from lockstep.describe.workload import Attention, Mlp, Patches, Piece, Transformer

torch = pytest.importorskip("torch")
nn = torch.nn

HIDDEN, HEADS, FFN, LAYERS = 64, 4, 96, 2
IMAGE, PATCH, CHANNELS, CLASSES = 24, 4, 3, 11

TORCHVISION = {"vit-b-16": 17.56, "vit-b-32": 4.41, "vit-l-16": 61.55, "vit-h-14": 167.29}
"""Billions of multiply-accumulates for an image of 224 x 224, as torchvision's pages of the models print them."""


def vit(**patches):
    """The model that `Vit` is."""
    given = {"image": IMAGE, "patch": PATCH, "channels": CHANNELS, "classes": CLASSES, **patches}
    return Transformer(
        name="vit",
        layers=LAYERS,
        hidden=HIDDEN,
        patches=Patches(**given),
        attention=Attention(heads=HEADS, kv_heads=HEADS, head_dim=HIDDEN // HEADS, causal=False),
        mlp=Mlp(ffn=FFN, gated=False, activation="gelu"),
        positions="learned",
        norm="layernorm",
    )


class Vit(nn.Module):
    """Dosovitskiy et al. 2020, equations 1 to 4."""

    def __init__(self, fused=True):
        super().__init__()
        tokens = (IMAGE // PATCH) ** 2 + 1
        self.project = nn.Conv2d(CHANNELS, HIDDEN, PATCH, PATCH)
        self.token = nn.Parameter(torch.zeros(1, 1, HIDDEN))
        self.positions = nn.Parameter(torch.zeros(1, tokens, HIDDEN))
        self.layers = nn.ModuleList(Layer(HIDDEN, HEADS, HEADS, FFN, gated=False, fused=fused) for _ in range(LAYERS))
        self.norm, self.classifier = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, CLASSES)

    def forward(self, images):
        x = self.project(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(images), -1, -1), x], 1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.classifier(self.norm(x)[:, 0])


def counted_flops(module, *inputs):
    """FLOPs of one pass by torch's own counter."""
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        module(*inputs)
    return counter.get_total_flops()


def kept_B(model, piece):
    """Bytes that a whole model keeps, without its logits."""
    layers = sum(workload.layer_activation_B(model, piece, kind) for kind in model.kinds)
    head = [one for one in workload.head_kept_tensors(model, piece) if one.name != "logits"]
    return layers + workload.embedding_activation_B(model, piece) + sum(one.size_B for one in head)


@pytest.mark.parametrize("name", TORCHVISION)
def test_vit_flops_match_the_published_ones(name):
    model = workload.model(name)
    flops = workload.forward_flops(model, model.patches.tokens).total * model.patches.tokens
    assert round(flops / 2e9, 2) == pytest.approx(TORCHVISION[name], abs=0.011)


def test_vit_parameters_match_its_module():
    assert workload.parameters(vit()).total == sum(one.numel() for one in Vit().parameters())


def test_vit_flops_match_torch():
    model, images = vit(), torch.zeros(1, CHANNELS, IMAGE, IMAGE)
    tokens = model.patches.tokens
    ours = workload.forward_flops(model, tokens).total * tokens
    assert ours == pytest.approx(counted_flops(Vit(fused=False), images), rel=1e-12)


def test_kept_tensors_of_a_vit_match_autograd():
    module, count = Vit(), 3
    tokens = vit().patches.tokens
    images = torch.randn(count, CHANNELS, IMAGE, IMAGE)
    with Saved(module) as saved:
        module(images).sum().backward()
    piece = Piece(micro_batch=count, seq=tokens, element_B=4.0, fused_elementwise=False)
    # Mean and deviation of every token in a norm are left out by us.
    assert saved.total_B(above_B=4 * count * tokens) == pytest.approx(kept_B(vit(), piece), rel=1e-12)


def test_pixels_are_not_kept_where_the_projection_is_frozen():
    piece = Piece(micro_batch=2, seq=vit().patches.tokens)
    adapters = workload.Adapters(8, ("q_proj", "v_proj"))
    assert workload.embedding_activation_B(vit(), piece) == pytest.approx(2 * CHANNELS * IMAGE**2 * 2.0)
    assert workload.embedding_activation_B(vit(), replace(piece, adapters=adapters)) == 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"patch": 48}, "larger than the image"),
        ({"outputs": 8}, "classes or outputs"),
        ({"classes": 0, "outputs": 8, "patch": 5}, "does not divide"),
    ],
)
def test_invalid_patches_are_refused(fields, said):
    with pytest.raises(BadInput, match=said):
        vit(**fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"vocab": 100}, "reads no text"),
        ({"attention": Attention(heads=4, kv_heads=4, head_dim=16)}, "both directions"),
    ],
)
def test_fields_of_images_and_text_cannot_be_mixed(fields, said):
    with pytest.raises(BadInput, match=said):
        replace(vit(), **fields)


def test_text_needs_a_vocabulary():
    with pytest.raises(BadInput, match="vocab"):
        replace(workload.model("gpt2"), vocab=0)


FREQUENCIES, LABELS, OUTPUTS, SMALL = 32, 7, 6, 32


def dit(own=False):
    """The model that `Dit` is."""
    return Transformer(
        name="dit",
        layers=LAYERS,
        hidden=SMALL,
        patches=Patches(image=40, patch=4, channels=CHANNELS, class_token=False, outputs=OUTPUTS),
        modulation=workload.Modulation(frequencies=FREQUENCIES, labels=LABELS, own=own),
        attention=Attention(heads=HEADS, kv_heads=HEADS, head_dim=SMALL // HEADS, causal=False),
        mlp=Mlp(ffn=FFN, gated=False, activation="gelu"),
        positions="none",
        norm="nonparametric",
    )


class Embedders(nn.Module):
    """A vector of a time step's waves and a label."""

    def __init__(self):
        super().__init__()
        self.step = nn.Sequential(nn.Linear(FREQUENCIES, SMALL), nn.SiLU(), nn.Linear(SMALL, SMALL))
        self.labels = nn.Embedding(LABELS, SMALL)

    def forward(self, waves, labels):
        return nn.functional.silu(self.step(waves) + self.labels(labels))[:, None]


class Modulated(nn.Module):
    """A layer around the blocks of `Layer`, whose norms have no weights (Peebles and Xie 2022, figure 3)."""

    def __init__(self, fused, own):
        super().__init__()
        self.blocks = Layer(SMALL, HEADS, HEADS, FFN, gated=False, fused=fused)
        self.blocks.norm_1, self.blocks.norm_2 = (nn.LayerNorm(SMALL, elementwise_affine=False) for _ in range(2))
        self.embedders, self.made = Embedders() if own else None, nn.Linear(SMALL, 6 * SMALL)

    def forward(self, x, vector, condition):
        vector = self.embedders(*condition) if self.embedders else vector
        shift, scale, gate, shift_2, scale_2, gate_2 = self.made(vector).chunk(6, -1)
        blocks = self.blocks
        x = x + gate * blocks.attend(blocks.norm_1(x) * (1 + scale) + shift)
        y = blocks.norm_2(x) * (1 + scale_2) + shift_2
        return x + gate_2 * blocks.down(nn.functional.gelu(blocks.up(y)))


class Dit(nn.Module):
    """facebookresearch/DiT, models.py, with positions that are not trained; or with embedders in every layer."""

    def __init__(self, fused=True, own=False):
        super().__init__()
        self.project = nn.Conv2d(CHANNELS, SMALL, 4, 4)
        self.embedders = None if own else Embedders()
        self.layers = nn.ModuleList(Modulated(fused, own) for _ in range(LAYERS))
        self.norm, self.made = nn.LayerNorm(SMALL, elementwise_affine=False), nn.Linear(SMALL, 2 * SMALL)
        self.output = nn.Linear(SMALL, OUTPUTS * 16)

    def forward(self, images, waves, labels):
        x = self.project(images).flatten(2).transpose(1, 2)
        vector = (self.embedders or self.layers[0].embedders)(waves, labels)
        for layer in self.layers:
            x = layer(x, vector, (waves, labels))
        shift, scale = self.made(vector).chunk(2, -1)
        return self.output(self.norm(x) * (1 + scale) + shift)


def seen(count):
    """Images, waves of time steps, labels."""
    return torch.randn(count, CHANNELS, 40, 40), torch.randn(count, FREQUENCIES), torch.randint(0, LABELS, (count,))


@pytest.mark.parametrize("own", [False, True])
def test_dit_parameters_match_its_module(own):
    assert workload.parameters(dit(own)).total == sum(one.numel() for one in Dit(own=own).parameters())


@pytest.mark.parametrize("own", [False, True])
def test_dit_flops_match_torch(own):
    """Embedders of its own layers run once more for the final norm, which is not counted."""
    model = dit(own)
    ours = workload.forward_flops(model, model.patches.tokens).total * model.patches.tokens
    again = 2 * (FREQUENCIES * SMALL + SMALL * SMALL) if own else 0
    assert ours + again == pytest.approx(counted_flops(Dit(fused=False, own=own), *seen(1)), rel=1e-12)


def test_kept_tensors_of_a_dit_match_autograd():
    """Vectors of an image, up to six times the width, and norms' scalars are left out by us."""
    module, count, tokens = Dit(), 3, dit().patches.tokens
    with Saved(module) as saved:
        out = module(*seen(count))
    out.sum().backward()
    piece = Piece(micro_batch=count, seq=tokens, element_B=4.0, fused_elementwise=False)
    assert saved.total_B(above_B=4 * count * 6 * SMALL) == pytest.approx(kept_B(dit(), piece), rel=1e-12)


def test_dit_flops_match_the_published_ones():
    """118.64 billion multiply-accumulates for latents of 32 x 32 (Peebles and Xie 2022, table 4)."""
    model = workload.model("dit-xl-2")
    flops = workload.forward_flops(model, model.patches.tokens).total * model.patches.tokens
    assert flops / 2e9 == pytest.approx(118.64, rel=0.001)


def test_a_file_can_describe_the_dit_of_the_catalog(tmp_path):
    described = """
layers: 28
hidden: 1152
patches: {image: 32, patch: 2, channels: 4, class_token: false, outputs: 8}
modulation: {labels: 1001}
attention: {heads: 16, head_dim: 72, causal: false, qkv_bias: true, out_bias: true}
mlp: {ffn: 4608, gated: false, activation: gelu, in_bias: true, out_bias: true}
positions: none
norm: nonparametric
"""
    path = tmp_path / "dit-xl-2.yaml"
    path.write_text(described)
    assert workload.model(path) == workload.model("dit-xl-2")
    path.write_text(described.replace("patch: 2", "patch: 3"))
    with pytest.raises(BadInput, match=r"dit-xl-2\.yaml:4: patch=3 does not divide .* 32; try 1 or 2 or 4"):
        workload.model(path)
