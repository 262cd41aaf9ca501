"""NeMo Framework Launcher: every row is asked or left out by reason, and what the layouts of its GPT models need."""

from dataclasses import replace

from lockstep.layout import check, memory
from lockstep.validation import nemo_launcher
from lockstep.validation.case import read_rows


def test_every_row_is_asked_or_left_out_by_reason() -> None:
    left, cases = nemo_launcher.left_out(), nemo_launcher.cases()
    assert left == {
        "encoder and decoder": 17,
        "pooler and second loss": 13,
        "batch that micro-batches do not divide": 1,
    }
    assert len(cases) + sum(left.values()) == len(read_rows(nemo_launcher.FILE))
    for case in cases:
        check(case.layout, case.job)
        assert case.cluster.num_devices == case.job.devices


def test_without_recomputation_only_attention_in_one_kernel_fits() -> None:
    """So the configurations say that no matrix of scores was kept, whichever kernel they name."""
    for case in nemo_launcher.cases():
        kept = replace(case.job, recipe=replace(case.job.recipe, flash_attention=False))
        assert float(memory(kept, case.cluster, case.layout.grid()).used_frac) > 1.3
