"""DeepSpeed's Muon, which a CPU runs uncompiled, takes a step of small models and holds as many bytes as Lockstep has.

Its Adam, Lion and Adagrad for CPUs are compiled when they are first made, which takes longer than all of this tier.
"""

from __future__ import annotations

from typing import Any

import torch
from agreement import Asker
from deepspeed.runtime.zero.muon.original_muon import SingleDeviceMuonWithAuxAdam
from held_states import WITHOUT_STACKS, Case, compare, of_layers


def muon(model: torch.nn.Module) -> Any:
    """Muon for matrices of layers, and the Adam beside it for the rest."""
    matrices, rest = of_layers(model)
    return SingleDeviceMuonWithAuxAdam([{"params": matrices, "use_muon": True}, {"params": rest, "use_muon": False}])


def test_states_are_those_of_deepspeed_to_the_byte(asked: Asker) -> None:
    with asked("deepspeed", "bytes of states of its Muon, models drawn") as answers:
        compare(answers, {"Muon": Case(muon, "muon", "muon-bf16", WITHOUT_STACKS)}, "deepspeed", 25)
