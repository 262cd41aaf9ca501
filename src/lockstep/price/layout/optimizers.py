"""Optimizers: bytes of state by name, for a parameter or for a whole tensor of given role and shape.

    suffix        parameters                        states
    (none)        fp32, or half with an fp32 copy   of that width
    -no-master    half, updated in place            fp32, or narrower where the name says so
    -bf16         bf16, updated in place            bf16 where the library takes the parameters' format, as torch does

Counters of steps (4 B a tensor at most) are left out. Read in the source of, and compared with runs of, torch
2.13.0, transformers 5.24.0, bitsandbytes 0.50.2, torchao 0.18.0, galore-torch 1.0, schedulefree 1.4.1, lion-pytorch
0.2.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked
from lockstep.describe.workload import Weight

Rule = Callable[[Weight], float]
"""Bytes of states, without a master copy, of one tensor."""
TABLES = ("embedding", "positions")
"""Categories of what is looked up."""
LEAST_NARROW = 4096
"""Elements of the smallest tensor whose states bitsandbytes and torchao keep in eight bits."""
SOAP_SIDE = 10_000
"""Longest side that SOAP preconditions (max_precondition_dim)."""
MOST_SETTING = 65_536
"""Largest rank or block."""
TYPICAL = (4096, 4096)
"""Shape of the matrix whose bytes per parameter sentences and times have."""


@dataclass(frozen=True, slots=True)
class Optimizer:
    """Bytes of state per parameter, in addition to the working parameter and its gradient.

    Matrix parameters and the rest (embeddings, norms, biases) may differ, as in Muon; where `tensor_B` is given, it has
    the bytes of each tensor and these are typical. `master_B` is the fp32 copy of a half-precision parameter that the
    update is applied to.
    """

    name: str
    master_B: float
    matrix_states_B: float
    other_states_B: float
    matmul_flops_factor: float = 0.0
    """FLOPs of the update per matrix parameter and unit of the matrix's smaller side (Muon's orthogonalisation)."""
    source: str = ""
    passing_B: float = 0.0
    """Bytes per parameter that torch's multi-tensor kernels hold besides during an update: the second moment's root
    (torch/optim/adam.py, _multi_tensor_adam)."""
    alone_B: float = 0.0
    """Bytes per element that the update of a tensor holds besides where tensors have their turns: Adafactor's squared
    gradient and its sum with a constant, of half-precision tensors both of these in fp32 too (transformers 5.24,
    optimization.py)."""
    tensor_B: Rule | None = None
    table_B: float | None = None
    """Bytes per parameter of a table where software keeps its states in fp32 (`Habits.wide_tables`)."""
    shared_B: float = 0.0
    """Bytes that all tensors share: the maps of bitsandbytes' eight bits, of 256 fp32 values each."""
    setting: str = ""
    """Of those made by `of`, the word before the number: r (GaLore's rank), block (elements that share a scale)."""
    of: Callable[[int], Rule] | None = None

    @property
    def matrix_B(self) -> float:
        """State bytes per matrix parameter, the master copy included."""
        return self.master_B + self.matrix_states_B

    @property
    def other_B(self) -> float:
        """State bytes per embedding, norm or bias parameter, the master copy included."""
        return self.master_B + self.other_states_B

    def each_B(self, weight: Weight, wide: bool) -> float:
        """State bytes per parameter of a tensor, a master copy apart; `wide` says whether tables have fp32 states."""
        if wide and self.table_B is not None and weight.category in TABLES and len(weight.shape) == 2:
            return self.table_B
        return self.other_states_B if self.tensor_B is None else self.tensor_B(weight) / math.prod(weight.shape)

    def to_dict(self) -> Json:
        """One row of a listing: bytes per parameter, typical ones where tensors differ."""
        return picked(self, "name master_B matrix_states_B other_states_B source") | {"by_tensor": bool(self.tensor_B)}


def _block_wise(moments: int, wide_B: float, bits: int = 8, block: int = 256, map_B: float | None = None) -> Rule:
    """Moments in `bits` with an fp32 scale per block; small tensors take `wide_B` an element. With maps of every
    tensor's own (torchao), tensors that do not divide into blocks stay wide too.
    """

    def tensor_B(weight: Weight) -> float:
        elems = math.prod(weight.shape)
        if elems < LEAST_NARROW or (map_B is not None and elems % block):
            return moments * wide_B * elems
        return moments * (elems * bits / 8 + 4 * -(-elems // block) + (map_B or 0.0))

    return tensor_B


def _factored(width_B: float, more_B: float = 0.0) -> Rule:
    """Sums over the last dimension and over the one before it, or a vector's second moment; `more_B` a tensor."""

    def tensor_B(weight: Weight) -> float:
        *rows, columns = weight.shape
        return more_B + width_B * (math.prod(rows) + math.prod(rows[:-1]) * columns if rows else columns)

    return tensor_B


def _low_rank(width_B: float, rank: int) -> Rule:
    """Two moments of a gradient that is projected along its smaller side, and the projection: rank x side where it is
    converted to half precision, else a view of all singular vectors (galore_projector.py, get_orthogonal_matrix).
    """

    def tensor_B(weight: Weight) -> float:
        if weight.category not in ("attention", "mlp", "shared_experts") or len(weight.shape) != 2:
            return 2 * width_B * math.prod(weight.shape)
        side, other = sorted(weight.shape)
        kept = min(rank, side)
        return width_B * (2 * kept * other + side * (side if width_B == 4 else kept))

    return tensor_B


def _preconditioned(width_B: float) -> Rule:
    """Two moments, and of every side of at most SOAP_SIDE a preconditioner and its eigenvectors; vectors have none."""

    def tensor_B(weight: Weight) -> float:
        sides = [side for side in weight.shape if side <= SOAP_SIDE] if len(weight.shape) > 1 else []
        return 2 * width_B * (math.prod(weight.shape) + sum(side * side for side in sides))

    return tensor_B


def _by_tensor(
    name: str, master_B: float, tensor_B: Rule, source: str, setting: str = "", of: Callable[[int], Rule] | None = None
) -> Optimizer:
    """An optimizer whose states differ by tensor, with the bytes per parameter of a typical matrix and head."""
    matrix_B = tensor_B(Weight("", "mlp", TYPICAL)) / math.prod(TYPICAL)
    head_B = tensor_B(Weight("", "head", TYPICAL)) / math.prod(TYPICAL)
    return Optimizer(name, master_B, matrix_B, head_B, source=source, tensor_B=tensor_B, setting=setting, of=of)


_ADAM = "Kingma and Ba 2015: two fp32 moments; ZeRO (arXiv 1910.02054) section 3.1: 4 B master + 8 B moments"
_BNB = (
    "arXiv 2110.02861 as in bitsandbytes/optim/optimizer.py: one byte a moment, an fp32 scale per 256 elements, fp32 "
    "below 4,096 elements"
)
_AO = "{} in torchao/optim/adam.py: an fp32 scale per {} elements; as wide as parameters where these do not divide"
_FACTORED = "arXiv 1804.04235: row and column sums, below 0.01 B per parameter"
_GALORE = "arXiv 2403.03507 as in galore_torch: rank 128 (galore:r=64: 64) for matrices of attention and dense blocks"
_SOAP = "arXiv 2409.11321 as in pytorch_optimizer: both moments, and two squares of each side of up to 10,000"
_FREE = "arXiv 2405.15682: the averaged-from sequence z and the second moment"


def _uniform() -> Iterator[Optimizer]:
    """Those of which every parameter, or every matrix parameter, has the same states."""
    yield Optimizer("adam", 4.0, 8.0, 8.0, source=_ADAM, passing_B=4.0)
    yield Optimizer("adamw", 4.0, 8.0, 8.0, source=_ADAM, passing_B=4.0)
    in_place = "fp32 moments, half-precision parameters updated in place"
    yield Optimizer("adamw-no-master", 0.0, 8.0, 8.0, source=in_place, passing_B=4.0)
    bf16_moments = "arXiv 2412.19437, section 3.3.3: fp32 master, bf16 moments"
    yield Optimizer("adamw-bf16-moments", 4.0, 4.0, 4.0, source=bf16_moments, passing_B=2.0)
    all_bf16 = "moments and parameters in bf16, no master copy"
    yield Optimizer("adamw-bf16", 0.0, 4.0, 4.0, source=all_bf16, passing_B=2.0)
    yield Optimizer("sgd", 4.0, 0.0, 0.0, source="fp32 master only")
    yield Optimizer("sgd-bf16", 0.0, 0.0, 0.0, source="no states, parameters updated in place")
    yield Optimizer("sgd-momentum", 4.0, 4.0, 4.0, source="fp32 master and fp32 momentum")
    yield Optimizer("sgd-momentum-bf16", 0.0, 2.0, 2.0, source="torch's momentum of half-precision parameters")
    yield Optimizer("lion", 4.0, 4.0, 4.0, source="arXiv 2302.06675: one fp32 momentum")
    yield Optimizer("lion-no-master", 0.0, 4.0, 4.0, source="arXiv 2302.06675, parameters updated in place")
    yield Optimizer("lion-bf16", 0.0, 2.0, 2.0, source="arXiv 2302.06675, momentum and parameters in bf16")
    muon = "Jordan 2024: momentum for matrices, Adam for the rest; Newton-Schulz"
    yield Optimizer("muon", 4.0, 4.0, 8.0, 30.0, muon)
    yield Optimizer("muon-bf16", 0.0, 2.0, 4.0, 30.0, f"{muon}; all in bf16")
    yield Optimizer("schedule-free-adamw", 4.0, 8.0, 8.0, source=_FREE, passing_B=4.0)
    yield Optimizer("schedule-free-adamw-bf16", 0.0, 4.0, 4.0, source=_FREE, passing_B=2.0)


def _in_fp32() -> Iterator[Optimizer]:
    """Those by tensor with the same states beside half-precision parameters as beside fp32 ones."""
    norm = f"{_FACTORED}; a norm of each tensor (transformers/optimization.py, Adafactor)"
    for suffix, master_B in (("", 4.0), ("-no-master", 0.0)):
        for name, moments in (("adamw", 2), ("lion", 1)):
            made = _by_tensor(f"{name}-8bit{suffix}", master_B, _block_wise(moments, 4.0), _BNB)
            yield replace(made, table_B=4.0 * moments, shared_B=1024.0 * moments)
        made = _by_tensor(f"adafactor{suffix}", master_B, _factored(4.0, 4.0), norm)
        yield replace(made, alone_B=8.0 if master_B else 16.0)


def _in_their_format() -> Iterator[Optimizer]:
    """Those by tensor whose wide states have the format of the parameters."""
    for suffix, master_B, own_B in (("", 4.0, 4.0), ("-bf16", 0.0, 2.0)):
        for kind, bits, block, map_B in (("8bit", 8, 256, 1024.0), ("4bit", 4, 128, 64.0), ("fp8", 8, 256, 0.0)):
            of, name = partial(_block_wise, 2, own_B, bits, map_B=map_B), f"adamw-{kind}-torchao{suffix}"
            yield _by_tensor(name, master_B, of(block), _AO.format(kind, block), "block", of)
        yield _by_tensor(f"adafactor-torch{suffix}", master_B, _factored(own_B), _FACTORED)
        of = partial(_low_rank, own_B)
        yield _by_tensor(f"galore{suffix}", master_B, of(128), _GALORE, "r", of)
        yield _by_tensor(f"soap{suffix}", master_B, _preconditioned(own_B), _SOAP)


OPTIMIZERS = {found.name: found for found in (*_uniform(), *_in_fp32(), *_in_their_format())}


@lru_cache(maxsize=64)
def optimizer(name: str, where: str = "--optimizer") -> Optimizer:
    """The optimizer of a name, and of a setting where it has one (galore:r=64). Raises UnknownName, BadInput."""
    word, colon, setting = name.partition(":")
    if word not in OPTIMIZERS:
        raise UnknownName("optimizer", word, tuple(OPTIMIZERS), where)
    found = OPTIMIZERS[word]
    if not colon:
        return found
    said, _, number = setting.partition("=")
    if found.of is None or said != found.setting or not number.isdecimal() or not 0 < int(number) <= MOST_SETTING:
        known = f"it has one, {word}:{found.setting}=64" if found.of else "it has none"
        raise BadInput(f"{setting[:40]!r} is no setting of optimizer {word}: {known}", where)
    return _by_tensor(name, found.master_B, found.of(int(number)), found.source)


@lru_cache(maxsize=64)
def beside_half(name: str) -> Optimizer:
    """The states of `name` where parameters themselves are in half precision and have no master copy."""
    word, colon, setting = name.partition(":")
    names = (f"{word}-bf16", f"{word}-no-master", {"adam": "adamw-bf16", "adamw-bf16-moments": "adamw-bf16"}.get(word))
    return optimizer(next((one for one in names if one in OPTIMIZERS), word) + colon + setting)
