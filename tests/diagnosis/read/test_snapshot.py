"""Memory snapshots: peaks of real ones, drawn ones against a plain replay, and pickles that are refused."""

import json
import os
import pickle
import random

import pytest

from lockstep.base.errors import BadInput
from lockstep.explain.read import find
from lockstep.explain.read.snapshot import snapshot
from published_traces import published_trace

FRAMES = {
    "forward": [{"name": "forward", "filename": "model.py", "line": 3}],
    "backward": [{"name": "torch::autograd::Engine::evaluate_function", "filename": "??", "line": 0}],
    "optimizer": [{"name": "step", "filename": "torch/optim/adamw.py", "line": 9}],
    "": [],
}


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("cs336_medium_ctx128_training", "medium_128_training"),
        ("cs336_medium_ctx512_training", "medium_512_training"),
        ("cs336_medium_ctx1024_inference", "medium_1024_inference"),
    ],
)
def test_peaks_of_real_snapshots_are_found(file, name):
    """Peak, memory before recording, at the dump and reserved; categories add up; gradients are 4 bytes each."""
    found = find([published_trace(f"{file}.memory.pickle.gz")])[0].read()
    truth = json.loads(published_trace("cs336_memory.truth.json").read_text())["snapshots"][name]
    assert found.peak_B == pytest.approx(truth["peak_allocated_B"], rel=1e-3)
    assert found.before_recording_B == pytest.approx(truth["before_recording_B"], rel=1e-3)
    assert found.at_dump_B == truth["at_dump_allocated_B"]
    assert found.reserved_B == truth["reserved_B"]
    assert sum(found.by_category_B.values()) == found.peak_B
    if name == "medium_128_training":
        assert found.by_category_B["gradients"] == pytest.approx(4 * 423.2e6, rel=1e-3)


def drawn(seed):
    """Events of passes in order, with the size held before them; and the allocated bytes after every event."""
    random_, events, live, before_B = random.Random(seed), [], {}, random.Random(seed).randrange(10**6)
    series = [before_B]
    for phase in ["forward", "backward", "optimizer"] * 3:
        for _ in range(random_.randrange(1, 20)):
            if live and random_.random() < 0.45:
                address = random_.choice(sorted(live))
                size_B = live.pop(address)
                events += [{"action": one, "addr": address, "size": size_B} for one in ("free_requested",)]
                events.append({"action": "free_completed", "addr": address, "size": size_B})
                series.append(series[-1] - size_B)
            else:
                address, size_B = random_.randrange(10**9), random_.randrange(1, 10**5)
                while address in live:
                    address += 1
                live[address] = size_B
                events.append({"action": "alloc", "addr": address, "size": size_B, "frames": FRAMES[phase]})
                series.append(series[-1] + size_B)
    held_B = before_B + sum(live.values())
    segments = [{"device": 0, "allocated_size": held_B, "total_size": held_B + 512, "blocks": []}]
    return {"segments": segments, "device_traces": [events]}, series


@pytest.mark.parametrize("seed", range(30))
def test_peaks_equal_a_plain_replay(seed):
    """And what was there before recording is found from the dump."""
    data, series = drawn(seed)
    found = snapshot(data, "x")
    assert found.peak_B == max(series)
    assert found.before_recording_B == series[0]
    assert sum(found.by_category_B.values()) == found.peak_B
    assert all(size_B > 0 for size_B in found.by_category_B.values())


def test_allocations_are_categorised_by_pass_and_lifetime():
    """Kept in the forward pass: activations; in the backward pass: gradients; freed within: buffers."""

    def alloc(address, size_B, phase):
        return {"action": "alloc", "addr": address, "size": size_B, "frames": FRAMES[phase]}

    def free(address, size_B):
        return {"action": "free_completed", "addr": address, "size": size_B}

    events = [
        alloc(1, 100, "forward"), alloc(2, 10, "forward"), free(2, 10), alloc(3, 1000, "backward"), free(1, 100),
        alloc(4, 7, "backward"), alloc(5, 10000, "optimizer"), alloc(6, 3, ""), free(4, 7),
    ]  # fmt: skip
    data = {"segments": [{"allocated_size": 11003 + 50, "total_size": 12000}], "device_traces": [[], events]}
    found = snapshot(data | {"segments": [data["segments"][0] | {"device": 1}]}, "x")
    assert found.device == 1
    assert found.peak_B == 11060
    assert found.by_category_B == {
        "optimizer": 10000, "gradients": 1007, "before recording": 50, "no frames": 3,
    }  # fmt: skip


class Evil:
    """Would run a command when unpickled."""

    def __reduce__(self):
        return (os.system, ("true",))


NAMED = {
    "a call": Evil(),
    "a call deep inside": {"segments": [], "device_traces": [[Evil()]]},
    "a function": os.system,
    "an object": random.Random(1),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_pickle_that_imports_anything_is_refused(name, tmp_path):
    """Before anything in it is built."""
    value = NAMED[name]
    path = tmp_path / "snapshot"
    path.write_bytes(pickle.dumps(value, 4))
    with pytest.raises(BadInput, match=r"could run code: it names .*; refused"):
        find([path])[0].read()


@pytest.mark.parametrize(
    "value", [3, [], {}, {"segments": []}, {"segments": 3, "device_traces": [[{"action": "alloc"}]]},
              {"segments": [], "device_traces": [[3]]}, {"segments": [], "device_traces": []},
              {"segments": [], "device_traces": [[{"action": "free_completed", "addr": 1, "size": -5}]]}],
    ids=str,
)  # fmt: skip
def test_a_pickle_that_is_not_a_snapshot_is_refused(value, tmp_path):
    """Plain values that are no snapshot."""
    path = tmp_path / "snapshot"
    path.write_bytes(pickle.dumps(value, 4))
    with pytest.raises(BadInput) as error:
        find([path])[0].read()
    assert error.value.where == str(path)


def test_a_snapshot_of_a_profile_is_read():
    """PyTorch makes one of torch.profiler: what is allocated stands in blocks alone, and file and name in one word."""
    frames = [{"filename": "none", "line": 0, "name": name} for name in ("torch/optim/adam.py(21): step", "a.py(1): b")]
    events = [{"action": "alloc", "addr": 7, "size": 300, "stream": 0, "frames": frames, "category": "unknown"}]
    blocks = [{"size": 100, "state": "active_allocated"}, {"size": 50, "state": "inactive"},
              {"size": 300, "state": "active_allocated"}]  # fmt: skip
    segment = {"device": 0, "address": 0, "total_size": 450, "stream": 0, "blocks": blocks}
    found = snapshot({"device_traces": [events], "segments": [segment]}, "here")
    assert found.peak_B == found.at_dump_B == 400
    assert found.by_category_B == {"optimizer": 300, "before recording": 100}
