"""What a CPU does otherwise than a GPU in a fine-tuning step, made alike: `like_a_gpu(live)`, and `Autocast`.

Multi-tensor updates, as torch takes by itself on GPUs; formats of CUDA's autocast; TRL's loss folds each tile in one
kernel, over the tokens that count; attention whose values are narrower than its keys is one kernel; a byte per mask of
dropout.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count


class Autocast(torch.overrides.TorchFunctionMode):
    """CUDA's autocast runs these in fp32; the CPU's does not (PyTorch, aten/src/ATen/autocast_mode.h)."""

    WIDE = frozenset(
        getattr(where, name)
        for where, names in {torch: "pow rsqrt exp log layer_norm norm", torch.Tensor: "pow rsqrt exp norm",
                             torch.nn.functional: "layer_norm softplus"}.items()
        for name in names.split()
    )  # fmt: skip

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self.WIDE and torch.is_autocast_enabled("cpu"):
            args = [
                one.float() if isinstance(one, torch.Tensor) and one.dtype == torch.bfloat16 else one for one in args
            ]
        if func is torch.Tensor.backward:  # Layers that run again inside it are cast as at first.
            with self:
                return torch.autograd.backward(args[0])
        return func(*args, **(kwargs or {}))


def like_a_gpu(live: Any) -> None:
    """Makes the CPU's libraries hold what they would hold on a GPU."""
    from torch.optim import adam, sgd

    for module in (adam, sgd):
        module._default_to_fused_or_foreach = lambda *args, **kwargs: (False, True)
    from trl.kernels import chunked_logprob
    from trl.trainer import utils

    utils._use_triton = lambda device: True

    def unseen(of: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            with _disable_current_modes():
                return of(*args, **kwargs)

        return run

    def addmm(acc: Any, a: Any, b: Any) -> None:
        live.flops["addmm"] += 2 * a.shape[0] * a.shape[1] * b.shape[1] * live.on
        with _disable_current_modes():
            acc.addmm_(a.float(), b.float())

    for name in ("_forward_tile", "_backward_tile"):
        setattr(chunked_logprob, name, unseen(getattr(chunked_logprob, name)))
    chunked_logprob._addmm_fp32 = addmm
    plain = torch.nn.functional.scaled_dot_product_attention

    class Fused(torch.autograd.Function):
        """Attention that keeps what it reads, its output and a log-sum-exp; scores are its own affair."""

        @staticmethod
        def forward(ctx: Any, query: Any, key: Any, value: Any, scale: Any) -> Any:
            ctx.scale, out = scale, query.new_empty(*query.shape[:-1], value.shape[-1])
            ctx.save_for_backward(query, key, value, out, query.new_empty(query.shape[:-1], dtype=torch.float32))
            with _disable_current_modes():
                out.copy_(plain(query, key, value, is_causal=True, scale=scale))
            live.flops["attention"] += live.on * sdpa_flop_count(query.shape, key.shape, value.shape)
            return out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            saved = ctx.saved_tensors[:3]
            made = [torch.empty_like(one) for one in saved]
            with _disable_current_modes(), torch.enable_grad():
                inputs = [one.detach().requires_grad_() for one in saved]
                found = torch.autograd.grad(plain(*inputs, is_causal=True, scale=ctx.scale), inputs, grad)
                for one, other in zip(made, found, strict=True):
                    one.copy_(other)
            shapes = grad.shape, *(one.shape for one in saved)
            live.flops["attention backward"] += live.on * sdpa_backward_flop_count(*shapes)
            return *made, None

    def attention(query: Any, key: Any, value: Any, *args: Any, **words: Any) -> Any:
        if value.shape[-1] == key.shape[-1] or words.get("attn_mask") is not None:
            return plain(query, key, value, *args, **words)
        if torch.is_autocast_enabled("cpu"):
            query, key, value = (one.to(torch.bfloat16) for one in (query, key, value))
        return Fused.apply(query, key, value, words.get("scale"))

    torch.nn.functional.scaled_dot_product_attention = attention
    dropout = torch.nn.functional.dropout

    def masked(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return torch.native_dropout(x, p, True)[0] if p and training else dropout(x, p, training, inplace)

    torch.nn.functional.dropout = masked
