"""What `torch.autocast` does on a GPU, for the device that is not there: PyTorch has kernels for real devices only.

    half        products, convolutions and attention read the chosen format
    wide        powers, exponentials, norms and losses read fp32
    in fp32     sums and softmax of narrower tensors give fp32, without a copy of what they read
    widest      some operations on several tensors read the widest of their formats

The cast of a parameter is kept until the outermost region ends, as parameters are read again.

Source: pytorch v2.13.0, aten/src/ATen/autocast_mode.h (AT_FORALL_LOWER_PRECISION_FP and the lists after it) and
autocast_mode.cpp (cached_cast).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_map

_LISTS = {
    "half": """
        _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution prelu
        addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot
        _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
        _scaled_dot_product_flash_attention scaled_dot_product_attention""",
    "wide": """
        acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus layer_norm
        native_layer_norm rms_norm group_norm frobenius_norm nuclear_norm cosine_similarity poisson_nll_loss
        cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss
        margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
        binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample_nearest1d _upsample_nearest_exact1d
        upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d
        upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa""",
    "in_fp32": """
        prod softmax log_softmax cumprod cumsum linalg_vector_norm linalg_matrix_norm sum""",
    "widest": """
        addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add""",
}
LISTS = {how: names.split() for how, names in _LISTS.items()}
"""Operations by what is done with what they read."""
KEY = "AutocastPrivateUse1"
NARROW = (torch.float16, torch.bfloat16)

Kernel = Callable[..., Any]


class Casts:
    """The autocast kernels of a device, registered for as long as this lives."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.passing = torch.library.Library("_", "IMPL", KEY)
        self.passing.fallback(torch.library.fallthrough_kernel)
        self.library = torch.library.Library("aten", "IMPL", KEY)
        for how, names in LISTS.items():
            self._register(names, getattr(self, how))
        self._clear = torch.clear_autocast_cache
        torch.clear_autocast_cache = self.clear

    def _register(self, names: Iterable[str], kernel: Kernel) -> None:
        for name in names:
            packet = getattr(torch.ops.aten, name, None)
            for overload in () if packet is None else packet.overloads():
                if "out" in overload.split("_") or overload in ("names", "dimname"):
                    continue
                op = getattr(packet, overload)
                ending = "" if overload == "default" else f".{overload}"
                try:
                    self.library.impl(f"{name}{ending}", partial(kernel, op), KEY)
                except RuntimeError:
                    continue

    def clear(self) -> None:
        """Forgets the casts of parameters."""
        self.kept.clear()
        self._clear()

    def half(self, op: Kernel, *args: Any, **words: Any) -> Any:
        """In the format of autocast."""
        return self._called(op, torch.get_autocast_dtype(self.device), args, words)

    def wide(self, op: Kernel, *args: Any, **words: Any) -> Any:
        """In fp32."""
        return self._called(op, torch.float32, args, words)

    def in_fp32(self, op: Kernel, *args: Any, **words: Any) -> Any:
        """With fp32 as what it gives, where it reads less and nothing else is asked for."""
        names = [one.name for one in op._schema.arguments]  # type: ignore[attr-defined]
        asked = dict(zip(names, args, strict=False)) | words
        if "dtype" in names and asked.get("dtype") is None and self._eligible(args[0]) and args[0].dtype in NARROW:
            return self._plain(op, (), asked | {"dtype": torch.float32})
        return self._plain(op, args, words)

    def widest(self, op: Kernel, *args: Any, **words: Any) -> Any:
        """In the widest of the formats that it reads."""
        found: list[torch.dtype] = []
        tree_map(lambda one: found.append(one.dtype) if self._eligible(one) else None, (args, words))
        widest = torch.float32 if torch.float32 in found else next(iter(found), torch.float32)
        return self._called(op, widest, args, words)

    def _called(self, op: Kernel, dtype: torch.dtype, args: Any, words: Any) -> Any:
        cast = partial(self._cast, dtype)
        with self._apart():
            args, words = tree_map(cast, args), tree_map(cast, words)
        return self._plain(op, args, words)

    def _plain(self, op: Kernel, args: Any, words: Any) -> Any:
        with self._apart():
            return op(*args, **words)

    def _apart(self) -> Any:
        return torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, KEY)))

    def _eligible(self, one: Any) -> bool:
        return isinstance(one, torch.Tensor) and one.is_floating_point() and one.dtype != torch.float64

    def _cast(self, dtype: torch.dtype, one: Any) -> Any:
        if not self._eligible(one) or one.dtype == dtype:
            return one
        keeps = dtype in NARROW and one.is_leaf and one.requires_grad and one.dtype == torch.float32
        if not keeps or one._is_view() or not torch.is_autocast_cache_enabled():
            return one.to(dtype)
        if id(one) not in self.kept:
            self.kept[id(one)] = one, one.to(dtype)
        return self.kept[id(one)][1]
