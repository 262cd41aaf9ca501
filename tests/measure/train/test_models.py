"""Models of real training: torch's own layers, numbers of weights counted by hand, and what a sample may depend on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lockstep.run.train.models import MODELS, Data, characters, digits
from lockstep.run.train.networks import Block, Convolution, Mixture
from lockstep.run.train.task import Task, dropped


def dense(inputs: int, outputs: int) -> int:
    return (inputs + 1) * outputs


WEIGHTS = {
    "mlp": (dense(64, 64), dense(64, 128) + dense(128, 64), dense(64, 10)),
    "cnn": (dense(9, 12), dense(9 * 12, 12), dense(12 * 4 * 4, 10)),
    "moe": (dense(64, 64), dense(64, 4) + 4 * 2 * 64 * 64, dense(64, 10)),
    "gpt": ((70 + 32) * 32, 4 * dense(32, 32) + dense(32, 128) + dense(128, 32) + 2 * 64, 64 + dense(32, 70)),
}
"""Of the first piece, of each in between, of the last; the GPT has 70 characters and windows of 32."""


def made(name: str, layers: int, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return MODELS[name].build(layers, 70 if name == "gpt" else 10).double()


def samples(name: str, count: int = 6) -> Any:
    random = np.random.default_rng(0)
    if name == "gpt":
        return torch.from_numpy(random.integers(70, size=(count, 32)))
    return torch.from_numpy(random.random((count, 64)))


@pytest.mark.parametrize("layers", [2, 3, 5])
@pytest.mark.parametrize("name", MODELS)
def test_models_have_the_expected_numbers_of_modules_and_weights(name: str, layers: int) -> None:
    model = made(name, layers)
    first, between, last = WEIGHTS[name]
    found = [sum(one.numel() for one in piece.parameters()) for piece in model]
    assert found == [first, *[between] * (layers - 2), last]


@pytest.mark.parametrize("name", MODELS)
def test_samples_are_independent_of_the_rest_of_the_batch(name: str) -> None:
    model, inputs = made(name, 4), samples(name)
    together = model(inputs)
    assert together.shape == ((6, 32, 70) if name == "gpt" else (6, 10))
    alone = torch.cat([model(inputs[place : place + 1]) for place in range(6)])
    torch.testing.assert_close(together, alone)


def test_the_gpt_is_causal() -> None:
    model, inputs = made("gpt", 4), samples("gpt")
    other = inputs.clone()
    other[:, 20:] = (other[:, 20:] + 1) % 70
    before, after = model(inputs), model(other)
    torch.testing.assert_close(before[:, :20], after[:, :20])
    assert not torch.isclose(before[:, 20:], after[:, 20:]).all(-1).any()
    torch.testing.assert_close(model(inputs[:, :20]), before[:, :20])


def test_a_block_of_the_gpt_is_torchs_pre_norm_layer_with_four_heads() -> None:
    torch.manual_seed(0)
    ours = Block().double()
    theirs = torch.nn.TransformerEncoderLayer(
        32, 4, 128, dropout=0.0, activation="gelu", batch_first=True, norm_first=True, dtype=torch.float64
    )
    pairs = ((theirs.self_attn.out_proj, ours.mixed), (theirs.linear1, ours.up), (theirs.linear2, ours.down),
             (theirs.norm1, ours.attention_norm), (theirs.norm2, ours.mlp_norm))  # fmt: skip
    for to, of in pairs:
        to.load_state_dict(of.state_dict())
    with torch.no_grad():
        theirs.self_attn.in_proj_weight.copy_(torch.cat([one.weight for one in (ours.query, ours.key, ours.value)]))
        theirs.self_attn.in_proj_bias.copy_(torch.cat([one.bias for one in (ours.query, ours.key, ours.value)]))
    x = torch.randn(3, 10, 32, dtype=torch.float64)
    later = torch.nn.Transformer.generate_square_subsequent_mask(10, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x, src_mask=later, is_causal=True))


def test_every_sample_goes_to_its_top_expert() -> None:
    torch.manual_seed(0)
    mixture = Mixture(3, 5).double()
    x = torch.randn(20, 5, dtype=torch.float64)
    likings = torch.softmax(x @ mixture.router.weight.T + mixture.router.bias, -1)
    used = set()
    for place, found in enumerate(mixture(x)):
        best = int(likings[place].argmax())
        used.add(best)
        inner = torch.relu(x[place] @ mixture.experts.up[best]) @ mixture.experts.down[best]
        torch.testing.assert_close(found, x[place] + likings[place, best] * inner)
    assert used == {0, 1, 2}


def test_expert_weights_preserve_the_variance_of_their_inputs() -> None:
    """Entries of variance 1 / width, so that sums over a width have the variance of their terms."""
    torch.manual_seed(0)
    experts = Mixture(4, 64).experts
    for weights in (experts.up, experts.down):
        assert float(weights.detach().var() * 64) == pytest.approx(1, abs=0.05)


def test_a_convolution_block_is_residual() -> None:
    torch.manual_seed(0)
    block = Convolution(12).double()
    x = torch.randn(2, 12, 8, 8, dtype=torch.float64)
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1))
    patches = padded.unfold(2, 3, 1).unfold(3, 3, 1)
    added = torch.einsum("bcyxij,kcij->bkyx", patches, block.conv.weight) + block.conv.bias[:, None, None]
    torch.testing.assert_close(block(x), x + added.clamp(min=0))


def test_every_fifth_sample_is_for_the_test_and_targets_are_one_character_ahead() -> None:
    for data in (digits(), characters()):
        assert isinstance(data, Data)
        assert len(data.test_inputs) == (len(data.inputs) + len(data.test_inputs)) // 5
        assert data.classes == max(data.targets.max(), data.test_targets.max()) + 1
    book = characters()
    assert book.classes == 70
    assert (book.inputs[:, 1:] == book.targets[:, :-1]).all()
    for start in range(3):
        assert (book.inputs[start + 1, 0] == book.targets[start, -1]).all()
    assert (book.test_inputs[0, 0], book.inputs[4, 0]) == (book.targets[3, -1], book.test_targets[0, -1])


@pytest.mark.parametrize("frac", [0.25, 0.5])
def test_dropout_preserves_the_mean(frac: float) -> None:
    inputs = np.ones((200, 200), dtype=np.float32)
    task = Task(dropout_frac=frac)
    first = dropped(task, 0, inputs)
    assert first.dtype == inputs.dtype
    assert set(np.unique(first)) == {0, np.float32(1 / (1 - frac))}
    assert first.mean() == pytest.approx(1, abs=5 * (frac / (1 - frac)) ** 0.5 / 200)
    assert (dropped(task, 0, inputs) == first).all()
    assert (dropped(task, 1, inputs) != first).any()
    assert dropped(task, 0, np.ones(3, dtype=int)).tolist() == [1, 1, 1]
    assert dropped(Task(), 0, inputs) is inputs
