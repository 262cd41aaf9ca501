"""What tables and pictures for a person say, read back from the terminal and from the axes."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

import lockstep
from lockstep.decide.campaigns import Operation, Scenario, campaign, for_tokens
from lockstep.show.views import campaign as campaign_view
from lockstep.show.views import case as case_view
from lockstep.show.views import experts as experts_view


def printed(render: Callable[[Any, Console], None], answer: object) -> list[str]:
    out = Console(file=io.StringIO(), width=200)
    render(answer, out)
    return out.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_experts_begin_with_the_verdict() -> None:
    found = lockstep.experts(experts=4, top_k=1, tokens=64, ranks=4, latency=0.0, bandwidth=1e9)
    said = replace(found, imbalance_slowdown=1.25, dropped_frac=0.5)
    first, second, *_ = printed(experts_view.render, said)
    assert first == "all-to-all takes 1.25 times the balanced time; 50 % of assignments dropped"
    assert second.startswith("4 experts on 4 ranks, top-1, 64 tokens; balancing loss ")


def test_a_case_lists_eight_sentences_of_what_is_unknown() -> None:
    survey = lockstep.case("bert-large-nvidia")
    (found,) = survey.comparisons
    for unknown in (1, 8, 9):
        study = replace(found.study, unknown=tuple(f"the {i}th thing is unknown." for i in range(unknown)))
        lines = printed(case_view.render, replace(survey, comparisons=(replace(found, study=study),)))
        assert sum("th thing is unknown." in line for line in lines) == min(unknown, 8)
        assert sum("1 more with --json" in line for line in lines) == (unknown == 9)


def test_bars_of_a_tornado_reach_from_the_base_to_the_changed_days() -> None:
    found = campaign(
        Scenario(lockstep.estimate("gpt2", "dgx-a100-40gb:1", batch=64), for_tokens(1e9), Operation(device_mtbf_s=1e8)),
        campaigns=10,
    )
    (axes,) = campaign_view.plot_tornado(found).axes
    now = found.run.days
    reached = [
        end.days
        for one in found.tornado
        if any(end and end.days != now for end in (one.low, one.high))
        for end in (one.low, one.high)
        if end
    ]
    drawn = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]
    assert len(drawn) == len(reached) > 4
    assert [begin for begin, _ in drawn] == pytest.approx([now] * len(drawn))
    assert sorted(end for _, end in drawn) == pytest.approx(sorted(reached))
    furthest = [max(abs(bar.get_width()) for bar in axes.patches if round(bar.get_y() + 0.35) == place)
                for place in range(len(axes.get_yticks()))]  # fmt: skip
    assert furthest == sorted(furthest)
