"""Small models whose layers are written as transformers and PEFT write theirs, one after another in one step."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

HIDDEN, HEADS, KV_HEADS, HEAD, FFN, VOCAB, LAYERS, SEQUENCES, SEQ, EXPERTS, TOP_K, RANK = (
    *(256, 4, 2, 64, 768, 320, 3, 8, 64, 4, 2, 8),
)
CASES: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama_half": {"half": True},
    "llama_wide": {"wide": True},
    "llama_fused": {"fused": True},
    "llama_fused_half": {"fused": True, "half": True},
    "llama_again": {"again": True},
    "llama_written": {"written": True},
    "llama_adapted": {"adapted": True},
    "qwen3": {"normed_heads": True},
    "olmo2": {"normed_outputs": True, "normed_rows": True},
    "mixtral": {"experts": True},
    "mixtral_half": {"experts": True, "half": True},
    "gpt2": {"plain": True, "joint": True, "turned": 0.0},
    "neox": {"plain": True, "joint": True, "turned": 0.25, "parallel": True},
    "neox_half": {"plain": True, "joint": True, "turned": 0.25, "parallel": True, "half": True},
}
KEPT: dict[str, dict[str, Any]] = {
    "exaone4": {"normed_outputs": True, "normed_heads": True},
    "glm4": {"sandwiched": True, "turned": 0.5},
    "glm4_half": {"sandwiched": True, "turned": 0.5, "half": True},
    "cohere": {"centred": True, "shared": True},
    "cohere_half": {"centred": True, "shared": True, "half": True},
    "phi": {"plain": True, "turned": 0.5, "shared": True},
    "nemotron": {"plain": True, "turned": 0.5, "squared": True},
    "olmo_half": {"copied": True, "half": True},
}
"""The same of those of which only what waits for the backward pass is held."""
ALL = CASES | KEPT
"""What is otherwise than in Llama under autocast."""


class Norm(nn.Module):
    """LlamaRMSNorm, or that of OLMo 2, which multiplies in fp32."""

    def __init__(self, width: int, wide: bool = False) -> None:
        super().__init__()
        self.weight, self.wide = nn.Parameter(torch.ones(width)), wide

    def forward(self, x: Any) -> Any:
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (self.weight * wide).to(x.dtype) if self.wide else self.weight * wide.to(x.dtype)


class Centred(nn.Module):
    """CohereLayerNorm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        wide = x.to(torch.float32)
        mean = wide.mean(-1, keepdim=True)
        variance = (wide - mean).pow(2).mean(-1, keepdim=True)
        wide = (wide - mean) * torch.rsqrt(variance + 1e-5)
        return (self.weight.to(torch.float32) * wide).to(x.dtype)


class Copied(nn.Module):
    """OlmoLayerNorm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Any) -> Any:
        return functional.layer_norm(x.to(torch.float32), (self.width,), None, None, eps=1e-5).to(x.dtype)


class Squared(nn.Module):
    """ReLUSquaredActivation."""

    def forward(self, x: Any) -> Any:
        return torch.square(functional.relu(x))


class Adapted(nn.Module):
    """Linear of PEFT, whose adapters are fp32."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.base = nn.Linear(inputs, outputs, bias=False).requires_grad_(False)
        self.a, self.b = (
            nn.Linear(*sides, bias=False, dtype=torch.float32) for sides in ((inputs, RANK), (RANK, outputs))
        )

    def forward(self, x: Any) -> Any:
        found = self.base(x)
        return (found + self.b(self.a(x.to(torch.float32))) * 2.0).to(found.dtype)


class Gelu(nn.Module):
    """NewGELUActivation."""

    def forward(self, x: Any) -> Any:
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def turn(x: Any, cos: Any, sin: Any) -> Any:
    """apply_rotary_pos_emb, of a part of each head."""
    part = cos.shape[-1]
    if part < x.shape[-1]:
        return torch.cat((turn(x[..., :part], cos, sin), x[..., part:]), dim=-1)
    return x * cos + torch.cat((-x[..., part // 2 :], x[..., : part // 2]), dim=-1) * sin


class Attention(nn.Module):
    """LlamaAttention, or that of GPT-2 and GPT-NeoX."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__()
        self.case, made = case, Adapted if "adapted" in case else nn.Linear
        bias = {"bias": "plain" in case} if made is nn.Linear else {}
        if "joint" in case:
            self.query_key_value = made(HIDDEN, 3 * HEADS * HEAD, **bias)
        else:
            widths = {"query": HEADS, "key": KV_HEADS, "value": KV_HEADS}
            for name, heads in widths.items():
                setattr(self, name, made(HIDDEN, heads * HEAD, **bias))
        if "normed_heads" in case:
            self.query_norm, self.key_norm = Norm(HEAD), Norm(HEAD)
        if "normed_rows" in case:
            self.query_norm, self.key_norm = Norm(HEADS * HEAD, wide=True), Norm(KV_HEADS * HEAD, wide=True)
        self.out = made(HEADS * HEAD, HIDDEN, **bias)

    def heads(self, x: Any) -> Any:
        """Queries, keys and values by head."""
        case, width = self.case, (*x.shape[:-1], -1, HEAD)
        if case.get("turned") == 0.0:
            return [one.view(width).transpose(1, 2) for one in self.query_key_value(x).split(HIDDEN, dim=2)]
        if "joint" in case:
            return self.query_key_value(x).view(*x.shape[:-1], -1, 3 * HEAD).transpose(1, 2).chunk(3, dim=-1)
        query, key, value = self.query(x), self.key(x), self.value(x)
        if "normed_rows" in case:
            query, key = self.query_norm(query), self.key_norm(key)
        query, key, value = (one.view(width) for one in (query, key, value))
        if "normed_heads" in case:
            query, key = self.query_norm(query), self.key_norm(key)
        return [one.transpose(1, 2) for one in (query, key, value)]

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        query, key, value = self.heads(x)
        if self.case.get("turned", 1.0):
            query, key = turn(query, cos, sin), turn(key, cos, sin)
        if "written" in self.case:
            looked = self.written(query, key, value)
        else:
            looked = functional.scaled_dot_product_attention(
                query, key, value, is_causal=True, enable_gqa=key.shape[1] < query.shape[1]
            ).transpose(1, 2)
        return self.out(looked.reshape((*x.shape[:-1], -1)))

    def written(self, query: Any, key: Any, value: Any) -> Any:
        """eager_attention_forward, with repeat_kv."""
        key, value = (
            one[:, :, None].expand(-1, -1, HEADS // KV_HEADS, -1, -1).reshape(*query.shape) for one in (key, value)
        )
        mask = torch.zeros(1, 1, SEQ, SEQ, device=query.device)
        scores = torch.matmul(query, key.transpose(2, 3)) * HEAD**-0.5 + mask
        weights = functional.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
        return torch.matmul(weights, value).transpose(1, 2).contiguous()


class Gated(nn.Module):
    """LlamaMLP."""

    def __init__(self, made: Any) -> None:
        super().__init__()
        bias = {} if made is Adapted else {"bias": False}
        self.gate, self.up = made(HIDDEN, FFN, **bias), made(HIDDEN, FFN, **bias)
        self.activation, self.down = nn.SiLU(), made(FFN, HIDDEN, **bias)

    def forward(self, x: Any) -> Any:
        return self.down(self.activation(self.gate(x)) * self.up(x))


class Plain(nn.Module):
    """GPT2MLP, or that of GPT-NeoX."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.up, self.activation, self.down = nn.Linear(HIDDEN, FFN), activation, nn.Linear(FFN, HIDDEN)

    def forward(self, x: Any) -> Any:
        return self.down(self.activation(self.up(x)))


class Experts(nn.Module):
    """MixtralSparseMoeBlock with grouped products, whose parameters autocast does not cast."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(HIDDEN, EXPERTS, bias=False)
        self.gate_up = nn.Parameter(torch.randn(EXPERTS, 2 * FFN, HIDDEN))
        self.down, self.activation = nn.Parameter(torch.randn(EXPERTS, HIDDEN, FFN)), nn.SiLU()

    def forward(self, x: Any) -> Any:
        stream = x.view(-1, HIDDEN)
        weights, chosen = functional.softmax(self.router(stream).float(), dim=-1).topk(TOP_K)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        expert, order = chosen.reshape(-1).sort()
        rows, weights = stream[order // TOP_K], weights.reshape(-1)[order]
        ends = torch.histc(expert.int(), EXPERTS, 0, EXPERTS - 1).cumsum(0, dtype=torch.int32)
        others = (expert >= EXPERTS).unsqueeze(-1)
        rows.masked_fill_(others, 0.0)
        both = self.grouped(rows, self.gate_up, ends).masked_fill(others, 0.0)
        gate, up = both.chunk(2, dim=-1)
        found = self.grouped(self.activation(gate) * up, self.down, ends).masked_fill(others, 0.0)
        found = found * weights.unsqueeze(-1)
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=order.device)
        return found[back].view(-1, TOP_K, HIDDEN).sum(dim=1).to(x.dtype).view(x.shape)

    @staticmethod
    def grouped(rows: Any, weights: Any, ends: Any) -> Any:
        """Products of the rows of each expert."""
        return functional.grouped_mm(rows.to(weights.dtype), weights.transpose(-2, -1), offs=ends)


def norm_of(case: dict[str, Any]) -> Any:
    """The class of a case's norms."""
    own = {"plain": nn.LayerNorm, "fused": nn.RMSNorm, "centred": Centred, "copied": Copied}
    return next((own[word] for word in own if word in case), partial(Norm, wide="normed_rows" in case))


class Layer(nn.Module):
    """LlamaDecoderLayer, or one whose norms follow its blocks, or whose blocks read the same."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__()
        self.case, norm = case, norm_of(case)
        self.norm_1, self.attention = norm(HIDDEN), Attention(case)
        if "shared" not in case:
            self.norm_2 = norm(HIDDEN)
        if "sandwiched" in case:
            self.norm_3, self.norm_4 = norm(HIDDEN), norm(HIDDEN)
        activation = Squared() if "squared" in case else nn.GELU() if "parallel" in case else Gelu()
        plain = Plain(activation) if "plain" in case else None
        gated = Experts() if "experts" in case else Gated(Adapted if "adapted" in case else nn.Linear)
        self.block = plain or gated

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        if "parallel" in self.case:
            return self.block(self.norm_2(x)) + self.attention(self.norm_1(x), cos, sin) + x
        if "shared" in self.case:
            normed = self.norm_1(x)
            return x + self.attention(normed, cos, sin) + self.block(normed)
        if "sandwiched" in self.case:
            x = x + self.norm_2(self.attention(self.norm_1(x), cos, sin))
            return x + self.norm_4(self.block(self.norm_3(x)))
        if "normed_outputs" in self.case:
            x = x + self.norm_1(self.attention(x, cos, sin))
            return x + self.norm_2(self.block(x))
        x = x + self.attention(self.norm_1(x), cos, sin)
        return x + self.block(self.norm_2(x))


class Model(nn.Module):
    """A decoder and its loss."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__()
        self.case, self.part = case, int(HEAD * case.get("turned", 1.0))
        self.table, self.layers = nn.Embedding(VOCAB, HIDDEN), nn.ModuleList(Layer(case) for _ in range(LAYERS))
        self.norm = (nn.LayerNorm if "plain" in case else nn.RMSNorm if "fused" in case else Norm)(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False)

    def forward(self, words: Any) -> Any:
        x = self.table(words)
        if "adapted" in self.case:
            x.requires_grad_()
        cos, sin = (torch.empty(1, SEQ, self.part, device="cuda", dtype=x.dtype)[:, None] for _ in range(2))
        for layer in self.layers:
            x = checkpoint(layer, x, cos, sin, use_reentrant=False) if "again" in self.case else layer(x, cos, sin)
        return functional.cross_entropy(self.head(self.norm(x)).float().view(-1, VOCAB), words.view(-1))


class Models(nn.ModuleDict):
    """All of them, by name."""

    def forward(self, name: str, words: Any) -> Any:
        return self[name](words)


def main() -> None:
    """Three updates of all models."""
    found = {}
    for name, case in ALL.items():
        torch.set_default_dtype(torch.bfloat16 if {"half", "adapted"} & {*case} else torch.float32)
        found[name] = Model(case)
    models = Models(found).to("cuda")
    for name, one in models.items():
        for of, parameter in one.named_parameters():
            parameter.requires_grad_("adapted" not in ALL[name] or of.endswith(("a.weight", "b.weight")))
    optimizer = torch.optim.AdamW([one for one in models.parameters() if one.requires_grad], fused=True)
    words = torch.randint(VOCAB, (SEQUENCES, SEQ), device="cuda")
    for _ in range(3):
        for name in ALL:
            with torch.autocast("cuda", torch.bfloat16, enabled=not {"half", "wide"} & {*ALL[name]}):
                loss = models(name, words)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
