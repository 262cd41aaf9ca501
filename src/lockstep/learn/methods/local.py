"""Local methods: workers take steps of their own and agree now and then. Pieces of a round.

    start = x, the parameters all workers agree on
    each worker:  K steps from x  ->  y_i              (`proximal_gradient` or `corrected_gradient`)
    delta = x - mean of y_i                            `outer_gradient`
    x <- outer update of x with delta                  (`Outer`: plain averaging, server momentum, DiLoCo)
    buffers of local optimisers: kept, averaged or reset (`after_averaging`)
Every piece takes one array or one list of arrays of a worker or of all; the first axis of stacked ones is the worker.
"""

from __future__ import annotations

from typing import Any

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass

Array = Any
BUFFER_POLICIES = ("keep", "average", "reset")


def mean_of(stacked: Array, weights: Array | None = None) -> Array:
    """Mean [...] over workers of `stacked` [workers, ...]; with `weights` the weighted mean (divided by their sum).

    `weights`: [workers], or with more of the leading axes of `stacked` where they differ, such as [workers, trials].
    """
    if weights is None:
        return stacked.mean(0)
    shares = (weights / weights.sum(0)).reshape(tuple(weights.shape) + (1,) * (stacked.ndim - weights.ndim))
    return (shares * stacked).sum(0)


def outer_gradient(start: Array, ends: Array, weights: Array | None = None) -> Array:
    """Averages over workers: of parameters, or of the gradients summed on the way.

        delta = x - sum_i w_i y_i        weights w_i add up to 1: equal, or shares of the samples
        y_i = x - a sum_k g_i,k          so delta = a * (weighted mean of the summed gradients): for plain local SGD
                                         it is the same to average parameters or summed gradients
    x parameters at the start of the round, y_i those of worker i at its end, a step size. Averaging gradients taken at
    x itself, without moving, is accumulation: a larger batch, not a local method. `start` and the answer [...], `ends`
    [workers, ...], `weights` as in `mean_of`.

    Source: H. B. McMahan et al., "Communication-efficient learning of deep networks from decentralized data", AISTATS
    2017.
    """
    return start - mean_of(ends, weights)


def proximal_gradient(gradient: Array, parameters: Array, start: Array, strength: float) -> Array:
    """FedProx: local steps are pulled back to where the round began.

        gradient of f_i(y) + (mu / 2) |y - x|^2   =   g_i(y) + mu (y - x)
    y the worker's parameters, x those at the start of the round, mu the strength. A large mu shortens the drift of
    workers with different data and the progress alike; it does not remove the bias of the fixed point. All [...].

    Source: T. Li et al., "Federated optimization in heterogeneous networks", MLSys 2020, equation 2.
    """
    return gradient + strength * (parameters - start)


def corrected_gradient(gradient: Array, own: Array, common: Array) -> Array:
    """SCAFFOLD: control variates take the difference between a worker's data and everybody's out of its steps.

        local step     y <- y - a (g_i(y) - c_i + c)
        after K steps  c_i' = c_i - c + (x - y_i) / (K a)           (option II: the mean gradient on the way)
        server         c <- c + (share of workers that took part) * mean of (c_i' - c_i)
    c_i control of worker i, c of the server, zeros at first. Sends a control beside the parameters: twice the bytes per
    round. At the common optimum the corrected gradients of all workers are zero, so the drift ends there. All [...].

    Source: S. P. Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for federated learning", ICML 2020,
    algorithm 1.
    """
    return gradient - own + common


def new_control(own: Array, common: Array, start: Array, end: Array, steps: int, step_size: float) -> Array:
    """c_i [...] of the next round, from the worker's movement from `start` to `end` [...] over `steps` local steps."""
    return own - common + (start - end) / (steps * step_size)


@dataclass(frozen=True, slots=True)
class Outer:
    """The outer update: what is done with the mean movement of a round.

        b <- mu b + delta
        x <- x - eta b                   heavy ball (FedAvgM, SlowMo)
        x <- x - eta (delta + mu b)      Nesterov (DiLoCo: eta = 0.7, mu = 0.9)
    delta start of the round minus mean of its ends (`outer_gradient`). eta = 1 and mu = 0 is plain parameter averaging.

    Sources: A. Douillard et al., "DiLoCo: distributed low-communication training of language models", 2023, algorithm
    1; T.-M. Hsu, H. Qi, M. Brown, 2019 (FedAvgM); J. Wang et al., "SlowMo", ICLR 2020.
    """

    rate: float = 1.0
    momentum: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        if not self.rate > 0:
            raise BadInput(f"an outer rate must be above 0, got {self.rate:g}", "outer rate")
        if not 0 <= self.momentum < 1:
            raise BadInput(f"an outer momentum is from 0 to below 1, got {self.momentum:g}", "outer momentum")

    def update(self, start: Array, delta: Array, buffer: Array) -> tuple[Array, Array]:
        """(parameters of the next round, buffer), all [...]."""
        buffer = self.momentum * buffer + delta
        direction = delta + self.momentum * buffer if self.nesterov else buffer
        return start - self.rate * direction, buffer


def after_averaging(buffers: Array, policy: str) -> Array:
    """The momentum buffers [workers, ...] of the workers after their parameters are averaged.

        keep       each worker continues with its own
        average    all continue with the mean: one more vector to send per round
        reset      all restart from zeros
    Source: J. Wang et al., "SlowMo: improving communication-efficient distributed SGD with slow momentum", ICLR 2020,
    section 2 and appendix B (strategies for the buffers of the base optimiser).
    """
    if policy not in BUFFER_POLICIES:
        raise UnknownName("buffer policy", policy, BUFFER_POLICIES)
    if policy == "keep":
        return buffers
    return 0.0 * buffers + mean_of(buffers) if policy == "average" else 0.0 * buffers
