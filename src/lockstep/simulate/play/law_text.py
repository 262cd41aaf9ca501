"""Laws from text, as on the command line: `lognormal:mean=50ms,cv=0.2`.

    constant:value=1s
    normal:mean=50ms,cv=0.2         (or std=10ms; lognormal alike)
    exponential:mean=50ms
    uniform:low=40ms,high=60ms
    pareto:mean=50ms,shape=2.5      (or minimum=30ms)
    trace:times.csv                 (column `time_s`, or the first one; drawn with replacement)

Where a law is used as a factor, its "times" are plain numbers: `lognormal:mean=1,cv=0.2`.
"""

from __future__ import annotations

from collections.abc import Callable

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.units import parse_number, parse_time_s
from lockstep.simulate.play.law import Constant, Empirical, Exponential, Law, LogNormal, Normal, Pareto, Uniform, sized

# name -> (required keys, one key of which exactly one is required, maker)
Maker = Callable[[dict[str, float]], Law]
LAWS: dict[str, tuple[tuple[str, ...], tuple[str, ...], Maker]] = {
    "constant": (("value",), (), lambda p: Constant(p["value"])),
    "normal": (
        ("mean",),
        ("cv", "std"),
        lambda p: Normal(p["mean"], p["std"] if "std" in p else p["cv"] * p["mean"]),
    ),
    "lognormal": (
        ("mean",),
        ("cv", "std"),
        lambda p: LogNormal(p["mean"], p["cv"] if "cv" in p else p["std"] / p["mean"]),
    ),
    "exponential": (("mean",), (), lambda p: Exponential(p["mean"])),
    "uniform": (("low", "high"), (), lambda p: Uniform(p["low"], p["high"])),
    "pareto": (("shape",), ("mean", "minimum"), lambda p: Pareto(_pareto_minimum(p), p["shape"])),
}
PURE_NUMBERS = ("cv", "shape")
MAX_CV = 1e6
LEAST_SHAPE = 0.2
"""Of a Pareto law: times drawn with smaller ones leave the range of floats."""


def parse_law(text: str, where: str | None = None) -> Law:
    """The law behind text such as `lognormal:mean=50ms,cv=0.2`."""
    name, _, rest = text.partition(":")
    name = name.strip().lower()
    if name == "trace":
        return Empirical.read(rest.strip())
    if name not in LAWS:
        raise UnknownName("law", name, (*LAWS, "trace"), where)
    required, either, make = LAWS[name]
    choices = [(*required, one) for one in either] or [required]
    example = " or ".join(f"{name}:" + ",".join(f"{key}=..." for key in keys) for keys in choices)
    given: dict[str, float] = {}
    for part in filter(None, (piece.strip() for piece in rest.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or key not in (*required, *either) or key in given:
            raise BadInput(f"{part!r} does not belong in the law {name}; write {example}", where)
        try:
            given[key] = sized(parse_number(value) if key in PURE_NUMBERS else parse_time_s(value), None)
        except BadInput as error:
            raise BadInput(f"{key}: {error.message}", where) from None
    if any(key not in given for key in required) or (either and sum(key in given for key in either) != 1):
        one_of = f" and one of {', '.join(either)}" if either else ""
        raise BadInput(
            f"the law {name} needs {', '.join(required)}{one_of}, got {rest.strip()!r}; write {example}", where
        )
    _check_parameters(name, given, where)
    return make(given)


def _check_parameters(name: str, given: dict[str, float], where: str | None) -> None:
    if name == "uniform" and given["low"] > given["high"]:
        raise BadInput(f"uniform needs low <= high, got {given['low']} > {given['high']}", where)
    for key in ("mean", "minimum", "shape"):
        if key in given and not given[key] > 0:
            raise BadInput(f"the law {name} needs {key} > 0, got {given[key]}", where)
    if given.get("cv", 0.0) > MAX_CV or given.get("std", 0.0) > MAX_CV * given.get("mean", 1.0):
        raise BadInput(f"the standard deviation exceeds {MAX_CV:g} times the mean; give a smaller cv or std", where)
    if name == "pareto" and given["shape"] < LEAST_SHAPE:
        raise BadInput(f"a Pareto law needs a shape of at least {LEAST_SHAPE}, got {given['shape']:g}", where)
    if name == "pareto" and "mean" in given and given["shape"] <= 1:
        raise BadInput(f"a Pareto law with shape {given['shape']} <= 1 has no mean; give minimum instead", where)


def _pareto_minimum(given: dict[str, float]) -> float:
    return given["minimum"] if "minimum" in given else given["mean"] * (given["shape"] - 1) / given["shape"]
