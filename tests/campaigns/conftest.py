"""Campaigns of one model on one cluster ask the planner for the same hardware again and again: it searches it once."""

from collections.abc import Iterator
from typing import Any

import pytest

from lockstep.decide.planner.search import Findings, search
from lockstep.decide.planner.space import Space
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import Job


@pytest.fixture(autouse=True, scope="session")
def searched_once() -> Iterator[None]:
    """A search has the same answer for the same question."""
    known: dict[tuple[Job, Cluster, Space], Findings] = {}

    def remembered(job: Job, cluster: Cluster, space: Space, **words: Any) -> Findings:
        if (job, cluster, space) not in known:
            known[job, cluster, space] = search(job, cluster, space, **words)
        return known[job, cluster, space]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lockstep.decide.planner.replans.search", remembered)
        yield
