"""Pre-trains a small language model with PyTorch's FSDP2: torchrun --nproc-per-node 8 examples/pretrain.py."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional

VOCABULARY = 32_000


class Block(nn.Module):
    """Attention and a gated feed-forward layer."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.attention_in = nn.Linear(hidden, 3 * hidden, bias=False)
        self.attention_out = nn.Linear(hidden, hidden, bias=False)
        self.gate_and_up = nn.Linear(hidden, 8 * hidden, bias=False)
        self.down = nn.Linear(4 * hidden, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The block on (batch, sequence, hidden)."""
        parts = self.attention_in(self.attention_norm(x)).chunk(3, -1)
        query, key, value = (one.unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in parts)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attention_out(seen.transpose(1, 2).flatten(2))
        gate, up = self.gate_and_up(self.mlp_norm(x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up)


class Model(nn.Module):
    """A decoder of a language model."""

    def __init__(self, layers: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, hidden)
        self.blocks = nn.ModuleList(Block(hidden, hidden // 128) for _ in range(layers))
        self.norm = nn.RMSNorm(hidden)
        self.head = nn.Linear(hidden, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of (batch, sequence) tokens."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main() -> None:
    """Trains on random tokens."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, usual in {"layers": 16, "hidden": 2048, "batch": 4, "sequence": 2048, "steps": 100}.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    asked = parser.parse_args()
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    with torch.device("meta"):
        model = Model(asked.layers, asked.hidden)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    model.to_empty(device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    for step in range(asked.steps):
        tokens = torch.randint(0, VOCABULARY, (asked.batch, asked.sequence + 1), device="cuda")
        logits = model(tokens[:, :-1])
        loss = functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0 and dist.get_rank() == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
