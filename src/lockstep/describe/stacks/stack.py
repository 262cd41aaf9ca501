"""`Stack`: a training software and its release: which attention kernel it runs, its time on the host, its switches.

A device is what its kernels can do (`describe/hardware/device.py`); a stack is what software does with it. Its switches
are options of a run as the software sets them; its ways (`ways.py`) and habits (`habits.py`) are what no option
changes: facts, each with its source. Its times on the host are PyTorch's, one value of each for all software:

    launch_s          per kernel launch, the framework included
    recompute_host_s  per recomputed layer beside its launches: leaving and re-entering autograd, random states
    step_s            per optimizer step, hidden by nothing: data loading, clipping, logging

Traces of training show a launch every 15 to 27 us on hosts of H100 and MI300X (modded-nanogpt, TraceLens: the traces of
tests/published_traces.py), and a step of 256 tokens on one H100 took 22 us each (check/validation/h100_steps.py). Steps
on that device are met within 1.6 % in the median; with 5 or 20 ms per step within 3.6. A recomputed layer's is assumed.

`elementwise_factor` is what norms and elementwise kernels take over streams of the bytes they must move: kernels that
the account of a layer leaves out, and those that are far from the memory's rate. It is a property of the library whose
kernels run (`kernels`): measured alone for PyTorch's and its compiler's (`tools/fit/products.py`), fitted to published
steps for apex's and Transformer Engine's (`python tools/fit/fit.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.errors import UnknownName
from lockstep.base.records import dataclass, field, fields, replace
from lockstep.base.types.plain import Json, picked, plain
from lockstep.describe.stacks.habits import Habits
from lockstep.describe.stacks.ways import FROM_LAYOUT, Way, Ways, chosen, find_way, read_ways, usual_ways
from lockstep.describe.stacks.ways import ways as catalog_ways

DEFAULT = "megatron-te"
ATTENTION_KERNELS = ("cudnn", "flash3", "flash2", "flash1", "triton", "splash", "aiter")
"""Fused attention kernels: cuDNN's, FlashAttention's by version, its first in Triton, TPUs' splash and AMD's AITER."""
NEWEST = {
    "megatron": "megatron-te", "bridge": "megatron-te", "nemo": "nemo-25", "fsdp": "fsdp-compile", "hf": "hf-trainer-5",
}  # fmt: skip
"""Software by a name without release, and the stack of its newest one here; others are called as their stack is."""
COMPILED = ("inductor", "xla")
"""Compilers whose kernels a stack may run (`Stack.kernels`)."""
OF_VENDOR = {"google": "maxtext"}
"""Stacks of devices that the default does not run on."""
LOSS = "loss"
"""The slot whose way is a switch."""
OWN = (
    "name software release vendors attention elementwise_factor kernels launch_s recompute_host_s step_s recompute "
    "source date"
)
"""Fields that the file of a user's own stack may have, beside tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a run that say how its software runs it; all others are fields of `layout.Recipe`."""

    fused_elementwise: bool = True
    """Neighbouring elementwise operations run as one kernel (Megatron's fused kernels, torch.compile)."""
    cross_entropy: str | None = None
    """How the cross entropy treats logits, a way of the slot `loss`; None derives it from the elementwise kernels."""
    gather_limits: str = ""
    """DeepSpeed's limits at zero 3 that differ from its defaults, in elements (`parallel/data/coordinator.py`)."""
    fused_accumulation: bool = True
    """Weight gradients are added to the accumulated ones inside the product that gives them (NVIDIA/apex pull request
    1297), not by a pass of its own. Sharded gradients are never fused."""


OPTIONS = tuple(one.name for one in fields(Options))


@dataclass(frozen=True, slots=True, repr=False)
class Stack:
    """A training software at a release."""

    name: str
    like: str
    """The stack of the catalog that it is, or is like but for what it has otherwise (`said`)."""
    software: str
    release: str
    vendors: tuple[str, ...]
    """On whose devices it runs."""
    attention: tuple[str, ...]
    """Fused attention kernels, the first that a device has, `kernel@curve` on devices of that curve alone; see
    `AttentionKernel`.
    """
    elementwise_factor: float
    """Seconds of norms and elementwise kernels over those of streams of their bytes."""
    kernels: str
    """Whose norms and elementwise kernels it runs for the most part: apex, transformer-engine, torch, inductor, xla."""
    switches: Mapping[str, bool | str | float] = field(hash=False)
    """Options that it sets, fields of `Recipe` or `Options`, and their values."""
    ways: Mapping[str, Way] = field(hash=False)
    """How it runs each slot of a layer, by the slot's name (`ways.py`)."""
    habits: Habits
    """What it also does in every step, independent of the options of a run."""
    source: str
    date: str
    launch_s: float = 20e-6
    recompute_host_s: float = 1e-3
    step_s: float = 10e-3
    recompute: str = "none"
    """What it recomputes where a run does not say."""
    kind: str = "measured"
    """What a launch and a step are: measured of PyTorch, assumed, or the user's. A recomputed layer is assumed."""
    train: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Settings of an objective, as after its name in `--train`, where a run does not give them."""
    rows: Mapping[str, Json] = field(default_factory=dict, hash=False)
    """Ways of its own by slot and name, as tables of `ways.toml`."""
    asked: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Fields of `Options` that a run sets; they override the switches."""
    options: Options = field(init=False)
    """The options of a run: those that the run sets, and otherwise those of the switches."""

    def __post_init__(self) -> None:
        said = {**self.switches, **self.asked}
        object.__setattr__(self, "options", Options(**{name: said[name] for name in OPTIONS if name in said}))

    def __repr__(self) -> str:
        return f"Stack({self.said!r}, asked={self.asked!r})"

    @property
    def compiled(self) -> bool:
        """Whether compiled code launches its kernels, not Python operation by operation."""
        return self.kernels in COMPILED

    @property
    def known_ways(self) -> Ways:
        """Those of the catalog and its own, by slot and name."""
        return read_ways(self.rows, catalog_ways()) if self.rows else catalog_ways()

    def having(self, **changes: Any) -> Stack:
        """This software with other ways to run a slot, by the slot's name, other habits, or other `Options` in a run.

        The way of the loss is a switch, before which the option cross_entropy goes. Raises UnknownName for a name that
        is none of them, or a value that it does not have.
        """
        known, switches = dict(self.known_ways), self.switches
        asked = {**self.asked, **{name: changes.pop(name) for name in OPTIONS if name in changes}}
        if LOSS in changes:
            switches = {**switches, "cross_entropy": chosen(LOSS, changes.pop(LOSS), known).name}
        for slot, names in FROM_LAYOUT.items():
            known[slot] = {name: known[slot][name] for name in names}
        ways = {slot: chosen(slot, name, known) for slot, name in changes.items() if slot in self.ways}
        habits = {name: value for name, value in changes.items() if name not in ways}
        for name in habits:
            if name not in Habits.names():
                raise UnknownName("option, habit or slot of a layer", name, (*OPTIONS, *Habits.names(), *self.slots))
        ways = {**self.ways, **ways}
        return replace(self, ways=ways, habits=replace(self.habits, **habits), switches=switches, asked=asked)

    @property
    def slots(self) -> tuple[str, ...]:
        """Slots of a layer, and the loss, that it may run in other ways."""
        return (*self.ways, LOSS)

    @property
    def changes(self) -> Json:
        """What it has otherwise than the stack of the catalog that it is like, as the file of a stack says it."""
        base = stacks()[self.like]
        tables = {
            "ways": {slot: way.name for slot, way in self.ways.items() if way != base.ways[slot]},
            "habits": _differing(picked(self.habits), picked(base.habits)),
            "switches": _differing(plain(self.switches), plain(base.switches)),
            "train": _differing(plain(self.train), plain(base.train)),
            **self.rows,
        }
        own = _differing(picked(self, OWN), picked(base, OWN))
        return {**own, **{name: table for name, table in tables.items() if table}}

    @property
    def said(self) -> str | Json:
        """Its name where it is one of the catalog, else what describes it (`own_stack`), switches left out excepted."""
        return {"like": self.like, **self.changes} if self.changes else self.name

    @property
    def manner(self) -> Json:
        """All of its ways, by slot, and habits."""
        return {**{slot: way.name for slot, way in self.ways.items()}, **picked(self.habits)}

    @property
    def unusual(self) -> Json:
        """Ways and habits that most software does not have, by name."""
        ways = ((slot, way.name) for slot, way in self.ways.items() if way != usual_ways()[slot])
        return {**dict(ways), **self.habits.changed()}

    def to_dict(self) -> Json:
        """Plain JSON form: `switches` are what it decides, options and habits."""
        told = picked(self, without="like ways habits rows asked options")
        return {**told, "switches": {**self.unusual, **self.switches}}


def _differing(values: Json, usual: Json) -> Json:
    return {name: value for name, value in values.items() if name not in usual or value != usual[name]}


@cache
def stacks() -> dict[str, Stack]:
    """Every stack of the catalog by name."""
    return {
        name: _stack(name, entry) for name, entry in shipped_table("lockstep.describe.stacks", "stacks.toml").items()
    }


def _stack(name: str, entry: Json) -> Stack:
    several = {key: tuple(entry[key]) for key in ("attention", "vendors")}
    ways = {slot: find_way(slot, way) for slot, way in entry.get("ways", {}).items()}
    decided = {
        "switches": entry.get("switches", {}), "habits": Habits(**entry.get("habits", {})),
        "ways": {**usual_ways(), **ways},
    }  # fmt: skip
    return Stack(name=name, like=name, **{**entry, **several, **decided})


def stack(name: str | Stack) -> Stack:
    """The stack called `name`, the newest of a software with that name, or a user's own. Raises UnknownName."""
    if isinstance(name, Stack):
        return name
    found = stacks().get(NEWEST.get(name, name))
    if found is None:
        raise UnknownName("software stack", name, [*stacks(), *NEWEST], "--stack")
    return found


def default_stack(vendor: str) -> str:
    """The name of the stack that devices of a vendor are assumed to run."""
    return OF_VENDOR.get(vendor.lower(), DEFAULT)
