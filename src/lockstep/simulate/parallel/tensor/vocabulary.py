"""Output projection and cross-entropy with the vocabulary cut over the ranks: the logits never come together.

    logits_i = x W_i on rank i;  m = max (all-reduce of t);  Z = sum exp(logits - m), c = logit of the target (2 t)
    loss = mean over tokens of  log Z + m - c;   d x = sum over ranks of d logits_i W_i^T   (all-reduce of t h)
t tokens. Gathering the logits instead would move t V elements; this moves 3 t forward.

Source: M. Shoeybi et al., "Megatron-LM", 2019, section 3 (fused cross entropy).
"""

from __future__ import annotations

import numpy as np

from lockstep.simulate.parallel.tensor.layer import Exchange, Layer, Local, Split, State, check_divides


def vocabulary_loss(*, tokens: int, hidden: int, vocab: int, ranks: int) -> Layer:
    """Input `x` [t, h], output `loss` [1]; weight `vocabulary` [h, V]; every rank has `target` [t]."""
    check_divides(ranks, vocab=vocab)
    width = vocab // ranks
    flops = 2.0 * tokens * hidden * vocab / ranks

    def project(state: State, rank: int) -> None:
        state["logits"] = state["x"] @ state["vocabulary"]
        state["highest"] = state["logits"].max(axis=1)

    def partial(state: State, rank: int) -> None:
        here, column = _own(state, rank)
        state["logits"] = state["logits"] - state["highest"][:, np.newaxis]
        chosen = np.where(here, np.take_along_axis(state["logits"], column[:, np.newaxis], axis=1)[:, 0], 0.0)
        state["sums"] = np.stack((np.exp(state["logits"]).sum(axis=1), chosen))

    def finish(state: State, rank: int) -> None:
        total, chosen = state["sums"]
        state["loss"] = np.array([np.mean(np.log(total) - chosen)])

    def backward(state: State, rank: int) -> None:
        here, column = _own(state, rank)
        slope = np.exp(state["logits"]) / state["sums"][0][:, np.newaxis]
        slope[np.flatnonzero(here), column[here]] -= 1
        slope *= state["d loss"] / tokens
        state["d vocabulary"] = state["x"].T @ slope
        state["d x"] = slope @ state["vocabulary"].T

    def _own(state: State, rank: int) -> tuple[np.ndarray, np.ndarray]:
        """Which targets lie in this rank's slice, and where."""
        column = state["target"] - rank * width
        return (column >= 0) & (column < width), np.clip(column, 0, width - 1)

    return Layer(
        ranks,
        (
            Local("logits", project, flops),
            Exchange("all-reduce", "highest", "highest", tokens, combine="max"),
            Local("partial sums", partial),
            Exchange("all-reduce", "sums", "sums", 2 * tokens),
            Local("loss", finish),
        ),
        (
            Local("d vocabulary, d x", backward, 2 * flops),
            Exchange("all-reduce", "d x", "d x", tokens * hidden),
        ),
        {"vocabulary": Split(1)},
        "x",
        "loss",
    )
