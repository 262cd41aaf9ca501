"""Planning again on changed hardware: the answers of whole searches, with what no change touches done once."""

from dataclasses import replace

import pytest
from advice_samples import DENSE, EXPERTS, NODES

from lockstep.decide.planner.candidates import candidates
from lockstep.decide.planner.replans import ROOM, Replans
from lockstep.decide.planner.search import search
from lockstep.decide.planner.space import Space, default_space
from lockstep.decide.planner.whatif import scaled
from lockstep.describe.hardware import Cluster, cluster
from lockstep.price.layout import Job

SMALL = Space(
    tp=(1, 2), cp=(1,), ep=(1, 4), pp=(1, 2, 4), micro_batch=(1, 4), layers=EXPERTS.layers, unit=8,
    schedules=("1f1b", "dualpipe"),
)  # fmt: skip
HARDWARE = (
    NODES,
    scaled(NODES, memory=ROOM),
    scaled(NODES, memory=0.8),
    scaled(NODES, memory=3.0),
    scaled(NODES, bandwidth=2.0),
    scaled(NODES, latency=0.5, memory=0.9),
    NODES.resized(64),
    cluster("dgx-h100:4"),
)


def replans() -> Replans:
    return Replans(EXPERTS.model, EXPERTS.recipe, SMALL)


def test_every_replan_equals_a_separate_search() -> None:
    shared = replans()
    for hardware in HARDWARE:
        job = Job(EXPERTS.model, EXPERTS.recipe, hardware.num_devices)
        assert shared.fastest(hardware) == search(job, hardware, SMALL, top=1).best[0]


def test_the_order_of_the_questions_does_not_matter() -> None:
    forwards, backwards = replans(), replans()
    answers = [forwards.fastest(hardware) for hardware in HARDWARE]
    assert [backwards.fastest(hardware) for hardware in reversed(HARDWARE)] == answers[::-1]


def test_hardware_too_small_for_anything_has_no_layout() -> None:
    shared = replans()
    assert shared.fastest(scaled(NODES, memory=0.01)) is None
    assert shared.fastest(NODES) is not None


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is worked out, in order."""
    calls: list[str] = []
    for name, function in (("search", search), ("candidates", candidates)):

        def counted(*given: object, _name: str = name, _function: object = function, **words: object) -> object:
            calls.append(_name)
            return _function(*given, **words)  # type: ignore[operator]

        monkeypatch.setattr(f"lockstep.decide.planner.replans.{name}", counted)
    return calls


def test_changing_only_memory_needs_no_new_search(done: list[str]) -> None:
    shared = replans()
    for factor in (1.0, 1.1, 0.5, ROOM):
        shared.fastest(scaled(NODES, memory=factor))
    assert done == ["candidates", "search"]


@pytest.mark.parametrize(
    ("hardware", "new"),
    [
        (scaled(NODES, bandwidth=2.0), ["search"]),
        (cluster("dgx-h100:4"), ["search"]),
        (NODES.resized(64), ["candidates", "search"]),
        (scaled(NODES, memory=1.01 * ROOM), ["search"]),
    ],
)
def test_rules_and_memory_are_computed_once_per_number_of_devices(
    hardware: Cluster, new: list[str], done: list[str]
) -> None:
    shared = replans()
    shared.fastest(NODES)
    shared.fastest(hardware)
    assert done == ["candidates", "search", *new]


def test_the_default_space_follows_the_devices() -> None:
    shared = Replans(DENSE.model, DENSE.recipe)
    for devices in (8, 32):
        job, hardware = replace(DENSE, devices=devices), NODES.resized(devices)
        whole = search(job, hardware, default_space(job, 8), top=1).best[0]
        found = shared.fastest(hardware)
        assert found is not None
        assert (found.step_time_s, found.memory_B, found.layout) == (whole.step_time_s, whole.memory_B, whole.layout)
