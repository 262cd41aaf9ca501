"""Any text in any flag of the verbs about programs: an answer without NaN or one located line, never a traceback."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_programs.questions import COMMANDS
from cli_runner import run
from effort import drawn

TEXTS = (
    "", "0", "-1", "1", "2", "3", "7", "0.5", "1e-300", "1e-9", "1e9", "1e300", "1e400", "nan", "inf", "-inf", "0x10",
    "1GB", "1 KiB", "5us", "1e-300s", "1e300s", "25GB/s", "50%", "all", "ring", "1f1b", "dualpipe", "none",
    "drop:1", "local:1000000", "bounded:999999999", "normal:mean=1s,cv=3", "pareto:minimum=1s,shape=1.01", "2x5ms:1MB",
    "2x", "x", ",", "1,2", "1:2", "дорого", "\x00", "🙂",
)  # fmt: skip


@pytest.mark.parametrize("verb", COMMANDS)
@settings(max_examples=drawn(60), derandomize=True, deadline=None)
@given(data=st.data())
def test_any_text_is_answered_or_refused(verb: str, data: st.DataObject) -> None:
    # Simulated, long pipelined trees would take most of the time.
    arguments = [word for word in COMMANDS[verb] if word != "--simulate"]
    places = [i for i in range(1, len(arguments)) if not arguments[i].startswith("--")]
    for place in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=2, unique=True)):
        arguments[place] = data.draw(st.sampled_from(TEXTS))
    session = run(*arguments, "--json")
    if session.code == 2:
        session.refusal()
    else:
        assert session.code in (0, 1)
        session.json()
