"""The choice between names: the least of a figure over everything else that was asked."""

from __future__ import annotations

from pathlib import Path

import lockstep
from cli_runner import run
from lockstep.base.rows.choice import choice
from lockstep.show.views.plan import COMMAND

ASKED = ("plan", "gpt2,gpt2-xl", "-c", "dgx-a100-40gb:1,dgx-h100:1", "--batch", "64,128")


def test_the_best_of_every_pair_is_that_of_its_rows() -> None:
    found = lockstep.plan(["gpt2", "gpt2-xl"], ["dgx-a100-40gb:1", "dgx-h100:1"], batch=[64, 128])
    made = choice(found, COMMAND.figures)
    assert made is not None
    assert (made.rows, made.columns) == (("gpt2", "gpt2-xl"), ("dgx-a100-40gb:1", "dgx-h100:1"))
    for at, model in enumerate(made.rows):
        for place, cluster in enumerate(made.columns):
            alone = [lockstep.plan(model, cluster, batch=batch).to_dict() for batch in (64, 128)]
            assert made.values[at][place] == min(one["plans"][0]["cost_per_token"] for one in alone)
        assert [value for value, _ in made.ranked(at)] == sorted(
            value for value in made.values[at] if value is not None
        )


def test_a_list_of_one_kind_of_name_makes_no_choice() -> None:
    assert choice(lockstep.plan("gpt2", ["dgx-a100-40gb:1", "dgx-h100:1"], batch=64), COMMAND.figures) is None
    assert choice(lockstep.plan(["gpt2", "gpt2-xl"], "dgx-h100:1", batch=64), COMMAND.figures) is None


def test_the_terminal_shows_the_choice_and_its_plot(tmp_path: Path) -> None:
    shown = run(*ASKED, "--plot", str(tmp_path / "choice.svg")).out
    assert "Best choice" in shown
    assert "8 of 8 answers of plan by MODEL and --cluster and --batch" in shown
    picture = (tmp_path / "choice.svg").read_text()
    assert "gpt2-xl" in picture
    assert "best of each row" in picture
