"""Calls of a captured Llama beside two profiles of it on an H100, made with an earlier release of both packages."""

from __future__ import annotations

from pathlib import Path

import pytest
from agreement import Asker

import lockstep

PROFILES = Path(__file__).parents[1] / "diagnosis" / "h100"
TRAIN = """
import sys, torch
from transformers import AutoConfig, AutoModelForCausalLM
config = AutoConfig.for_model(
    "llama", use_cache=False, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
    num_key_value_heads=8, vocab_size=128256, max_position_embeddings=131072, tie_word_embeddings=True,
)
with torch.device("cuda"):
    model = AutoModelForCausalLM.from_config(config, attn_implementation=sys.argv[2])
optimizer = torch.optim.AdamW(model.parameters())
tokens = torch.randint(0, 1000, (int(sys.argv[1]), 2048), device="cuda")
for _ in range(3):
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    loss.item()
"""
TURNED = {"mul": 1, "bmm": -1}
SPLIT = frozenset(
    ["copy", "fill", "pow", "slice_backward", "embedding", "constant_pad_nd", "stack", "cat", "div", "scalar_tensor"]
)
ANGLES = "the profiled release made the angles of rotary embedding by a product of matrices, this one by numbers"
INNER = "the profiles are kept without operators around others: copies, fills and sums of several calls are one name"


@pytest.mark.parametrize(("profile", "batch", "attention"), [("fused", 4, "sdpa"), ("unfused", 2, "eager")])
def test_operations_run_as_often_as_they_are_called(
    asked: Asker, tmp_path: Path, profile: str, batch: int, attention: str
) -> None:
    script, out = tmp_path / "train.py", tmp_path / "step.capture"
    script.write_text(TRAIN)
    lockstep.capture(str(script), str(batch), attention, cluster="dgx-h100:1", out=out)
    found = lockstep.diagnose(PROFILES / f"{profile}.json.gz", capture=out).captured
    assert found is not None
    with asked("transformers", "how often operations run in a profiled step, by its capture") as answers:
        for one in found.rows:
            if one.calls:
                apart = one.calls - one.profiled
                why = INNER if one.operation in SPLIT else ANGLES if apart == TURNED.get(one.operation) else ""
                answers.compare(one.operation, one.calls, one.profiled, why=why if apart else "")
    kernels_s, priced_s = found.shares["kernels"]
    assert kernels_s == pytest.approx(priced_s, rel=0.02)
