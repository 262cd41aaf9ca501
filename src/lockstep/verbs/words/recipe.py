"""Options of the recipe, as on the command line, and the `Recipe` that they describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.errors import BadInput, located
from lockstep.types.plain import Json
from lockstep.units import parse_count, parse_frac
from lockstep.verbs.words.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockstep.hardware import Cluster
    from lockstep.layout import Recipe

MOST_B = 8.0
"""Bytes of the widest number, fp64."""


def read_recipe(
    machine: Cluster, words: Mapping[str, Any], *, seq: int, batch: int, notes: tuple[str, ...] = ()
) -> Recipe:
    """The recipe in words; what is not given keeps the default of `Recipe`. Raises BadInput."""
    from lockstep.layout import Recipe

    given = {name: value for name, value in words.items() if value is not None}
    fields: Json = {
        field: read(given[name], f"--{name.replace('_', '-')}") for name, field, read in _READ if name in given
    }
    return Recipe(seq=seq, batch=batch, dtype=_dtype(machine, given.get("dtype")), notes=notes, **fields)


def is_usual(word: str, value: object) -> bool:
    """Whether `word` is a switch at its default, as the command line passes it on."""
    from lockstep.layout import Recipe

    defaults = {name: Recipe.__dataclass_fields__[field].default for name, field, _ in _READ}
    return isinstance(value, bool) and value is defaults.get(word)


def _dtype(machine: Cluster, dtype: str | None) -> str:
    """The format asked for if the device computes in it; bf16 where there is bf16, else fp16 (V100)."""
    if dtype is None:
        return "bf16" if "bf16" in machine.device.peak_flops else "fp16"
    with located("--dtype"):
        machine.device.peak(dtype)
    return dtype


def _as_given(value: object, where: str) -> Any:
    return value


def _gradient_B(value: Quantity, where: str) -> float:
    """Bytes per accumulated gradient."""
    size_B = parse_count(value, where)
    if size_B not in (2.0, 4.0):
        raise BadInput(f"gradients are kept in 4 bytes (Megatron) or 2, got {value}", where)
    return size_B


def _number_B(value: Quantity, where: str) -> float:
    """Bytes of one number, its share of a scale included."""
    size_B = parse_count(value, where)
    if not 0 < size_B <= MOST_B:
        raise BadInput(f"must be above 0 and at most {MOST_B:g} bytes per number, got {value}", where)
    return size_B


def _device_frac(value: Quantity, where: str) -> float:
    frac = parse_frac(value, where)
    if not frac < 1:
        raise BadInput(f"must be below 1: some of the device must keep computing, got {frac:g}", where)
    return frac


def _modules(value: str, where: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in value.split(","))


_READ = (
    ("optimizer", "optimizer", _as_given),
    ("parameter_bytes", "parameter_B", _number_B),
    ("gradient_bytes", "gradient_B", _gradient_B),
    ("reduce_bytes", "reduce_B", _number_B),
    ("flash", "flash_attention", _as_given),
    ("dropout", "dropout", _as_given),
    ("fused_elementwise", "fused_elementwise", _as_given),
    ("fused_accumulation", "fused_accumulation", _as_given),
    ("overlap", "overlap_dp", _as_given),
    ("overlap_tp", "overlap_tp", _as_given),
    ("overlap_pp", "overlap_pp", _as_given),
    ("overlap_ep", "overlap_ep", _as_given),
    ("overlap_device", "overlap_device_frac", _device_frac),
    ("dispatch_bytes", "dispatch_B", _number_B),
    ("cached_bytes", "cached_B", _number_B),
    ("cached_attention_bytes", "cached_attention_B", _number_B),
    ("recompute_modules", "recompute_modules", _modules),
)
"""(word, field of Recipe, how it is read)."""
