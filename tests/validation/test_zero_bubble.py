"""Zero-bubble pipelines: every row is asked or left out by reason, and the models are those that the paper names."""

from collections import Counter

import pytest

from lockstep.check.validation import zero_bubble
from lockstep.check.validation.case import read_rows
from lockstep.describe.workload import Transformer, parameters
from lockstep.price.layout import check


def test_every_row_is_predicted_or_excluded_with_a_reason() -> None:
    rows = len(read_rows(zero_bubble.FILE))
    assert zero_bubble.left_out() == {
        "calculated, not measured": 46, "times of passes, not of steps": 7, "seconds to lay out": 8,
    }  # fmt: skip
    for cases in (zero_bubble.time_cases(), zero_bubble.memory_cases()):
        assert len(cases) + sum(zero_bubble.left_out().values()) == rows
        for case in cases:
            check(case.layout, case.job)
            assert case.cluster.num_devices == case.job.devices


def test_every_schedule_of_the_paper_is_predicted() -> None:
    asked = Counter(case.layout.schedule for case in zero_bubble.time_cases())
    assert asked == {"1f1b": 23, "interleaved": 9, "zb-1p": 5, "zb-2p": 13, "zb-v": 5}


def test_the_models_have_the_parameters_of_their_names() -> None:
    """To the digit that is printed: table 3 of the paper says 1.5B, 6.2B, 14.6B and 28.3B."""
    for case in zero_bubble.time_cases():
        assert isinstance(case.job.model, Transformer)
        assert f"{parameters(case.job.model).total / 1e9:.1f}B" == case.job.model.name


@pytest.mark.parametrize(
    ("row", "stages"),
    [
        ("zb4-1.5B-1F1B-24", (2, 3, 3, 3, 3, 3, 3, 2)),
        ("zb4-1.5B-1F1B-I-24", (0, *(1,) * 22, 0)),
        ("zb6-28.3B-ZB-V-128", (0, *(1,) * 62, 0)),
    ],
)
def test_the_first_and_the_last_chunk_hold_one_layer_fewer(row: str, stages: tuple[int, ...]) -> None:
    case = next(case for case in zero_bubble.time_cases() if case.row.startswith(f"{row} "))
    assert case.layout.stages == stages


def test_the_printed_memory_is_that_of_scores_kept_without_recomputation() -> None:
    """ZB-2p holds p more micro-batches than ZB-1p, of sbh (34 + 5 as/h) bytes a layer (arXiv 2205.05198, section 4.1).

    Without the scores, in FlashAttention or recomputed, 34 is left: less than half. Memory is printed in whole GB.
    """
    rows = [row for row in read_rows(zero_bubble.FILE) if row["table"] == "Table 4"]
    printed_GB = {(row["model"], row["schedule"]): float(row["mem_gb"]) for row in rows}
    by_model = {row["model"]: row for row in rows}
    for model in ("1.5B", "6.2B", "14.6B"):
        row = by_model[model]
        seq, batch, hidden, heads, pp = (int(row[name]) for name in ("seq_len", "mbs", "hidden", "heads", "pp"))
        layers = (int(row["layers"]) + 2) // pp
        kept_B = pp * layers * seq * batch * hidden * (34 + 5 * heads * seq / hidden)
        difference_GB = printed_GB[model, "ZB-2p"] - printed_GB[model, "ZB-1p"]
        assert kept_B / 1e9 == pytest.approx(difference_GB, rel=0.15)
