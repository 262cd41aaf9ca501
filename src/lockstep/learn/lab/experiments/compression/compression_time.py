"""Whether compression pays: steps to the target, bytes of a step, seconds of the run, and the break-even bandwidth.

    run = steps (compute + compress + latency + bytes / bandwidth)
    compressed wins below   B* = (I_d V_d - I_c V_c) / (I_c (T + t_c + l_c) - I_d (T + l_d))
    all-gather of a share r of the entries, e bytes each, beats a dense fp32 ring below  n = 8 / (r e) ranks
I: steps, V: bytes on the critical path, l: latency of an exchange, T: compute, t_c: time to compress and back; d
dense, c compressed. V = 2 (n - 1) S / n for what can be reduced, (n - 1) S for what must be gathered. If the upper
difference is not positive compression never pays; if the lower one is not, it always does. Steps are counted on a
small quadratic, bytes on a model of the size given. Refuted beside it: 1000 steps for a condition number of 1000
(2303 with the best step), and 90 % efficiency after compressing 40 of 133 ms ten times (95.9 %).
"""

from __future__ import annotations

import math
import time
from itertools import count

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.plain import Json
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, watched
from lockstep.learn.lab.descent.workers import Reached, best_run
from lockstep.learn.lab.experiment import silent
from lockstep.learn.lab.objectives.workers import rotated_workers
from lockstep.learn.lab.statistics import streams
from lockstep.learn.methods.compression import (
    Compressor,
    ErrorFeedback,
    Half,
    NoCompression,
    OneBit,
    PowerSgd,
    Qsgd,
    RandomK,
    TopK,
    Uniform,
)
from lockstep.simulate.collectives import PlainLink, get

QUESTION = "Does compression pay, given more steps and the time to compress?"
SOURCE = "alpha-beta prices of collectives/; steps simulated"

DETAILS: dict[type, str] = {
    TopK: "keep_frac", RandomK: "keep_frac", Uniform: "bits", Qsgd: "levels", PowerSgd: "rank",
}  # fmt: skip
"""The setting that tells two of a kind apart."""
MEASURED_ELEMS = 1_000_000
MEASURED_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Settings:
    """The problem that counts steps, and the cluster that gives them seconds."""

    elems: int = setting(100, "Dimensions of the quadratic.", least=10, most=1000)
    condition: float = setting(30.0, "Condition number of the quadratic.", least=1, most=1e4)
    target: float = setting(1e-3, "Loss to reach, as a fraction of the initial one.", above=0, below=1)
    lab_ranks: int = setting(4, "Ranks of the run on the quadratic.", least=1, most=32)
    most_steps: int = setting(3000, "Most steps of a run on the quadratic.", least=100, most=100_000)
    parameters: int = setting(100_000_000, "Entries of the gradient that is priced.", least=1000, most=10**13)
    keep_frac: float = setting(0.01, "Share of the entries that the sparsest compressor keeps.", above=0, most=1)
    bits: int = setting(4, "Bits of the coarsest quantizer.", least=2, most=16)
    ranks: int = setting(8, "Ranks of the run that is priced.", least=2, most=100_000)
    compute_s: float = setting(0.1, "Compute time of a step.", above=0, most=1e6)
    latency_s: float = setting(10e-6, "Latency of the link.", least=0, most=10)
    bandwidth_Bps: float = setting(1.25e9, "Bandwidth of the link; the default is 10 Gbit/s.", above=0, most=1e15)
    compress_Bps: float = setting(
        5e9, "Throughput of compression and decompression together, in bytes of gradient.", above=0, most=1e15
    )
    compress_time: str = setting("assumed", "Time to compress: from compress_Bps, or measured on this machine.",
                                 choices=("assumed", "measured"))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Priced:
    """A compressor with its run and what a step of the real one costs."""

    made: Compressor
    run: Reached
    payload_B: float
    critical_B: float
    latency_s: float
    compress_s: float

    def fixed_s(self, settings: Settings) -> float:
        """Seconds of a step that no bandwidth shortens."""
        return settings.compute_s + self.compress_s + self.latency_s

    def step_s(self, settings: Settings, bandwidth_Bps: float) -> float:
        """Seconds of a step at that bandwidth."""
        return self.fixed_s(settings) + self.critical_B / bandwidth_Bps

    def here_s(self, settings: Settings) -> float:
        """Seconds of a step at the bandwidth of the settings."""
        return self.step_s(settings, settings.bandwidth_Bps)

    def run_s(self, settings: Settings, bandwidth_Bps: float) -> float:
        """Seconds to the target; infinite when it was not reached."""
        return math.inf if self.run.steps is None else self.run.steps * self.step_s(settings, bandwidth_Bps)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Every compressor against no compression."""
    priced = priced_runs(settings, seed, progress)
    dense = priced[0]
    rows = tuple(_row(one, dense, settings) for one in priced)
    return Findings(
        checks=(*_break_even_checks(priced, settings), *_ring_limit(), *_steps_by_condition(), *_efficiency()),
        theory=_laws(settings),
        rows=rows,
        curves=_curves(priced, settings),
        picture=Picture("bandwidth_Bps", "run_s", log_x=True, log_y=True),
        conclusion=_conclusion(priced, settings),
        assumptions=(
            "step counts from a quadratic without gradient noise, step size tuned for each compressor",
            "the fraction lost is that on the quadratic; on longer vectors qsgd loses more",
            "communication does not overlap with compute; ring all-reduce or ring all-gather",
            f"time to compress {settings.compress_time}",
        ),
    )


def priced_runs(settings: Settings, seed: int = 0, progress: Progress = silent) -> list[Priced]:
    """The run of every compressor at its best step size, and what a step costs; no compression first."""
    problem, start = rotated_workers(settings.lab_ranks, settings.elems, settings.condition, seed)
    priced = []
    for made in watched(_candidates(settings), progress):
        found = best_run(problem, start, made, settings.target, settings.most_steps, seed)
        priced.append(_priced(made, found, settings, seed))
    return priced


def _candidates(settings: Settings) -> tuple[Compressor, ...]:
    made = (
        NoCompression(), Half(), Uniform(8), Uniform(settings.bits), Qsgd(7), ErrorFeedback(OneBit()),
        ErrorFeedback(TopK(0.1)), ErrorFeedback(TopK(settings.keep_frac)), TopK(0.1), RandomK(0.1),
        ErrorFeedback(PowerSgd(1)),
    )  # fmt: skip
    return tuple({label(one): one for one in made}.values())


def label(made: Compressor) -> str:
    """Name with its setting."""
    inner = made.inner if isinstance(made, ErrorFeedback) else made
    detail = DETAILS.get(type(inner))
    return made.name if detail is None else f"{made.name} {detail}={getattr(inner, detail):g}"


def _grown(made: Compressor, settings: Settings) -> Compressor:
    """The compressor that sends the same share of the real gradient as this one of the quadratic's."""
    if not isinstance(made, ErrorFeedback) or not isinstance(made.inner, PowerSgd):
        return made
    larger = math.sqrt(settings.parameters / settings.elems)
    return ErrorFeedback(PowerSgd(max(1, round(made.inner.rank * larger))))


def _priced(made: Compressor, found: Reached, settings: Settings, seed: int) -> Priced:
    """Bytes and seconds of an exchange on the real cluster."""
    payload_B = _grown(made, settings).size_B(settings.parameters) or 0.0
    n = settings.ranks
    rounds, factor = (2 * (n - 1), 2 * (n - 1) / n) if made.summable else (n - 1, n - 1)
    if isinstance(made, NoCompression):
        compress_s = 0.0
    elif settings.compress_time == "measured":
        compress_s = _measured_s(made, settings, seed)
    else:
        compress_s = 4 * settings.parameters / settings.compress_Bps
    return Priced(made, found, payload_B, factor * payload_B, rounds * settings.latency_s, compress_s)


def _measured_s(made: Compressor, settings: Settings, seed: int) -> float:
    """Shortest of some rounds on a million entries, scaled to the real gradient."""
    (draw,) = streams(seed, 1)
    vector = draw.standard_normal(MEASURED_ELEMS).astype(np.float32)
    state, shortest = made.start(vector), math.inf
    for _ in range(MEASURED_ROUNDS):
        begin = time.perf_counter()
        payload, state = made.compress(vector, state, draw)
        made.decompress(payload)
        shortest = min(shortest, time.perf_counter() - begin)
    return shortest * settings.parameters / MEASURED_ELEMS


def break_even_Bps(one: Priced, dense: Priced, settings: Settings) -> float | None:
    """B*: 0 when compression never pays, None when it always does or the dense run did not arrive."""
    if one.run.steps is None or dense.run.steps is None:
        return 0.0 if one.run.steps is None else None
    saved_B = dense.run.steps * dense.critical_B - one.run.steps * one.critical_B
    extra_s = one.run.steps * one.fixed_s(settings) - dense.run.steps * dense.fixed_s(settings)
    if saved_B <= 0:
        return 0.0 if extra_s >= 0 else None
    return saved_B / extra_s if extra_s > 0 else None


def _break_even_checks(priced: list[Priced], settings: Settings) -> list[Check]:
    """At the break-even bandwidth both runs take as long, priced by the collectives themselves."""
    dense, checks = priced[0], []
    for one in priced[1:]:
        edge = break_even_Bps(one, dense, settings)
        if edge and one.run.steps and dense.run.steps:
            link = PlainLink(settings.latency_s, edge)
            ours, theirs = (_collective_run_s(each, settings, link) for each in (one, dense))
            checks.append(
                Check(f"run with {label(one.made)} at break-even", theirs, ours, tolerance=1e-9 * theirs, holds=ALWAYS)
            )
    return checks


def _collective_run_s(one: Priced, settings: Settings, link: PlainLink) -> float:
    """Seconds to the target with the exchange priced as a collective."""
    gathered = 1 if one.made.summable else settings.ranks
    op = "all-reduce" if one.made.summable else "all-gather"
    wire_s = float(get(op, "ring").price(settings.ranks, one.payload_B * gathered, link).time_s)
    return (one.run.steps or 0) * (settings.compute_s + one.compress_s + wire_s)


def _ring_limit() -> list[Check]:
    """Ranks up to which gathering the top 1 % is cheaper than a dense ring: 100 with 32-bit indices, 66 with 64."""
    elems, checks = Settings().parameters, []
    for index_bits, limit in ((32, 8 / (0.01 * 8)), (64, 8 / (0.01 * 12))):
        dearer = _first_dearer(TopK(0.01, index_bits).size_B(elems), elems)
        expected = math.ceil(limit - 1e-9) - 1
        checks.append(Check(f"largest number of ranks for top-1 %, {index_bits}-bit indices", expected, dearer - 1,
                            holds=example("10^8 entries, no latency")))  # fmt: skip
    return checks


def _first_dearer(payload_B: float, elems: int) -> int:
    """Ranks from which gathering everybody's payload takes as long as a dense ring or longer, without latency."""
    gather, ring, link = get("all-gather", "ring"), get("all-reduce", "ring"), PlainLink(0.0, 1e9)
    return next(
        n for n in count(2) if gather.price(n, n * payload_B, link).time_s >= ring.price(n, 4 * elems, link).time_s
    )


def _steps_by_condition() -> list[Check]:
    """Plain descent with the best step on a condition number of 1000, to 1e-4 of the loss."""
    condition = 1000.0
    rate = (condition - 1) / (condition + 1)
    point = np.array([1.0, 1.0])
    spectrum = np.array([1.0, 1 / condition])
    first, steps = float(spectrum @ point**2), 0
    while float(spectrum @ point**2) > 1e-4 * first:
        point, steps = point - 2 / (1 + 1 / condition) * spectrum * point, steps + 1
    law = math.ceil(math.log(1e-4) / (2 * math.log(rate)))
    return [
        Check("steps at condition number 1000", law, steps, holds=example("the best step, to 1e-4 of the loss")),
        Check("flat over steep direction after these steps", 1.0, abs(point[1] / point[0]), tolerance=1e-9,
              holds=example("the best step, which shrinks both alike")),
        Check("1000 steps at condition number 1000", 1000, steps, false_law=True,
              holds=example("the best step, to 1e-4 of the loss")),
    ]  # fmt: skip


def _efficiency() -> list[Check]:
    """40 ms of communication at 70 % efficiency, compressed ten times."""
    compute_s = 0.040 * 0.7 / 0.3
    return [
        Check("efficiency 90 % after 10x compression", 0.9, compute_s / (compute_s + 0.004),
              tolerance=0.01, false_law=True,
              holds=example("40 ms of communication at 70 % efficiency"))
    ]  # fmt: skip


def _row(one: Priced, dense: Priced, settings: Settings) -> Json:
    return {
        "compressor": label(one.made), "steps": one.run.steps, "sent_per_rank_B": one.critical_B,
        "step_s": one.here_s(settings),
        "run_s": None if one.run.steps is None else one.run_s(settings, settings.bandwidth_Bps),
        "break_even_Bps": None if one is dense else break_even_Bps(one, dense, settings),
    }  # fmt: skip


def _laws(settings: Settings) -> tuple[Law, ...]:
    return (
        Law("most ranks at which all-gather of the top 1 % beats "
            "a dense ring", 100.0, "8 / (r e)", "equal bytes per rank"),
        Law("steps of plain descent, best step, to 1e-4, per condition number", math.log(1e4) / 4,
            "log(1/eps) / (4 / condition)", "rate ((c - 1) / (c + 1))^2 of f, large c"),
    )  # fmt: skip


def _curves(priced: list[Priced], settings: Settings) -> tuple[Curve, ...]:
    """Seconds to the target over the bandwidth, for whatever pays at some bandwidth."""
    x = settings.bandwidth_Bps * np.geomspace(0.01, 100, 41)
    pays = [one for one in priced[1:] if break_even_Bps(one, priced[0], settings) != 0]
    return tuple(
        Curve(label(one.made), x, np.array([one.run_s(settings, float(b)) for b in x]))
        for one in (priced[0], *pays)
        if one.run.steps is not None
    )


def _conclusion(priced: list[Priced], settings: Settings) -> str:
    best = min(priced, key=lambda one: one.run_s(settings, settings.bandwidth_Bps))
    dense_s, best_s = (one.run_s(settings, settings.bandwidth_Bps) for one in (priced[0], best))
    if best is priced[0] or not math.isfinite(best_s):
        return "at this bandwidth no compressor beats sending the whole gradient"
    if not math.isfinite(dense_s):
        return f"{label(best.made)} is fastest; without compression the run does not reach the target within most_steps"
    edge = break_even_Bps(best, priced[0], settings)
    below = "at any bandwidth" if edge is None else f"below {edge / 1e9:.3g} GB/s"
    return f"{label(best.made)} is {dense_s / best_s:.3g} times faster here than no compression, and pays off {below}"
