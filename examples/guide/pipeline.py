"""Section 10.7, a pipeline in the order of 1F1B, one rank a stage.

The guide's listing tests `if prev_rank`, false for rank 0, so that stage 1 never receives; it warms up with more
micro-batches than there are, waits in a send for a stage that waits in a send to it, hands back the gradient of its
output and not of its input, and has no loss. Here a send and the receive after it are posted together. When the guide's
order ends: `lockstep claims G.10.7 --run`. Other schedules on real ranks: `lockstep execute pipeline --schedule zb-h1`.

    python examples/guide/pipeline.py
    torchrun --nproc-per-node 3 examples/guide/pipeline.py
"""

import torch
import torch.distributed as dist
from processes import exchange, in_one_piece, run, same
from torch import Tensor

WIDTH, SAMPLES = 6, 3


class Stage:
    """A layer of tanh with its neighbours in the pipeline, None where there are none."""

    def __init__(self, weights: Tensor) -> None:
        self.weights, self.held, self.most_held = weights.requires_grad_(), [], 0
        rank, ranks = dist.get_rank(), dist.get_world_size()
        self.before, self.after = rank - 1 if rank else None, rank + 1 if rank < ranks - 1 else None

    def forward(self, x: Tensor, share: float) -> Tensor:
        """The output of a micro-batch; the last stage keeps its share of the loss."""
        x = x.detach().requires_grad_()
        output = torch.tanh(x @ self.weights)
        self.held.append((x, output.square().mean() * share if self.after is None else output))
        self.most_held = max(self.most_held, len(self.held))
        return output.detach()

    def backward(self, slope: Tensor | None) -> Tensor:
        """The gradient of the input of the oldest micro-batch; that of the weights is added to theirs."""
        x, output = self.held.pop(0)
        output.backward(slope)
        return x.grad


def one_forward_one_backward(stage: Stage, batches: list[Tensor]) -> None:
    """All micro-batches, forward and backward: fill, then one of each, then drain."""
    count, before, after = len(batches), stage.before, stage.after
    fill = min(dist.get_world_size() - 1 - dist.get_rank(), count)
    came = exchange(None, None, batches[0], before)
    for number, batch in enumerate(batches):
        output = stage.forward(batch if came is None else came, 1 / count)
        next_input = before if number < count - 1 else None
        if number < fill:
            came = exchange(output, after, batch, next_input)
        else:
            slope = exchange(output, after, batch, after)
            came = exchange(stage.backward(slope), before, batch, next_input)
    for _ in range(fill):
        slope = exchange(None, None, batches[0], after)
        exchange(stage.backward(slope), before, batches[0], None)


def work() -> str:
    """Against one process, with fewer and with more micro-batches than stages."""
    ranks, held = dist.get_world_size(), []
    for count in (1, 2, 7):
        weights = torch.rand(ranks, WIDTH, WIDTH, dtype=torch.float64).sub_(0.5).requires_grad_()
        x = torch.rand(count * SAMPLES, WIDTH, dtype=torch.float64)
        (right,) = torch.autograd.grad(in_one_piece(x, weights), weights)
        stage = Stage(weights[dist.get_rank()].detach().clone())
        one_forward_one_backward(stage, list(x.split(SAMPLES)))
        assert same(stage.weights.grad, right[dist.get_rank()])
        assert stage.most_held == min(ranks - dist.get_rank(), count)
        held.append(f"{stage.most_held} of {count}")
    return f"pipeline: {ranks} stages, the first holds {', '.join(held)} micro-batches at most"


if __name__ == "__main__":
    run(work)
