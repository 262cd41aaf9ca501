"""Which tensors of hidden width a layer keeps between its blocks, by where its norms are, and what reads them."""

from __future__ import annotations

STREAM = {
    "pre": ("attention input", "norm 2 input", "mlp input"),
    "post": ("norm 1 input", "mlp input", "norm 2 input"),
    "output": ("attention output norm input", "mlp input", "mlp output norm input"),
    "sandwich": (
        "attention input",
        "attention output norm input",
        "norm 2 input",
        "mlp input",
        "mlp output norm input",
    ),
}


INPUT_OF = {
    "attention input": ("q_proj", "k_proj", "v_proj", "qkv_proj", "in_proj"),
    "cross attention input": ("q_proj",),
    "mlp input": ("gate_proj", "up_proj", "gate_up_proj"),
}
"""Linear layers that read it."""
NORMED = {
    "pre": ("attention input", "cross attention input", "mlp input"),
    "post": ("mlp input",),
    "output": (),
    "sandwich": ("attention input", "mlp input"),
}
"""Which of them are outputs of a norm."""
