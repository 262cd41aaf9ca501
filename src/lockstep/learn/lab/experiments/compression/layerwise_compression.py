"""Layer by layer or all at once: the same compressor with one scale and count per layer, or one for all.

    top-k:   global keeps the k largest of all entries, so at equal bytes it never loses more
    int8, scale per layer:  lost = sum_l d_l (m_l / s)^2 / 6 / |x|^2;   one scale for all: d (m / s)^2 / 6 / |x|^2
    q of the whole = min over layers,  omega = max over layers
d_l, m_l: entries and largest magnitude of a layer; m of all; s levels. Layers differ in the size of their gradients,
ratio r between neighbours. Refuted beside it: that global is better for every compressor (a common scale drowns small
layers), and that layer by layer loses nothing for top-k (it sends from layers that have nothing to say).

Source: Dutta et al., "On the discrepancy between the theoretical analysis and practical implementations of compressed
communication for distributed deep learning", AAAI 2020.
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, mean_and_error, watched, when
from lockstep.learn.lab.laws import energy_above, threshold_of
from lockstep.learn.lab.statistics import streams
from lockstep.learn.methods.compression import Compressor, TopK, Uniform
from lockstep.learn.methods.compression.compressor import kept_elems

QUESTION = "Is it better to compress layer by layer or all layers together?"
SOURCE = "Dutta et al. 2020"


@dataclass(frozen=True, slots=True)
class Settings:
    """Layers and how their gradients differ."""

    layers: int = setting(8, "Number of layers, all of the same size.", least=2, most=1000)
    layer_elems: int = setting(5000, "Entries per layer.", least=100, most=1_000_000)
    ratios: tuple[float, ...] = setting((1.0, 1.5, 2.0, 4.0), "Ratios of the gradient norms of consecutive layers.",
                                        least=1, most=100)  # fmt: skip
    keep_frac: float = setting(0.05, "Fraction of the entries that top-k keeps.", above=0, most=1)
    repetitions: int = setting(10, "Number of random gradients.", least=4, most=10_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Relative loss of both ways over the ratio between layers."""
    ratios = sorted(settings.ratios)
    checks: list[Check] = []
    rows: list[Json] = []
    for place, ratio in enumerate(watched(ratios, progress)):
        found = _losses(settings, ratio, seed + place)
        rows.append({"ratio": ratio, **{name: float(values.mean()) for name, values in found.items()}})
        checks += _checks(found, settings, ratio)
    x = np.array(ratios)
    return Findings(
        checks=(*checks, *_false_laws(rows[-1])),
        theory=(Law("top-k by layer loses", _layer_law(settings), "1 - E[z^2; |z| > t_k]", "Gaussian layers"),),
        rows=tuple(rows),
        curves=tuple(Curve(name.removesuffix("_lost_frac").replace("_", " "), x, np.array([row[name] for row in rows]),
                           theory="law" in name)
                     for name in rows[0] if name != "ratio"),
        picture=Picture("size_ratio_of_neighbours", "lost_frac", log_x=True, log_y=True),
        conclusion="top-k is best over all layers together, a quantizer layer by layer: a scale of its own preserves "
                   "a layer of small gradients",
        assumptions=("independent Gaussian entries, one standard deviation per layer",),
    )  # fmt: skip


def _losses(settings: Settings, ratio: float, seed: int) -> dict[str, Array]:
    """Relative losses of the repetitions, and int8's by formula."""
    found: dict[str, list[float]] = {}
    for draw in streams(seed, settings.repetitions):
        # Of the last, which is the largest: many layers would pass the largest float.
        sizes = ratio ** np.arange(1.0 - settings.layers, 1.0)
        gradient = draw.standard_normal((settings.layers, settings.layer_elems)) * sizes[:, np.newaxis]
        squared = float((gradient**2).sum())
        for made in (TopK(_share(settings)), Uniform(8)):
            name = made.name.replace("-", "_")
            whole = _lost(made, gradient.reshape(-1), draw) / squared
            parts = sum(_lost(made, layer, draw) for layer in gradient) / squared
            found.setdefault(f"{name}_at_once_lost_frac", []).append(whole)
            found.setdefault(f"{name}_by_layer_lost_frac", []).append(parts)
        steps = np.abs(gradient).max(axis=1) / Uniform(8).levels
        law = settings.layer_elems * (steps**2).sum() / 6 / squared
        found.setdefault("int8_by_layer_law_lost_frac", []).append(law)
    return {name: np.array(values) for name, values in found.items()}


def _lost(made: Compressor, vector: Array, draw: np.random.Generator) -> float:
    """|C(x) - x|^2."""
    payload, _ = made.compress(vector, None, draw)
    return float(((made.decompress(payload) - vector) ** 2).sum())


def _checks(found: dict[str, Array], settings: Settings, ratio: float) -> list[Check]:
    """Law of int8 by layer, order of the two ways of top-k."""
    law = found["int8_by_layer_law_lost_frac"]
    mean, error = mean_and_error(found["int8_by_layer_lost_frac"] / law)
    most = float((found["top_k_at_once_lost_frac"] - found["top_k_by_layer_lost_frac"]).max())
    at_layer, spread = mean_and_error(found["top_k_by_layer_lost_frac"])
    return [
        # Half of the rounding steps around zero are cut by the density, which the 1/6 leaves out.
        Check(f"int8 by layer over its law, ratio {ratio:g}", 1.0, mean, error, 0.01, runs=settings.repetitions,
              holds=ALWAYS),
        Check("top-k on all layers minus by layer, maximum, ratio "
              f"{ratio:g}", 0.0, most, tolerance=1e-12, relation="at most",
              holds=ALWAYS),
        Check(f"top-k by layer, ratio {ratio:g}", _layer_law(settings), at_layer, spread, 0.01,
              runs=settings.repetitions, holds=ALWAYS),
    ]  # fmt: skip


def _layer_law(settings: Settings) -> float:
    """What top-k loses of every Gaussian layer, and so of all of them."""
    return 1 - energy_above(threshold_of(_share(settings)))


def _share(settings: Settings) -> float:
    """Whole entries of a layer, so that both ways keep as many."""
    return kept_elems(settings.keep_frac, settings.layer_elems) / settings.layer_elems


def _false_laws(row: Json) -> tuple[Check, ...]:
    """Both sweeping rules, at the largest ratio."""
    apart = when(row["ratio"] >= 1.5, "layers whose gradient norms differ by a ratio of 1.5 or more")
    gain = row["int8_at_once_lost_frac"] / row["int8_by_layer_lost_frac"]
    lost = row["top_k_at_once_lost_frac"]
    cost = row["top_k_by_layer_lost_frac"] / lost if lost else math.nan
    loses = when(lost > 0, "a keep_frac below 1")
    return (
        Check(
            "int8: one common scale loses no more than one scale per layer",
            1.0,
            gain,
            tolerance=0.01,
            false_law=True,
            holds=apart,
        ),
        Check(
            "top-k: layer by layer loses no more than on all layers together",
            1.0,
            cost,
            tolerance=0.01,
            false_law=True,
            holds=apart & loses,
        ),
    )
