"""Progress is shown to whoever has waited half a second, and only until all is done."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.show.views.parts import progress as module


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock, a terminal, and what a bar was told."""
    state = SimpleNamespace(now_s=100.0, told=[], terminal=True)
    bar = SimpleNamespace(
        update=lambda task, **words: state.told.append((task, words)), stop=lambda: state.told.append("stop")
    )

    def made(title: str) -> tuple[Any, Any]:
        state.told.append(title)
        return bar, 7

    monkeypatch.setattr(module, "_bar", made)
    monkeypatch.setattr(module.time, "monotonic", lambda: state.now_s)
    monkeypatch.setattr(module, "sys", SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: state.terminal)))
    return state


def test_a_progress_bar_appears_after_half_a_second_and_ends_with_the_work(watched: SimpleNamespace) -> None:
    with module.progress("searching") as report:
        for later_s, done in ((0.0, 1), (0.5, 2), (0.5078125, 3), (0.75, 4), (1.0, 9)):
            watched.now_s = 100.0 + later_s
            report(done, 9)
    updates = [(7, {"completed": done, "total": 9}) for done in (3, 4, 9)]
    assert watched.told == ["searching", *updates, "stop"]


@pytest.mark.parametrize(("terminal", "done"), [(False, 1), (True, 9)])
def test_nothing_is_drawn_without_a_terminal_or_at_the_end(terminal: bool, done: int, watched: SimpleNamespace) -> None:
    watched.terminal = terminal
    with module.progress("searching") as report:
        watched.now_s += 60
        report(done, 9)
    assert watched.told == []
