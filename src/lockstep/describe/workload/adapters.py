"""`Adapters`: what low-rank adaptation trains instead of a model's own weights, which stay frozen.

    y = x W + (x A) B        W: in x out, frozen;  A: in x r and B: r x out, trained

for every matrix W that is a target: r (in + out) parameters each. Tensor parallelism cuts B like the columns of W, or A
like its rows (attention out, down). No gradient of W is computed; that of x passes through both products. Where
queries, keys and values, or gate and up, are made in one product, one adapter adapts them: one A, B as wide as all.

Which matrices are linear layers depends on the class of the model (`modules.py`). Where all experts' matrices are one
parameter, PEFT uses y = x (W + A B): gate and up have one A and B of rank 2 r, and the sum waits for the backward pass.

Source: Hu et al. 2021 (arXiv 2106.09685), section 4; targets by name as in Hugging Face's PEFT (`target_modules`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.units import parse_frac
from lockstep.describe.workload.modules import JOINT, SEPARATE, Modules, modules_of
from lockstep.describe.workload.weight import Weight

NAMES = {
    "q_proj": ("query", "query down", "query up", "cross query"),
    "k_proj": ("key", "key-value down", "key-value up", "cross key"),
    "v_proj": ("value", "key-value down", "key-value up", "cross value"),
    "qkv_proj": ("query", "key", "value"),
    "o_proj": ("attention out", "cross attention out"),
    "gate_proj": ("gate", "expert gate", "shared gate"),
    "up_proj": ("up", "expert up", "shared up"),
    "gate_up_proj": ("gate", "expert gate", "shared gate", "up", "expert up", "shared up"),
    "down_proj": ("down", "expert down", "shared down"),
    "in_proj": ("recurrent in", "recurrent in shared"),
    "out_proj": ("recurrent out",),
    "x_proj": ("recurrent steps",),
    "dt_proj": ("time step up",),
}
"""Targets, and the weights that each is here."""
JOINED = {"qkv_proj": ("key", "value"), "gate_up_proj": ("up", "expert up", "shared up")}
"""Targets of several weights, and those of them that share another one's A."""
GROUPS = {
    "attention": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "mlp": ("gate_proj", "up_proj", "down_proj"),
    "all-linear": tuple(name for name in NAMES if name not in JOINED),
}
"""Words for several targets."""
ROWS = ("attention out", "cross attention out", "down", "shared down", "recurrent out", "recurrent steps")
"""Weights whose rows tensor parallelism cuts."""
SUMMED = ("expert gate", "expert up", "expert down")
"""Matrices of all experts of a layer, where they are parts of one parameter."""
BLOCKS = ("attention", "recurrent", "mlp", "routed_experts", "shared_experts")
"""Categories of weights that are linear layers of a block."""
MOST_RANK = 4096
SETTINGS = ("r", "targets", "dropout", "save")
SAVED = {"embed_tokens": "embedding", "lm_head": "head"}
"""Modules that may be trained whole beside adapters, by the part of the model that each is."""


@dataclass(frozen=True, slots=True)
class Adapters:
    """Low-rank adapters of one rank on some of a layer's matrices."""

    rank: int
    targets: tuple[str, ...]
    """Keys of NAMES."""
    dropout_frac: float = 0.0
    """Share of their inputs that a dropout before A sets to zero; its output and mask wait for the backward pass."""
    saved: tuple[str, ...] = ()
    """Of SAVED, what is trained whole: a copy beside the frozen one, in its format (PEFT's modules_to_save)."""
    modules: Modules = SEPARATE
    """What they find in the model; without one, a linear layer for every matrix."""

    def of(self, model_type: str, release: int = 5) -> Adapters:
        """These adapters as PEFT puts them on a model of a type, in the class of a release of transformers."""
        return replace(self, modules=modules_of(model_type, release))

    @property
    def everywhere(self) -> bool:
        """Whether they are on all linear layers."""
        return set(GROUPS["all-linear"]) <= set(self.targets)

    def sums(self, weight: Weight) -> bool:
        """Whether the adapter of this weight is added to it, for all experts in one."""
        return self.modules.experts == "summed" and weight.name in SUMMED and self._named(weight)

    def _named(self, weight: Weight) -> bool:
        return any(weight.name in NAMES[target] for target in self.targets)

    def rank_of(self, weight: Weight) -> int:
        """The rank of its adapter: twice as much where gate and up have one."""
        return self.rank * (2 if self.sums(weight) and weight.name != "expert down" else 1)

    def adapts(self, weight: Weight) -> bool:
        """Whether a weight is a target."""
        if weight.category == "router":
            linear = self.modules.router or weight.name == "shared gate"
            return linear and weight.is_matrix and self.everywhere
        left_out = {"summed": ("mlp", "shared_experts"), "unreached": ("routed_experts",)}.get(self.modules.experts, ())
        return is_linear(weight) and weight.category not in left_out and self._named(weight)

    def joins(self, weight: Weight) -> bool:
        """Whether the adapter of this weight has no A of its own."""
        if self.sums(weight):
            return weight.name == "expert up"
        named = any(target in self.targets and weight.name in shared for target, shared in JOINED.items())
        return named or any(weight.name in JOINT[one][1:] for one in self.modules.joint)

    def found_in(self, weights: Iterable[Weight]) -> tuple[str, ...]:
        """The targets that are among `weights`."""
        names = {weight.name for weight in weights if is_linear(weight)}
        return tuple(target for target in self.targets if names & set(NAMES[target]))

    def weights(self, weights: Iterable[Weight]) -> tuple[Weight, ...]:
        """A and B of every target among `weights`."""
        found: list[Weight] = []
        for weight in weights:
            if self.adapts(weight):
                inputs, outputs = weight.shape
                rows = weight.name in ROWS
                cut_a = weight.cut if rows or weight.cut == "expert" else "none"
                cut_b = "none" if rows else weight.cut
                rank = self.rank_of(weight)
                if not self.joins(weight):
                    found.append(replace(weight, name=f"{weight.name} A", shape=(inputs, rank), cut=cut_a))
                found.append(replace(weight, name=f"{weight.name} B", shape=(rank, outputs), cut=cut_b))
        return tuple(found)

    def describe(self) -> str:
        """A short description."""
        names = next((word for word, members in GROUPS.items() if set(members) == set(self.targets)), None)
        dropout = f" with dropout of {self.dropout_frac:g}" if self.dropout_frac else ""
        return f"adapters of rank {self.rank} on {names or ', '.join(self.targets)}{dropout}"

    def copies(self, embedding: bool, head: bool, *, vocab: int, hidden: int) -> tuple[Weight, ...]:
        """The tables that are trained whole, of a part of the model with the embedding, with the head; of tied ones
        each is a copy of its own.
        """
        there = {"embedding": embedding, "head": head}
        return tuple(Weight(f"{one} copy", "head", (vocab, hidden), "vocab") for one in self.saved if there[SAVED[one]])


def is_linear(weight: Weight) -> bool:
    """Whether a weight is a linear layer of a block, which adapters may adapt and quantised bases quantise."""
    return weight.is_matrix and weight.category in BLOCKS


@lru_cache(maxsize=64)
def read_adapters(text: str, where: str | None = "--train") -> Adapters:
    """What `lora:r=16,targets=all-linear,dropout=0.05` trains. Raises BadInput, UnknownName."""
    given = dict(part.partition("=")[::2] for part in text.partition(":")[2].split(",") if part)
    if unknown := sorted(set(given) - set(SETTINGS)):
        raise UnknownName("setting of lora", unknown[0], SETTINGS, where)
    rank = given.get("r", "16")
    if not rank.isdigit() or not 1 <= int(rank) <= MOST_RANK:
        raise BadInput(f"r must be a whole number from 1 to {MOST_RANK}, got {rank!r}", where)
    dropout_frac = parse_frac(given.get("dropout", "0"), where)
    if not 0 <= dropout_frac < 1:
        raise BadInput(f"dropout must be at least 0 and below 1, got {given['dropout']!r}", where)
    saved = tuple(dict.fromkeys(given["save"].split("+"))) if "save" in given else ()
    for one in saved:
        if one not in SAVED:
            raise UnknownName("module to save", one, SAVED, where)
    return Adapters(int(rank), _targets(given.get("targets", "all-linear"), where), dropout_frac, saved)


def _targets(text: str, where: str | None) -> tuple[str, ...]:
    """Targets in words joined by `+`: groups, or names with and without `_proj`."""
    found: list[str] = []
    for word in text.split("+"):
        name = word if word in GROUPS or word.endswith("_proj") else f"{word}_proj"
        if name not in GROUPS and name not in NAMES:
            raise UnknownName("target of lora", word, (*GROUPS, *NAMES), where)
        found += [one for one in GROUPS.get(name, (name,)) if one not in found]
    for joined in JOINED:
        twice = [one for one in found if one != joined and set(NAMES[one]) & set(NAMES[joined])]
        if joined in found and twice:
            raise BadInput(f"{joined} covers {', '.join(twice)}; name one of them", where)
    return tuple(found)
