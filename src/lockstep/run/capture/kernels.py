"""Shapes that kernels of a GPU give and for which PyTorch has no rule: recurrent cells, norms over ranks, and grouped
products of formats other than bfloat16.

Source: pytorch v2.13.0, aten/src/ATen/native/cuda/RNN.cu, Normalization.cuh and GroupedMMUtils.h, and
aten/src/ATen/native/layer_norm.cpp (rms_norm_symint).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch

from lockstep.run.capture.known import value

GRU_WORKSPACE = 5
"""What a fused cell keeps, in hidden states."""


def _gru(input_gates: Any, hidden_gates: Any, hx: Any, input_bias: Any = None, hidden_bias: Any = None) -> Any:
    return torch.empty_like(hx), hx.new_empty((hx.shape[0], hx.shape[1] * GRU_WORKSPACE))


def _gru_backward(grad_hy: Any, workspace: Any, has_bias: bool) -> Any:
    rows, hidden = grad_hy.shape
    gates = [workspace.new_empty((rows, 3 * hidden)) for _ in range(2)]
    biases = [workspace.new_empty(3 * hidden) if has_bias else None for _ in range(2)]
    return *gates, torch.empty_like(grad_hy), *biases


def _channels(one: Any) -> Any:
    """A number for each channel, in fp32 for formats that are narrower."""
    wide = torch.float64 if one.dtype == torch.float64 else torch.float32
    return one.new_empty(one.shape[1], dtype=wide)


def _statistics(one: Any, eps: float) -> Any:
    return _channels(one), _channels(one)


def _gathered(one: Any, mean: Any, invstd: Any, *rest: Any) -> Any:
    return _channels(one), _channels(one)


def _normed(one: Any, weight: Any, bias: Any, mean: Any, invstd: Any, eps: float) -> Any:
    return torch.empty_like(one)


def _reduced(
    grad: Any, one: Any, mean: Any, invstd: Any, weight: Any, inputs: bool, weights: bool, biases: bool
) -> Any:
    said = (inputs, inputs, weights, biases)
    return tuple(_channels(one) if asked else None for asked in said)


def _norm_backward(grad: Any, one: Any, *rest: Any) -> Any:
    return torch.empty_like(one)


def _grouped(
    first: torch.Tensor,
    second: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Rows of groups that lie one after another, or a product for each of them."""
    apart = offs if first.dim() == 2 else first
    groups = apart.shape[:1] if apart is not None and first.dim() == second.dim() else ()
    return first.new_empty((*groups, first.shape[-2], second.shape[-1]), dtype=out_dtype)


def _updated(*args: Any, **words: Any) -> None:
    """An update of all parameters by one kernel gives nothing."""


def _ends(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *rest: Any, **words: Any) -> Any:
    """A number for each sequence, and for each of its steps and places: twice the longest text, and one."""
    known = value(target_lengths) if isinstance(target_lengths, torch.Tensor) else target_lengths
    with no_dispatch():
        longest = targets.shape[-1] if known is None else int(max(known))
    steps, rows = log_probs.shape[:2] if log_probs.dim() == 3 else (log_probs.shape[0], 1)
    return log_probs.new_empty(rows), log_probs.new_empty((rows, steps, 2 * longest + 1))


def of_lengths(function: Any, args: Any) -> Any:
    """What an operation gives whose size is said by lengths of texts, which may be elsewhere; None of others."""
    if function._opname == "_ctc_loss_backward":
        return torch.empty_like(args[1])
    return _ends(*args) if function._opname == "_ctc_loss" else None


FUSED = [f"{name}{ending}" for name in ("_fused_sgd_", "_fused_adagrad_") for ending in ("", ".tensor_lr")]


def ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> torch.Tensor:
    """A loss of aligned texts, by the operation that a GPU has for lengths that are numbers."""
    steps, lengths = _numbers(input_lengths), _numbers(target_lengths)
    if log_probs.device.type == "cpu" or isinstance(lengths, torch.Tensor):
        return torch.nn.functional.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity
        )
    found: torch.Tensor = torch.ops.aten._ctc_loss(log_probs, targets, steps, lengths, blank, zero_infinity)[0]
    if zero_infinity:
        found = torch.where(found == torch.inf, 0.0, found)
    if reduction == "mean":
        return (found / torch.tensor(lengths, device="cpu").clamp_min(1).to(found)).mean()
    return found.sum() if reduction == "sum" else found


def _numbers(one: Any) -> Any:
    known = value(one) if isinstance(one, torch.Tensor) else None
    with no_dispatch():
        return one if known is None else known.tolist()


SHAPES = {
    **dict.fromkeys((*FUSED, "_fused_adam_.tensor_lr", "_fused_adamw_.tensor_lr"), _updated),
    "_grouped_mm": _grouped,
    "_thnn_fused_gru_cell": _gru,
    "_thnn_fused_gru_cell_backward": _gru_backward,
    "batch_norm_stats": _statistics,
    "batch_norm_gather_stats_with_counts": _gathered,
    "batch_norm_elemt": _normed,
    "batch_norm_backward_reduce": _reduced,
    "batch_norm_backward_elemt": _norm_backward,
}


def rms_norm(
    one: torch.Tensor, shape: list[int], weight: torch.Tensor | None = None, eps: float | None = None
) -> torch.Tensor:
    """One kernel, as on a GPU, unless the weight is of another format; PyTorch writes it out where shapes are alone."""
    if torch.is_autocast_enabled("cuda") and one.is_floating_point():
        one, weight = one.float(), None if weight is None else weight.float()
    if one.device.type == "cpu" or (weight is not None and weight.dtype != one.dtype):
        return torch.rms_norm(one, shape, weight, eps)
    found: torch.Tensor = torch.ops.aten._fused_rms_norm(one, shape, weight, eps)[0]
    return found


def kernels() -> list[torch.library.Library]:
    """Rules that live as long as what is given, and operations that a GPU has kernels for and others write out."""
    own, shapes = (torch.library.Library("aten", "IMPL") for _ in range(2))
    for name in ("silu_backward", "mish_backward", "native_channel_shuffle", "_fused_rms_norm", *SHAPES):
        own.impl(name, _never, "PrivateUse1")
    for name, rule in SHAPES.items():
        shapes.impl(name, rule, "Meta")
    return [own, shapes]


def _never(*args: Any, **words: Any) -> Any:
    """Shapes alone answer before a kernel is called."""
    raise NotImplementedError
