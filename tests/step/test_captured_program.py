"""A captured step as a program: what waits for what, by arithmetic, and collectives on the cluster that is asked."""

import math

import pytest

from lockstep.base.errors import BadInput
from lockstep.decide.planner.captured_side import captured_side
from lockstep.describe.captured import Captured, Life, Operation
from lockstep.describe.hardware import Cluster, cluster
from lockstep.price.kernels.captured import priced_calls
from lockstep.price.step.captured import LAUNCHES, captured_time, captured_timeline
from lockstep.show.verbs.capture import CapturedMemory
from lockstep.simulate.parallel.group import collective_s

NODE, NODES = cluster("dgx-h100:1"), cluster("dgx-h100:4")
LARGE = "1024x1024x256:float32"


def kernel(stream: int = 0, shape: str = LARGE) -> Operation:
    return Operation("aten.add_.Tensor", "forward", f"{shape};{shape};{shape}", 2, 0, stream=stream)


def order(name: str, stream: int = 0, event: int = 0) -> Operation:
    return Operation(name, "forward", "", 0, 0, stream=stream, event=event)


def gather(stream: int = 0, group: str = "all", size: int = 1 << 26) -> Operation:
    return Operation("all-gather", "forward", f"{size // 8}:float32;{size}:float32", 1, 0, stream=stream, group=group)


def step(*operations: Operation, ranks: int = 8, lives: tuple[Life, ...] = (), **groups: list[int]) -> Captured:
    named = [{"name": name, "ranks": members} for name, members in {"all": list(range(ranks)), **groups}.items()]
    return Captured({"ranks": ranks, "groups": named, "tf32": []}, operations, lives)


def took_s(found: Captured, machine: Cluster = NODE) -> float:
    return captured_timeline(found, machine)[0].makespan_s


KERNEL_S = float(priced_calls(step(kernel()), NODE.device).works[0].device_s)
GATHER_S = float(collective_s("all-gather", NODE.levels_of(8), 4 << 26))
SLACK = 0.05
"""Of launches, beside kernels of a millisecond."""


def test_the_interval_is_that_of_a_comparison() -> None:
    """Its ends are those of `interval.py`, and links that nobody measured widen it where a collective needs them."""
    program = {"script": "train.py", "arguments": [], "torch": "2.13", "rank": 0, "untimed": ""}
    program |= {"parameters": 0, "trained_parameters": 0}
    for parts in ([kernel(), gather(), kernel()], [kernel(), kernel()]):
        found = step(*parts, ranks=32)
        found = Captured(found.program | program, found.operations, found.lives)
        shown, side = CapturedMemory(found, NODES, "step.capture"), captured_side(found, NODES, "step")
        assert shown.interval is not None
        assert shown.interval.low == pytest.approx(side.step_time_s * math.exp(-side.below))
        assert shown.interval.high == pytest.approx(side.step_time_s * math.exp(side.above))
        slow_s, fast_s = (captured_time(found, one).step_time_s for one in NODES.links_range)
        assert side.links == pytest.approx([math.log(one / side.step_time_s) for one in (slow_s, fast_s)])
        assert (side.links[0] > 0) == (len(parts) == 3)
        assert (side.below, side.above) >= (side.links[1], side.links[0])
        assert sum(shown.parts_s.values()) == pytest.approx(side.step_time_s)


def test_memory_is_what_is_allocated_with_slack_and_a_context() -> None:
    """Tensors in whole blocks and two workspaces; no risk is said, as that law is of descriptions."""
    found = step(kernel(), lives=(Life(1000, 0, None, "parameters"), Life(600, 0, 1, "activations")))
    found = Captured(found.program | {"untimed": "a reason"}, found.operations, found.lives)
    shown = CapturedMemory(found, NODE, "step.capture")
    assert shown.allocated_B == 4 * 512 + 2 * (32 << 20)
    assert shown.memory.total_B == pytest.approx(1.05 * shown.allocated_B + 1.5e9)
    said = shown.to_dict()
    assert not {"tight", "out_of_memory_frac"} & said["memory"].keys()
    assert said["interval"] is None


def test_work_of_one_stream_is_in_order_and_streams_run_beside_each_other() -> None:
    assert took_s(step(kernel(), kernel())) == pytest.approx(2 * KERNEL_S, rel=SLACK)
    assert took_s(step(kernel(), kernel(stream=2))) == pytest.approx(KERNEL_S, rel=SLACK)


def test_a_stream_waits_for_what_stood_before_the_event() -> None:
    waits = step(kernel(), order("record", 0, 5), kernel(), order("wait", 2, 5), kernel(stream=2))
    assert took_s(waits) == pytest.approx(2 * KERNEL_S, rel=SLACK)
    late = step(kernel(), kernel(), order("record", 0, 5), order("wait", 2, 5), kernel(stream=2))
    assert took_s(late) == pytest.approx(3 * KERNEL_S, rel=SLACK)


def test_the_host_launches_nothing_while_it_reads_a_value() -> None:
    small = [kernel(shape="8")] * 200
    ahead, reads = took_s(step(kernel(), *small)), took_s(step(kernel(), order("read"), *small))
    host_s = 200 * priced_calls(step(kernel()), NODE.device).host_s(kernel(), 1.0)
    assert host_s > KERNEL_S
    assert reads - ahead == pytest.approx(KERNEL_S, rel=SLACK)


def test_a_collective_is_hidden_where_its_stream_is_not_waited_for() -> None:
    beside = captured_time(step(kernel(), gather(3), *[kernel()] * 3), NODE)
    assert beside.communication_s == pytest.approx(GATHER_S)
    assert beside.exposed_communication_s == pytest.approx(0.0, abs=1e-6)
    alone = captured_time(step(kernel(), gather(), *[kernel()] * 3), NODE)
    assert alone.exposed_communication_s == pytest.approx(GATHER_S, rel=SLACK)
    assert alone.step_time_s - beside.step_time_s == pytest.approx(GATHER_S, rel=SLACK)


def test_a_group_across_nodes_takes_the_network() -> None:
    near, far = list(range(4)), list(range(0, 32, 8))
    inside, across = (captured_time(step(gather(group="part"), ranks=32, part=part), NODES) for part in (near, far))
    assert across.communication_s > 2 * inside.communication_s
    assert [level[0] for level in NODES.levels_between(near)] == [4, 1]
    assert [level[0] for level in NODES.levels_between(far)] == [1, 4]
    assert NODES.levels_between(range(16)) == NODES.levels_of(16)


def test_memory_of_the_timeline_is_that_of_the_tensors() -> None:
    lives = (Life(1000, 0, None, "parameters"), Life(300, 1, 2, "activations"), Life(513, 2, 2, "activations"))
    found = step(kernel(), kernel(), kernel(), ranks=1, lives=lives)
    assert captured_timeline(found, NODE)[0].peak_memory_B()[0] == found.peak_B == 5 * 512


def test_what_has_no_time_says_why() -> None:
    with pytest.raises(BadInput, match="16 ranks, and dgx-h100 has 8 devices"):
        captured_time(step(kernel(), ranks=16), NODE)
    send = Operation("send", "forward", LARGE, 1, 0, group="all")
    with pytest.raises(BadInput, match="between two ranks"):
        captured_time(step(send), NODE)


def test_the_host_is_not_counted_as_computing() -> None:
    line, begins_s = captured_timeline(step(kernel(shape="8"), order("read"), kernel(shape="8")), NODE)
    assert line.computing_s[0] < line.busy_s()[0, LAUNCHES]
    first_s, read_s, second_s = begins_s
    assert first_s == read_s < second_s
