"""Compressors, one file each: a payload instead of a vector, the same for numpy arrays and torch tensors."""

from dataclasses import fields
from typing import Any

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.types.plain import Json
from lockstep.learn.methods.compression.compressor import Compressor, Payload, State
from lockstep.learn.methods.compression.error_feedback import ErrorFeedback, residual_bound
from lockstep.learn.methods.compression.exchange import Exchange, combine, exchange, mean_payload
from lockstep.learn.methods.compression.half import Half
from lockstep.learn.methods.compression.none import NoCompression
from lockstep.learn.methods.compression.one_bit import OneBit
from lockstep.learn.methods.compression.power_sgd import PowerSgd
from lockstep.learn.methods.compression.qsgd import Qsgd
from lockstep.learn.methods.compression.random_k import RandomK, SharedRandomK
from lockstep.learn.methods.compression.sign import Sign
from lockstep.learn.methods.compression.threshold import Threshold
from lockstep.learn.methods.compression.top_k import TopK
from lockstep.learn.methods.compression.uniform import Uniform

COMPRESSORS: Json = {
    one.name: one
    for one in (NoCompression, Half, Uniform, Qsgd, Sign, OneBit, TopK, RandomK, SharedRandomK, Threshold, PowerSgd)
}


def compressor(name: str, *, error_feedback: bool = False, **settings: Any) -> Compressor:
    """The compressor of that name with its settings, with memory if asked.

    Raises: BadInput for a setting it does not have or allow, UnknownName for a name nobody has.
    """
    if name not in COMPRESSORS:
        raise UnknownName("compressor", name, COMPRESSORS)
    kind = COMPRESSORS[name]
    known = [field.name for field in fields(kind)]
    unknown = set(settings) - set(known)
    if unknown:
        allowed = ", ".join(known) or "no settings"
        raise BadInput(f"{name} has no {', '.join(sorted(unknown))}; it has {allowed}")
    made: Compressor = kind(**settings)
    return ErrorFeedback(made) if error_feedback else made


__all__ = [
    "COMPRESSORS",
    "Compressor",
    "ErrorFeedback",
    "Exchange",
    "Half",
    "NoCompression",
    "OneBit",
    "Payload",
    "PowerSgd",
    "Qsgd",
    "RandomK",
    "SharedRandomK",
    "Sign",
    "State",
    "Threshold",
    "TopK",
    "Uniform",
    "combine",
    "compressor",
    "exchange",
    "mean_payload",
    "residual_bound",
]
