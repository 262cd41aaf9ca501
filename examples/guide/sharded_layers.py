"""Section 8.3, fully sharded layers (FSDP): gather a layer's weights, use them, drop them; scatter their gradients.

Two gathers and a reduce-scatter send 3 N elements where data parallelism sends 2 N, in all and not for each layer. The
guide's listing gathers the last layer again for the backward pass, which begins with it, names a class for prefetching
that does not exist, and misses a sharded scaler. PyTorch's fully_shard does the same with gathers ahead of their use.

    python examples/guide/sharded_layers.py
    torchrun --nproc-per-node 4 examples/guide/sharded_layers.py
"""

import torch
import torch.distributed as dist
from processes import all_gather, in_one_piece, my_part, reduce_scatter, run, same
from torch import Tensor

LAYERS, WIDTH, BATCH = 4, 12, 24


class Shards:
    """A rank's part of every layer's weights, and elements that it sent."""

    def __init__(self, weights: list[Tensor]) -> None:
        self.parts = [my_part(one).clone() for one in weights]
        self.sent = 0

    def whole(self, layer: int) -> Tensor:
        """The weights of a layer, for as long as the caller keeps them."""
        self.sent += (dist.get_world_size() - 1) * self.parts[layer].numel()
        return all_gather(self.parts[layer]).requires_grad_()

    def scatter(self, gradient: Tensor) -> Tensor:
        """This rank's part of the mean gradient."""
        self.sent += (dist.get_world_size() - 1) * gradient.numel() // dist.get_world_size()
        return reduce_scatter(gradient) / dist.get_world_size()


def gradients(shards: Shards, x: Tensor) -> list[Tensor]:
    """Of this rank's parts, for the mean squared output of layers of tanh; inputs of layers are kept."""
    inputs, last = [x], LAYERS - 1
    for layer in range(last):
        inputs.append(torch.tanh(inputs[-1] @ shards.whole(layer).detach()))
    found, slope = [torch.empty(0)] * LAYERS, None
    for layer in reversed(range(LAYERS)):
        weights, given = shards.whole(layer), inputs[layer].detach().requires_grad_()
        output = torch.tanh(given @ weights)
        # The last layer runs once: its backward pass follows at once, with the weights still there.
        aim, weight = (output.square().mean(), None) if layer == last else (output, slope)
        gradient, slope = torch.autograd.grad(aim, (weights, given), weight)
        found[layer] = shards.scatter(gradient)
    return found


def work() -> str:
    """Against the gradients of all samples on one rank."""
    weights = [torch.rand(WIDTH, WIDTH, dtype=torch.float64).sub_(0.5).requires_grad_() for _ in range(LAYERS)]
    x = torch.rand(BATCH, WIDTH, dtype=torch.float64)
    right = torch.autograd.grad(in_one_piece(x, weights), weights)
    shards = Shards([one.detach() for one in weights])
    found = gradients(shards, my_part(x))
    assert all(same(one, my_part(other)) for one, other in zip(found, right, strict=True))
    ranks, layer = dist.get_world_size(), WIDTH * WIDTH
    assert shards.sent == (3 * LAYERS - 1) * layer * (ranks - 1) // ranks
    return (
        f"sharded layers: {shards.sent} elements sent, {shards.sent * ranks / (ranks - 1) / (LAYERS * layer):.2f} N "
        f"(P - 1) / P of {LAYERS} layers; 3 N but for the last layer, gathered once"
    )


if __name__ == "__main__":
    run(work)
