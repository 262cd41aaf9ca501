"""Text timelines fit their width and put every span where it belongs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.simulate.play import simulate
from lockstep.simulate.program import Program, ProgramBuilder, draw
from program.random_programs import Link, price, programs


@settings(derandomize=True, max_examples=50, deadline=None)
@given(programs, st.integers(24, 200), st.sampled_from(["unicode", "ascii"]))
def test_the_drawing_is_never_wider_than_requested(program: Program, width: int, style: str) -> None:
    text = draw(simulate(program, Link(), price=price), width, style=style)
    assert max(len(line) for line in text.splitlines()) <= width
    assert style == "unicode" or text.isascii()


def test_a_small_pipeline_is_drawn() -> None:
    builder = ProgramBuilder(2)
    done = builder.compute(0, 2.0, label="F0")
    builder.message(0, 1, 0.0, duration_s=1.0, after=done, label="0")
    builder.compute(1, 2.0, label="F0", after=done + 2)
    builder.compute(0, 3.0, label="漢B0")
    assert draw(simulate(builder.build()), 26, style="ascii").splitlines() == [
        "rank 0 compute |F0==B0====",
        "rank 0 send    |....0-",
        "rank 1 compute |......F0==",
        "rank 1 recv    |....0-",
        "               +0 ---- 5 s",
    ]


def test_lanes_can_be_chosen_and_are_limited() -> None:
    builder = ProgramBuilder(50)
    for rank in range(50):
        builder.compute(rank, 1.0)
        builder.compute(rank, 1.0, stream="comm")
    timeline = simulate(builder.build())
    assert "comm" not in draw(timeline, streams=("compute",))
    assert "... 68 more lanes" in draw(timeline)


@pytest.mark.parametrize("width", [0, 1, 30])
def test_an_empty_timeline_is_drawn(width: int) -> None:
    assert "0" in draw(simulate(ProgramBuilder(1).build()), width)
