"""Who waited for whom, against programs small enough to say by hand."""

from __future__ import annotations

import numpy as np

from lockstep.simulate.collectives import PlainLink
from lockstep.simulate.play import simulate
from lockstep.simulate.program import ProgramBuilder, Timeline, waits_s, working_s

LINK = PlainLink(latency_s=1.0, bandwidth_Bps=1.0)


def test_the_earlier_end_of_a_message_waits_for_the_other() -> None:
    builder = ProgramBuilder(2)
    slow = builder.compute(0, 5.0)
    builder.message(0, 1, 0.0, after=slow)
    line = simulate(builder.build(), LINK)
    np.testing.assert_array_equal(waits_s(line), [[0, 0], [5, 0]])
    np.testing.assert_array_equal(working_s(line), [5, 0])


def test_ranks_at_a_barrier_wait_for_the_last() -> None:
    builder = ProgramBuilder(3)
    for rank, time_s in enumerate((1.0, 4.0, 2.0)):
        builder.compute(rank, time_s, stream="comm")
    builder.barrier()
    line = simulate(builder.build())
    np.testing.assert_array_equal(waits_s(line), [[0, 3, 0], [0, 0, 0], [0, 2, 0]])


def test_delays_of_a_computation_are_work_of_its_rank() -> None:
    builder = ProgramBuilder(1)
    builder.compute(0, 1.0)
    builder.compute(0, 1.0)
    program = builder.build()
    line = Timeline(program, np.array([0.0, 3.0]), np.array([1.0, 4.0]), source="measured")
    np.testing.assert_array_equal(working_s(line), [4])


def test_waiting_propagates() -> None:
    builder = ProgramBuilder(3)
    slow = builder.compute(0, 5.0)
    _, arrived = builder.message(0, 1, 0.0, after=slow)
    builder.message(1, 2, 0.0, after=arrived)
    line = simulate(builder.build(), LINK)
    np.testing.assert_array_equal(waits_s(line), [[0, 0, 0], [5, 0, 0], [0, 6, 0]])
