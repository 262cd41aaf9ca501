"""A rank that dies in training: the others stop, and the error names the rank and the step of the collective."""

import pytest

from lockstep.base.errors import RunFailed
from lockstep.run.launch import Fault, launch
from lockstep.run.train.run import work

from .many import Spec


@pytest.mark.parametrize("method", ["zero-3", "pipeline"])
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_is_named(method: str, victim: int) -> None:
    point = "mid_all_gather:0" if method == "zero-3" else "mid_all_reduce:1"
    with pytest.raises(RunFailed, match=f"^rank {victim} killed by SIGKILL during all-") as caught:
        launch(work, 2, (method, Spec(method).full(), {}), timeout_s=10, faults=[Fault(victim, point, "kill")])
    # How its peer saw it is told too, when it says so before it is stopped.
    assert caught.value.failures[0].rank == victim
