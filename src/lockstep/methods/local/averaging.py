"""Averages over workers: of parameters, or of the gradients summed on the way.

    delta = x - sum_i w_i y_i        weights w_i add up to 1: equal, or shares of the samples
    y_i = x - a sum_k g_i,k          so delta = a * (weighted mean of the summed gradients): for plain local SGD it is
                                     the same to average parameters or summed gradients
x parameters at the start of the round, y_i those of worker i at its end, a step size. Averaging gradients taken at x
itself, without moving, is accumulation: a larger batch, not a local method.

Source: H. B. McMahan et al., "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017.
"""

from __future__ import annotations

from typing import Any

Array = Any


def mean_of(stacked: Array, weights: Array | None = None) -> Array:
    """Mean over the first axis; with `weights` the weighted mean (they are divided by their sum).

    Weights have one entry per worker, or as many leading axes of `stacked` as differ, such as (workers, trials).
    """
    if weights is None:
        return stacked.mean(0)
    shares = (weights / weights.sum(0)).reshape(tuple(weights.shape) + (1,) * (stacked.ndim - weights.ndim))
    return (shares * stacked).sum(0)


def outer_gradient(start: Array, ends: Array, weights: Array | None = None) -> Array:
    """`start` minus the mean of the workers' `ends`, which are stacked along the first axis."""
    return start - mean_of(ends, weights)
