"""Section 8.2, stages 0 to 3 of ZeRO: who holds weights, gradients and the states of Adam, in bytes that are counted.

The guide counts 18 bytes a parameter without ZeRO. Weights and gradients in 16 bits and Adam's 32-bit weights and two
moments are 16: 16 N, 4 N + 12 N / P, 2 N + 14 N / P and 16 N / P. All four stages take the same step.

    python examples/guide/zero.py
    torchrun --nproc-per-node 2 examples/guide/zero.py
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from processes import all_gather, my_part, reduce_scatter, run
from torch import Tensor

PARAMETERS, RATE, DECAYS = 840, 0.01, (0.9, 0.999)


@dataclass
class Adam:
    """32-bit weights and both moments of the parameters that this rank updates."""

    weights: Tensor
    first: Tensor
    second: Tensor

    def step(self, gradient: Tensor) -> Tensor:
        """The first step of Adam; the new weights in 16 bits."""
        gradient = gradient.float()
        self.first.lerp_(gradient, 1 - DECAYS[0])
        self.second.lerp_(gradient.square(), 1 - DECAYS[1])
        mean, square = (part / (1 - decay) for part, decay in zip((self.first, self.second), DECAYS, strict=True))
        self.weights -= RATE * mean / (square.sqrt() + 1e-8)
        return self.weights.bfloat16()


def adam(weights: Tensor) -> Adam:
    """Before its first step."""
    return Adam(weights.float(), torch.zeros(len(weights)), torch.zeros(len(weights)))


def step(stage: int, weights: Tensor, gradient: Tensor) -> tuple[Tensor, int]:
    """All new weights, and bytes that this rank holds, where every rank begins with the same 16-bit weights."""
    states = adam(my_part(weights) if stage >= 1 else weights)
    kept = my_part(weights) if stage == 3 else weights
    if stage >= 2:
        gradient = reduce_scatter(gradient) / dist.get_world_size()
        own = gradient
    else:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()
        own = my_part(gradient) if stage == 1 else gradient
    updated = states.step(own)
    held_B = sum(one.numel() * one.element_size() for one in (kept, gradient, *vars(states).values()))
    return (all_gather(updated) if stage >= 1 else updated), held_B


def work() -> str:
    """Against one rank that has the mean of all gradients. They are whole numbers, so that sums are exact."""
    ranks = dist.get_world_size()
    weights = torch.rand(PARAMETERS).bfloat16()
    every = torch.randint(-8, 9, (ranks, PARAMETERS)).bfloat16()
    right = adam(weights).step(every.float().mean(0).bfloat16())
    formulas = (16.0, 4 + 12 / ranks, 2 + 14 / ranks, 16 / ranks)
    held = []
    for stage, of_a_parameter in enumerate(formulas):
        found, held_B = step(stage, weights, every[dist.get_rank()])
        assert torch.equal(found, right), stage
        assert held_B == of_a_parameter * PARAMETERS
        held.append(f"{held_B / PARAMETERS:g}")
    return f"ZeRO: a rank of {ranks} holds {', '.join(held)} bytes a parameter at stages 0, 1, 2, 3"


if __name__ == "__main__":
    run(work)
