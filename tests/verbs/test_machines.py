"""Several clusters in one question, and a machine of every device; samples and epochs instead of tokens."""

from typing import Any

import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.describe.hardware import devices, machines

QUESTION: dict[str, Any] = {
    "batch": 16, "seq": 2048, "train": "lora:r=16", "base": "nf4", "stack": "hf-trainer",
}  # fmt: skip


def test_a_row_is_the_plan_on_that_machine() -> None:
    found = lockstep.plan("llama3-8b", "rtx-4090:1,l40s:2", **QUESTION)
    assert [row.given["cluster"] for row in found.rows] == ["rtx-4090:1", "l40s:2"]
    for row in found.rows:
        alone = lockstep.plan("llama3-8b", row.given["cluster"], **QUESTION)
        assert row.answer == alone.to_dict()


def test_cluster_all_lists_every_supported_device_cheapest_first() -> None:
    found = lockstep.plan("llama3-8b", "all", **QUESTION)
    names = [row.given["cluster"].removesuffix(":1") for row in found.rows]
    known = {one.name: one for one in devices() if one.vendor in ("NVIDIA", "AMD")}
    assert set(names) == set(known)
    prices = [known[name].price_per_hour_usd or float("inf") for name in names]
    assert prices == sorted(prices)
    for row in found.rows:
        assert row.answer is None or row.answer["gpus"] == 1
        assert (row.answer is None) == ("does not fit" in row.why)


def test_machines_that_do_not_exist_are_omitted() -> None:
    assert set(machines(8)) < {f"{one.name}:8" for one in devices()}
    assert all(one.num_devices == 8 for one in machines(8).values())


def test_samples_fill_sequences_or_are_packed() -> None:
    def tokens(**words: Any) -> float:
        return float(lockstep.plan("llama3-8b", "rtx-4090:1", **QUESTION, **words).to_dict()["tokens"])

    assert tokens(samples="50k", epochs=3) == 3 * 50_000 * 2048
    assert tokens(samples="50k", sample_tokens=400) == 50_000 * 400
    assert tokens(samples=1000, sample_tokens=4096) == 1000 * 2048


@pytest.mark.parametrize(
    ("words", "said"),
    [({"epochs": 3}, "--samples"), ({"samples": "1k", "tokens": "1M"}, "either"), ({"samples": 0}, "more than zero")],
)
def test_samples_without_a_number_of_tokens_are_refused(words: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        lockstep.plan("llama3-8b", "rtx-4090:1", **QUESTION, **words)


def test_packed_samples_attend_only_within_themselves() -> None:
    """FLOPs and time of attention are those of sequences as short as the samples, all else as before."""
    packed, whole = (
        lockstep.estimate("llama3-8b", "dgx-h100:1", batch=64, seq=8192, micro_batch=1, zero=3, sample_tokens=length)
        for length in (512, None)
    )
    short = lockstep.estimate("llama3-8b", "dgx-h100:1", batch=1024, seq=512, micro_batch=16, zero=3)
    assert packed.mfu_frac * packed.step_time_s == pytest.approx(short.mfu_frac * short.step_time_s)
    assert packed.step_time_s == pytest.approx(short.step_time_s, rel=1e-3)
    assert packed.step_time_s < 0.9 * whole.step_time_s
    assert float(packed.memory.total_B) == pytest.approx(float(whole.memory.total_B))
