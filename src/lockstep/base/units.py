"""Text with units in, SI floats out, and back. The only place where units are converted.

`parse_size_B("80 GiB") == 80 * 2**30`, `parse_bandwidth_Bps("400 Gbit/s") == 50e9`, `parse_time_s("10 us") == 1e-5`.
A number without a unit is taken as SI; where hardware is described, one that can hardly be meant so is refused
(`Plausible`). A unit of the wrong kind is `BadInput`: sizes never turn into counts, nor
bits into bytes, silently. Prefixes: k M G T P E are powers of 1000 (K is accepted for k), Ki Mi Gi Ti Pi of 1024.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal

from lockstep.base.errors import BadInput, shown
from lockstep.base.records import dataclass

DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21}
BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
SECONDS = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0,
    "min": 60.0, "minute": 60.0, "minutes": 60.0, "h": 3600.0, "hr": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0, "week": 604800.0, "weeks": 604800.0, "y": 31557600.0,
    "year": 31557600.0, "years": 31557600.0,
}  # fmt: skip
SECONDS_PER_DAY = SECONDS["d"]
RISK_FRAC = 0.01
"""The least risk that is said, and the least chance that it leaves."""
SAME_FRAC = 1e-4
"""Predicted times less than this share apart are the same to a reader: no step is measured that exactly."""

NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s].*?)?\s*", re.DOTALL)


def _scaled(bases: Mapping[str, float], binary: bool = True) -> dict[str, float]:
    """Every prefix times every base unit."""
    prefixes = {**DECIMAL, **BINARY} if binary else DECIMAL
    return {prefix + base: factor * unit for base, unit in bases.items() for prefix, factor in prefixes.items()}


BYTES = _scaled({"B": 1.0, "byte": 1.0, "bytes": 1.0, "b": 0.125, "bit": 0.125, "bits": 0.125})
SIZE = {"": 1.0, **BYTES}
BANDWIDTH = {
    "": 1.0,
    **{unit + per: factor for unit, factor in BYTES.items() for per in ("/s", "ps")},
}
TIME = {"": 1.0, **SECONDS}
PURE = {"": 1.0}
SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
COUNT = DECIMAL | BINARY | SCALES | {"B": 1e9, "b": 1e9, "m": 1e6, "t": 1e12}
LENGTH = COUNT | {prefix: BINARY[prefix.upper() + "i"] for prefix in ("k", "K", "m", "M")}
"""Of a sequence: 8k is 8,192 tokens and 1M is 1,048,576, as the names of models count."""
FLOPS = {
    **DECIMAL,
    **_scaled({"FLOP/s": 1.0, "FLOPS": 1.0, "flop/s": 1.0, "flops": 1.0, "FLOPs": 1.0}, binary=False),
}
POWER = {"": 1.0, **_scaled({"W": 1.0}, binary=False)}
MONEY = {"": 1.0, "$": 1.0, "USD": 1.0, "usd": 1.0, "$/h": 1.0, "USD/h": 1.0}
FRACTION = {"": 1.0, "%": 0.01}


def _parse(value: object, units: Mapping[str, float], kind: str, example: str, where: str | None) -> float:
    """The SI number behind `value`; raises BadInput for text, units or numbers that are not allowed."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise BadInput(f"expected a {kind} such as {example}, got {shown(value)}", where)
    if isinstance(value, str):
        if "," in value:
            raise BadInput(f"takes one {kind}, such as {example}, not a list; got {shown(value)}", where)
        match = NUMBER.fullmatch(value)
        if match is None:
            raise BadInput(f"{shown(value)} is not a {kind}; write it like {example}", where)
        digits, unit = match[1].replace("_", ""), (match[2] or "").strip()
        if unit not in units:
            raise BadInput(f"{shown(unit)} is not a unit of {kind}; write it like {example}", where)
        result = _exact_product(digits, units[unit])
    else:
        try:
            result = float(value)
        except OverflowError:
            raise BadInput(f"{kind} is too large", where) from None
    if not math.isfinite(result):
        raise BadInput(f"a {kind} must be finite, got {shown(value)}", where)
    return result


def _exact_product(digits: str, factor: float) -> float:
    """`digits` times `factor`, rounded once: `10 us` is the float 1e-5, not 9.999999999999999e-06."""
    number = float(digits)
    if not math.isfinite(number) or number == 0:
        return number
    return float(Decimal(digits) * Decimal(repr(factor)))


def _non_negative(number: float, kind: str, where: str | None) -> float:
    if number < 0:
        raise BadInput(f"a {kind} cannot be negative, got {number:g}", where)
    return number


@dataclass(frozen=True, slots=True)
class Plausible:
    """Between which values, in SI units, a quantity may be a plain number, and the units that it is else meant in."""

    least: float
    below: float
    readings: tuple[str, ...]

    def check(self, value: object, where: str | None = None) -> None:
        """Refuses a number without a unit that is too far off to be meant in SI units. Raises BadInput."""
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return
        try:
            number = float(value)
        except (ValueError, OverflowError):
            return
        if 0 < number < math.inf and not self.least <= number < self.below:
            meant = " or ".join(f"{value} {unit}" for unit in self.readings)
            raise BadInput(f"{value} has no unit; write {meant}", where)


PLAIN_LATENCY = Plausible(0.0, 1.0, ("us", "s"))
"""A message that takes a second or more is meant in microseconds, unless it says otherwise."""
PLAIN_BANDWIDTH = Plausible(1e6, math.inf, ("GB/s", "Gbit/s"))
PLAIN_SIZE = Plausible(1e6, math.inf, ("GB", "GiB"))
PLAIN_FLOPS = Plausible(1e9, math.inf, ("TFLOP/s", "PFLOP/s"))
PLAIN_MTBF = Plausible(3600.0, math.inf, ("years", "days"))
"""Of hardware: links below 1 MB/s, memories below 1 MB, devices below 1 GFLOP/s or that last no hour do not exist."""


def parse_size_B(value: object, where: str | None = None) -> float:
    """Bytes from `80 GB`, `1GiB`, `512 Mbit` or a plain number of bytes."""
    return _non_negative(_parse(value, SIZE, "size", "100MB or 1GiB", where), "size", where)


def parse_time_s(value: object, where: str | None = None) -> float:
    """Seconds from `10us`, `5 min`, `30d` or a plain number of seconds."""
    return _non_negative(_parse(value, TIME, "time", "10us or 2h", where), "time", where)


def parse_bandwidth_Bps(value: object, where: str | None = None) -> float:
    """Bytes per second from `25GB/s`, `400 Gbit/s`, `100Gbps` or a plain number of bytes per second."""
    return _non_negative(_parse(value, BANDWIDTH, "bandwidth", "25GB/s or 400Gbit/s", where), "bandwidth", where)


def parse_count(value: object, where: str | None = None) -> float:
    """A count from `4M`, `8Ki` (8,192), `15T`, `70B` (billions) or a plain number."""
    return _non_negative(_parse(value, COUNT, "count", "2048, 4M or 15T", where), "count", where)


def parse_number(value: object, where: str | None = None) -> float:
    """A plain number without a unit, not negative: a factor, an exponent, a coefficient of variation."""
    number = _parse(value, PURE, "number", "0.5 or 2", where)
    if number < 0:
        raise BadInput(f"must not be negative, got {number:g}", where)
    return number


def list_parts(text: str, where: str | None = None) -> list[str]:
    """What stands between commas, without spaces around it. Raises BadInput where nothing does."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise BadInput(f"a value is missing before, after or between commas in {shown(text)}", where)
    return parts


def parse_integer(value: object, where: str | None = None, minimum: int = 1, units: Mapping[str, float] = COUNT) -> int:
    """A whole number of at least `minimum` from `2048`, `4M` or a plain number."""
    number = _non_negative(_parse(value, units, "count", "2048, 4M or 15T", where), "count", where)
    if number != int(number):
        raise BadInput(f"expected a whole number, got {shown(value)}", where)
    if number < minimum:
        raise BadInput(f"must be at least {minimum}, got {shown(value)}", where)
    if number > 2**63 - 1:
        raise BadInput(f"{shown(value)} is too large", where)
    return int(number)


def parse_flops(value: object, where: str | None = None) -> float:
    """FLOP per second from `989.4 TFLOP/s` or a plain number."""
    return _non_negative(_parse(value, FLOPS, "FLOP rate", "312 TFLOP/s", where), "FLOP rate", where)


def parse_power_W(value: object, where: str | None = None) -> float:
    """Watts from `700 W`, `10 MW` or a plain number."""
    return _non_negative(_parse(value, POWER, "power", "700 W", where), "power", where)


def parse_money_usd(value: object, where: str | None = None) -> float:
    """US dollars (or dollars per hour, as the name of the field says) from `2.5`, `2.5 $/h` or `2.5 USD`."""
    return _non_negative(_parse(value, MONEY, "price in dollars", "2.5 or 2.5 USD", where), "price", where)


def parse_frac(value: object, where: str | None = None) -> float:
    """A fraction from `0.85` or `85%`."""
    return _non_negative(_parse(value, FRACTION, "fraction", "0.85 or 85%", where), "fraction", where)


LARGEST, MOST_DECIMALS = 1e7, 12
"""Beyond these nobody counts the digits."""


def _format(number: float, steps: tuple[tuple[float, str], ...], digits: int) -> str:
    """`number` in the largest step not above it, with `digits` significant digits.

    It has no exponent, unless it lies LARGEST above the largest step or MOST_DECIMALS below the smallest.
    """
    if not math.isfinite(number):
        return "unknown"
    if number == 0:
        return f"0 {steps[-1][1]}".strip()
    factor, name = next((step for step in steps if abs(number) >= step[0] * STEP_FROM), steps[-1])
    scaled = number / factor
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(scaled)))) if scaled else 0
    if abs(scaled) >= LARGEST or decimals > MOST_DECIMALS:
        return f"{scaled:.{digits}g} {name}".strip()
    text = f"{scaled:.{decimals}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text} {name}".strip()


_DECIMAL_STEPS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_BINARY_STEPS = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
SIZE_STEPS = tuple((factor, factor, name) for factor, name in _BINARY_STEPS)
TIME_STEPS = (
    (2 * 86400.0, 86400.0, "d"), (2 * 3600.0, 3600.0, "h"), (120.0, 60.0, "min"), (1.0, 1.0, "s"), (1e-3, 1e-3, "ms"),
    (1e-6, 1e-6, "us"), (1e-9, 1e-9, "ns"),
)  # fmt: skip
"""From which number on a unit is used, its size, its name; the largest first."""
STEP_FROM = 0.9995
"""A number that rounds to the next unit is written in it."""


def format_size(size_B: float, digits: int = 3) -> str:
    """`75.3 GiB`: bytes in binary prefixes."""
    return _format(size_B, _BINARY_STEPS, digits)


def format_time(time_s: float, digits: int = 3) -> str:
    """`12.4 ms`, `3.1 h`, `45 d`: seconds in the unit a person would say."""
    if not math.isfinite(time_s) or time_s == 0:
        return _format(time_s, ((1.0, "s"),), digits)
    steps = ((factor, name) for above, factor, name in TIME_STEPS if abs(time_s) >= above * STEP_FROM)
    return _format(time_s, (next(steps, TIME_STEPS[-1][1:]),), digits)


def format_bandwidth(bandwidth_Bps: float, digits: int = 3) -> str:
    """`25 GB/s`: bytes per second in decimal prefixes."""
    return _format(bandwidth_Bps, tuple((f, p + "B/s") for f, p in _DECIMAL_STEPS), digits)


def format_count(number: float, digits: int = 3) -> str:
    """`70.6B`, `4.19M`, `512`: counts as the field writes them, billions as B."""
    steps = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e4, "k"), (1.0, ""))
    names = tuple((1e3 if name == "k" else factor, name) for factor, name in steps)
    if abs(number) < 1e4:
        names = names[-1:]
    return _format(number, names, max(digits, 4) if abs(number) < 1e4 else digits).replace(" ", "")


def format_flops(flops: float, digits: int = 3) -> str:
    """`989 TFLOP/s`: rates in decimal prefixes."""
    return _format(flops, tuple((f, p + "FLOP/s") for f, p in _DECIMAL_STEPS), digits)


def format_frac(fraction: float, digits: int = 3) -> str:
    """`43.1 %`: a fraction as a percentage."""
    return _format(fraction * 100.0, ((1.0, "%"),), digits)


def format_risk(frac: float) -> str:
    """`4 %`, `less than 1 %` or `more than 99 %`: a probability of which no more is known."""
    said = format_frac(min(max(frac, RISK_FRAC), 1 - RISK_FRAC), 2)
    return f"less than {said}" if frac <= RISK_FRAC else f"more than {said}" if frac >= 1 - RISK_FRAC else said


def format_slower(frac: float) -> str:
    """`2.3 % slower than`, `2.3 % faster than`, or `as fast as` where less than SAME_FRAC lies between two times."""
    if abs(frac) < SAME_FRAC:
        return "as fast as"
    return f"{format_frac(abs(frac), 2)} {'slower' if frac > 0 else 'faster'} than"


def format_apart(number: float, other: float, digits: int = 4) -> tuple[str, str]:
    """Two numbers, each rounded by at most a tenth of what lies between them: `0.999993` and `0.999999`."""
    told = f"{number:.{digits}g}", f"{other:.{digits}g}"
    for places in range(digits, 18):
        told = f"{number:.{places}g}", f"{other:.{places}g}"
        if max(abs(float(told[0]) - number), abs(float(told[1]) - other)) <= abs(number - other) / 10:
            break
    return told


def format_money(amount_usd: float, digits: int = 3) -> str:
    """`$2.21M`, `$640`: dollars."""
    return "$" + format_count(amount_usd, digits)
