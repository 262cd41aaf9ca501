"""`Adapters`: what low-rank adaptation trains instead of a model's own weights, which stay frozen.

    y = x W + (x A) B        W: in x out, frozen;  A: in x r and B: r x out, trained

for every matrix W that is a target: r (in + out) parameters each. Tensor parallelism cuts B like the columns of W, or A
like its rows (attention out, down). No gradient of W is computed; that of x passes through both products. Where
queries, keys and values, or gate and up, are made in one product, one adapter adapts them: one A, B as wide as all.

Which matrices are linear layers depends on the class of the model (`modules.py`). Where all experts' matrices are one
parameter, PEFT uses y = x (W + A B): gate and up have one A and B of rank 2 r, and the sum waits for the backward pass.
So it does for experts that are named as parameters (`target_parameters`), of rank r. Other methods are in `methods.py`.

Source: Hu et al. 2021 (arXiv 2106.09685), section 4; targets by name as in Hugging Face's PEFT (`target_modules`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.saved import FP32_B
from lockstep.describe.workload.methods import LORA, Method
from lockstep.describe.workload.modules import JOINT, SEPARATE, Modules, modules_of
from lockstep.describe.workload.stored import DELTA, parted_weights
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
    "in_proj": ("recurrent in", "recurrent in shared", *DELTA),
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
MEGATRON = {
    "linear_qkv": "qkv_proj",
    "linear_proj": "o_proj",
    "linear_fc1": "gate_up_proj",
    "linear_fc2": "down_proj",
}
"""Targets as Megatron Core calls its linear layers, which are joint, and their names here."""
ROWS = ("attention out", "cross attention out", "down", "shared down", "recurrent out", "recurrent steps")
"""Weights whose rows tensor parallelism cuts."""
SUMMED = ("expert gate", "expert up", "expert down")
"""Matrices of all experts of a layer, where they are parts of one parameter."""
PARAMETERS = {"gate_up_proj": ("expert gate", "expert up"), "down_proj": ("expert down",)}
"""Parameters of a layer's experts that LoRA may be put on by name (`target_parameters`), and the weights in them."""
INDEX_B = 8.0
"""Bytes of an index into a matrix."""
CONV1D = ("gpt2",)
"""Types whose linear layers are transformers' Conv1D."""
NAMED_OTHERWISE = ("dbrx",)
"""Types whose experts' parameters have other names and two dimensions."""
BLOCKS = ("attention", "recurrent", "mlp", "routed_experts", "shared_experts")
"""Categories of weights that are linear layers of a block."""
SAVED = {"embed_tokens": "embedding", "lm_head": "head"}
"""Modules that may be trained whole beside adapters, by the part of the model that each is."""


@dataclass(frozen=True, slots=True)
class Adapters:
    """Adapters of one method and rank on some of a layer's matrices."""

    rank: int
    targets: tuple[str, ...]
    """Keys of NAMES."""
    dropout_frac: float = 0.0
    """Share of their inputs that a dropout before A sets to zero; its output and mask wait for the backward pass."""
    saved: tuple[str, ...] = ()
    """Of SAVED, what is trained whole: a copy beside the frozen one, in its format (PEFT's modules_to_save)."""
    modules: Modules = SEPARATE
    """What they find in the model; without one, a linear layer for every matrix."""
    method: Method = LORA
    parameters: tuple[str, ...] = ()
    """Keys of PARAMETERS."""

    def of(self, model_type: str, release: int = 5) -> Adapters:
        """These adapters as PEFT puts them on a model of a type, in the class of a release of transformers. Raises
        BadInput where PEFT refuses to.
        """
        found = modules_of(model_type, release)
        if self.parameters and (found.experts == "apart" or model_type in NAMED_OTHERWISE):
            raise BadInput(f"experts of {model_type or 'this model'} have no {' or '.join(self.parameters)}", "--train")
        if self.method.name == "oft" and model_type in CONV1D:
            raise BadInput(f"peft puts no OFT on the Conv1D of {model_type}, which are no linear layers", "--train")
        if self.method.name != "lora":
            # PEFT brings the targets of LoRA alone to experts that are one parameter.
            return replace(self, modules=found.of_linear_layers)
        summed = found.experts == "summed" and any({*NAMES[one]} & {*SUMMED} for one in self.targets)
        if summed and (self.method.dora or self.method.pissa):
            why = f"peft cannot put {self.method.title} on experts that are one parameter, as {model_type}'s"
            raise BadInput(f"{why}; name targets without gate, up and down, such as attention", "--train")
        return replace(self, modules=found)

    @property
    def everywhere(self) -> bool:
        """Whether they are on all linear layers."""
        return set(GROUPS["all-linear"]) <= set(self.targets)

    @property
    def above_narrow(self) -> bool:
        """Whether they are priced beside matrices of a quantised base."""
        return self.method.tokens > 0 or (self.method.plain and not self.parameters)

    def sums(self, weight: Weight) -> bool:
        """Whether the adapter of this weight is added to it, for all experts in one."""
        if any(weight.name in PARAMETERS[one] for one in self.parameters):
            return True
        return self.modules.experts == "summed" and weight.name in SUMMED and self._named(weight)

    def _named(self, weight: Weight) -> bool:
        return any(weight.name in NAMES[target] for target in self.targets)

    def rank_of(self, weight: Weight) -> int:
        """The rank of its adapter: twice as much where gate and up have one because both are targets."""
        if self.sums(weight):
            return self.rank * (2 if self._named(weight) and weight.name != "expert down" else 1)
        joint = any(weight.name in JOINT[one] for one in self.modules.joint)
        joint = joint or any(weight.name in NAMES[one] for one in JOINED if one in self.targets)
        return self.method.rank_on(weight, self.rank, joint)

    def adapts(self, weight: Weight) -> bool:
        """Whether a weight is a target."""
        if self.sums(weight):
            return True
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
        joint = any(weight.name in JOINT[one][1:] for one in self.modules.joint)
        return named or joint or weight.name == "recurrent in shared"

    def found_in(self, weights: Iterable[Weight]) -> tuple[str, ...]:
        """The targets that are among `weights`."""
        names = {weight.name for weight in weights if is_linear(weight)}
        return tuple(target for target in self.targets if names & set(NAMES[target]))

    def weights(self, weights: Iterable[Weight]) -> tuple[Weight, ...]:
        """What is trained beside every target among `weights`."""
        found: list[Weight] = []
        for weight in parted_weights(weights, self.modules):
            if self.adapts(weight):
                rows, rank, own = weight.name in ROWS, self.rank_of(weight), not self.joins(weight)
                if self.method.name == "lora":
                    found += self._pair(weight, rank, own, rows)
                found += self.method.beside(weight, rank, own, rows)
        return tuple(found)

    def _pair(self, weight: Weight, rank: int, own: bool, rows: bool) -> Iterator[Weight]:
        """A, where the weight has one of its own, and B."""
        inputs, outputs = weight.shape
        if own:
            cut = weight.cut if rows or weight.cut == "expert" else "none"
            yield replace(weight, name=f"{weight.name} A", shape=(inputs, rank), cut=cut)
        yield replace(weight, name=f"{weight.name} B", shape=(rank, outputs), cut="none" if rows else weight.cut)

    def products(self, weights: Iterable[Weight]) -> int:
        """Multiply-accumulates of a token in products beside `weights`; in those added to a matrix it has none more."""
        weights = parted_weights(weights, self.modules)
        each = (one for one in weights if self.adapts(one) and not self.sums(one))
        return sum(self.method.products(one, self.rank_of(one), not self.joins(one)) for one in each)

    def prompt(self, hidden: int, stacks: int = 1) -> tuple[Weight, ...]:
        """The rows of prompt tuning: as many for each of a model's stacks, an encoder and a decoder being two."""
        rows = self.method.tokens * stacks
        return (Weight("prompt", "embedding", (rows, hidden)),) if rows else ()

    def buffers_B(self, weights: Iterable[Weight]) -> float:
        """Bytes that are held besides among all `weights` of a model: of VeRA the frozen A and B in fp32, as wide as
        the widest linear layers, of OFT a row and a column of eight bytes for each angle of every one.
        """
        if self.method.name == "oft":
            weights = parted_weights(weights, self.modules)
            blocks = (self.method.block_on(one.shape[0]) for one in weights if self.adapts(one) and not self.joins(one))
            return sum(INDEX_B * block * (block - 1) for block in blocks)
        return FP32_B * self._shared_elems(weights) if self.method.name == "vera" else 0.0

    def _shared_elems(self, weights: Iterable[Weight]) -> int:
        """Elements of VeRA's frozen A and B."""
        wide, widest = [0], [0]
        for weight in filter(self.adapts, parted_weights(weights, self.modules)):
            if not self.joins(weight):
                wide.append(0)
            wide[-1] += weight.shape[1]
            widest.append(weight.shape[0])
        return self.rank * (max(wide) + max(widest))

    def describe(self) -> str:
        """A short description."""
        method = self.method
        if method.tokens:
            return f"{method.tokens:,} rows of prompt tuning before each sequence"
        names = next((word for word, members in GROUPS.items() if set(members) == set(self.targets)), None)
        where = " and ".join(
            filter(None, (names or ", ".join(self.targets), *(f"experts.{one}" for one in self.parameters)))
        )
        dropout = f" with dropout of {self.dropout_frac:g}" if self.dropout_frac else ""
        kind = f"{method.title} " if method.title != "LoRA" else ""
        size = "" if method.name == "ia3" else f" of rank {self.rank}"
        if method.name == "oft":
            size = f" in {method.blocks} blocks" if method.blocks else f" in blocks of {method.block}"
        return f"{kind}adapters{size} on {where}{dropout}"

    def copies(self, embedding: bool, head: bool, *, vocab: int, hidden: int) -> tuple[Weight, ...]:
        """The tables that are trained whole, of a part of the model with the embedding, with the head; of tied ones
        each is a copy of its own.
        """
        there = {"embedding": embedding, "head": head}
        return tuple(Weight(f"{one} copy", "head", (vocab, hidden), "vocab") for one in self.saved if there[SAVED[one]])


def is_linear(weight: Weight) -> bool:
    """Whether a weight is a linear layer of a block, which adapters may adapt and quantised bases quantise."""
    return weight.is_matrix and weight.category in BLOCKS
