"""What layers of experts in PyTorch's operations keep, and hold in their backward pass, against torch's own tracker.

The layers are written for this test from what torchtitan's moe.py and transformers 4's MixtralSparseMoeBlock do; every
expert gets as many rows, so that one batched product stands for the grouped one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lockstep.describe.stacks import ways
from lockstep.describe.workload import EXPERTS, Piece, Transformer, kept_tensors, model, passing_gradient_B
from peak_tracker import peak_tracker

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

HIDDEN, FFN, NUMBER, CHOICES, TOKENS = 1024, 384, 16, 4, 1024
UNIT_B = TOKENS * HIDDEN * 2


def layer(code: str) -> Any:
    """Router and experts by `code`."""
    nn, functional = torch.nn, torch.nn.functional

    class Grouped(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(HIDDEN, NUMBER, bias=False)
            self.gate, self.up = (nn.Parameter(torch.randn(NUMBER, HIDDEN, FFN)) for _ in range(2))
            self.down = nn.Parameter(torch.randn(NUMBER, FFN, HIDDEN))

        def forward(self, x: Any) -> Any:
            top, chosen = torch.topk(functional.softmax(self.router(x).float(), dim=1), k=CHOICES, dim=1)
            order = torch.argsort(chosen.reshape(-1), stable=True)
            index = (order // CHOICES).reshape(-1, 1).expand(-1, HIDDEN)
            rows = torch.gather(x, 0, index).view(NUMBER, -1, HIDDEN)
            rows = torch.bmm(functional.silu(torch.bmm(rows, self.gate)) * torch.bmm(rows, self.up), self.down)
            weighed = rows.view(-1, HIDDEN).float() * top.view(-1)[order].reshape(-1, 1)
            return torch.zeros_like(x).scatter_add(0, index, weighed.to(x.dtype))

    class Looped(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(HIDDEN, NUMBER, bias=False)
            sides = (HIDDEN, FFN), (HIDDEN, FFN), (FFN, HIDDEN)
            self.gate, self.up, self.down = (
                nn.ModuleList(nn.Linear(*side, bias=False) for _ in range(NUMBER)) for side in sides
            )

        def forward(self, x: Any) -> Any:
            weights, chosen = torch.topk(functional.softmax(self.router(x), dim=1, dtype=torch.float), CHOICES, dim=-1)
            weights, out = weights.to(x.dtype), torch.zeros_like(x)
            for at in range(NUMBER):
                token, place = torch.where(chosen == at)
                rows = x[token]
                rows = self.down[at](functional.silu(self.gate[at](rows)) * self.up[at](rows))
                out.index_add_(0, token, rows * weights[token, place, None])
            return out

    return Grouped() if code == "torchtitan" else Looped()


def tracked(code: str) -> tuple[float, float]:
    """Tensors' bytes that wait for the backward pass, input and output of the layer among them, and the most later."""

    found, tracker = layer(code).to(torch.bfloat16), peak_tracker()
    tracker.track_external(found)
    x = torch.randn(TOKENS, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
    with tracker:
        y = found(x)
        (waits,) = tracker.get_tracker_snapshot("current").values()
        y.backward(torch.ones_like(y))
    (most,) = tracker.get_tracker_snapshot("peak").values()
    waiting, held = (
        sum(size for name, size in one.items() if getattr(name, "name", name) in ("ACT", "TEMP"))
        for one in (waits, most)
    )
    return float(waiting), float(held)


WAYS = ways()["permutation"]


def priced(code: str) -> tuple[float, float]:
    """What Lockstep says of the experts alone, with the layer's input, output and its gradient."""
    whole = model("qwen3-30b-a3b")
    assert isinstance(whole, Transformer)
    assert whole.experts is not None
    experts = replace(whole.experts, experts=NUMBER, top_k=CHOICES, ffn=FFN)
    found, piece = replace(whole, hidden=HIDDEN, experts=experts), Piece(
        micro_batch=1, seq=TOKENS, weighed_B=WAYS[code].numbers.get("passing_B", 0.0),
        saves={"permutation": WAYS[code].saves, "gate": ways()["gate"]["apart"].saves},
    )  # fmt: skip
    names = ("expert", "router", "rows")
    kept_B = sum(float(one.size_B) for one in kept_tensors(found, piece, EXPERTS) if one.name.startswith(names))
    return kept_B + 2.0 * UNIT_B, kept_B + 2.0 * UNIT_B + float(passing_gradient_B(found, piece, EXPERTS))


@pytest.mark.parametrize("code", ["torchtitan", "transformers-4"])
def test_kept_activations_of_experts_match_torch(code: str) -> None:
    assert priced(code)[0] == pytest.approx(tracked(code)[0], rel=0.01)


def test_the_backward_pass_of_torchtitan_experts_holds_fp32_row_gradients() -> None:
    assert priced("torchtitan")[1] == pytest.approx(tracked("torchtitan")[1], rel=0.02)
