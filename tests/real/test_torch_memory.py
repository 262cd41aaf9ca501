"""PyTorch makes a memory snapshot of a drawn program's profile (`_profile_to_snapshot`); Lockstep finds its peak.

Snapshots of the allocator of devices themselves need CUDA. The profile's own timeline says what was allocated after
every event.
"""

from __future__ import annotations

import itertools
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from agreement import Asker
from torch.cuda._memory_viz import _profile_to_snapshot
from torch.profiler import ProfilerActivity, profile
from torch.profiler._memory_profiler import Action

from effort import share
from lockstep.explain.read import find
from lockstep.explain.read.snapshot import Snapshot

pytestmark = pytest.mark.filterwarnings("ignore")
SOFTWARE = "torch"


def recorded(chance: random.Random) -> profile:
    """A profile of a few steps of a drawn model and optimizer."""
    sides = [chance.choice((16, 64, 200, 333)) for _ in range(chance.randint(2, 5))]
    layers = [torch.nn.Linear(*pair) for pair in itertools.pairwise(sides)]
    model = torch.nn.Sequential(*(one for layer in layers for one in (layer, torch.nn.ReLU())))
    kind = chance.choice((torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad))
    optimizer, batch = kind(model.parameters()), chance.choice((4, 32, 128))
    words: dict[str, Any] = {"record_shapes": True, "profile_memory": True, "with_stack": True}
    with profile(activities=[ProfilerActivity.CPU], **words) as found:
        for _ in range(chance.randint(1, 3)):
            model(torch.randn(batch, sides[0])).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return found


def most_B(found: profile) -> int:
    """The most bytes that live at once, by the profile's own timeline."""
    signs, now, most = {Action.PREEXISTING: 1, Action.CREATE: 1, Action.DESTROY: -1}, 0, 0
    for _, action, _, size_B in found._memory_profile().timeline:
        now += signs.get(action, 0) * size_B
        most = max(most, now)
    return most


def test_peaks_are_those_of_the_profile(asked: Asker, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    chance = random.Random(7)
    with asked(SOFTWARE, "peak bytes of a snapshot") as answers:
        for number in share(range(60), 20):
            found = recorded(chance)
            path = tmp_path / f"{number}.pickle"
            path.write_bytes(pickle.dumps(_profile_to_snapshot(found)))
            (known,) = find([path])
            snapshot = known.read()
            assert isinstance(snapshot, Snapshot)
            assert sum(snapshot.by_category_B.values()) == snapshot.peak_B
            answers.compare(f"{number}", snapshot.peak_B, float(most_B(found)))
