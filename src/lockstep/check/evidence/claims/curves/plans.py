"""What figures draw of whole runs: parts of a step, what it depends on, ways of training, activations that are kept."""

from __future__ import annotations

from functools import cache

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Array
from lockstep.check.evidence.claims.deciders.runs import best_layout
from lockstep.simulate.failures import pattern_overhead_frac, two_level

PARTS = ("compute_s", "tp_comm_s", "waiting_s", "dp_comm_s", "bubble_s", "pp_comm_s", "other_s", "optimizer_s")
"""Of a step, in the order of the rows of a figure."""
NUMBERS = ("peak_flops", "memory_bandwidth", "intra_bw", "inter_bw", "latency", "host")
"""Of the hardware, in that order."""
STEPS = 100


def step_parts(model: str, cluster: str, stack: str, seq: int, batch: int) -> Array:
    """Shares of a step in the best layout."""
    best = best_layout(model, cluster, stack, seq, batch)
    seconds = np.array([float(getattr(best.step, name)) for name in PARTS])
    return np.stack([np.arange(float(len(PARTS))), seconds / best.step_time_s])


def elasticities(model: str, cluster: str, stack: str, seq: int, batch: int) -> Array:
    """Per cent by which a step changes where a number of the hardware grows by one."""
    from lockstep.decide.planner.sensitivity import hardware_elasticity

    best = best_layout(model, cluster, stack, seq, batch)
    found = [hardware_elasticity(best.job, best.cluster, best.layout, name) or 0.0 for name in NUMBERS]
    return np.stack([np.arange(float(len(NUMBERS))), found])


@cache
def _ways(law: str, bandwidth_Bps: float, period: int, bound: int, trials: int) -> dict[str, float]:
    """Mean seconds to the target by the name of each way."""
    from lockstep.learn.lab import find_experiment

    given = {"law": law, "bandwidth_Bps": bandwidth_Bps, "period": period, "bound": bound, "trials": trials}
    settings = {name: str(value) for name, value in (given | {"steps": STEPS}).items()}
    return {
        str(row["way"]): float(str(row["time_s"])) for row in find_experiment("time-to-accuracy").answer(settings).rows
    }


def way_s(way: str, law: str, bandwidth_Bps: float, period: int, bound: int, trials: int) -> float:
    """Mean seconds to the target of one way of training."""
    return _ways(law, bandwidth_Bps, period, bound, trials)[way]


def layer_held_B(model: str, seq: int, ranks: int, recompute: str = "none") -> float:
    """Bytes that a layer keeps of one sequence on one of so many tensor ranks, which split what lies between too."""
    from lockstep.describe.workload import Piece, Transformer, layer_activation_B
    from lockstep.describe.workload import model as find

    found = find(model)
    if not isinstance(found, Transformer):
        raise BadInput(f"{model} has no layer with scores", "model")
    piece = Piece(
        micro_batch=1, seq=seq, tp=ranks, sequence_parallel=True, flash_attention=False, dropout=True,
        recompute_modules=(),
    )  # fmt: skip
    return float(layer_activation_B(found, piece, recompute=recompute))


def two_level_overhead(
    mtbf_h: float, local_h: float, write_h: float, every: int, local_frac: float, x_h: float
) -> float:  # fmt: skip
    """Overhead of work for `x_h` hours between checkpoints of which every `every`-th one is remote."""
    pattern = two_level(local_h, write_h, every, local_frac)
    return float(pattern_overhead_frac(pattern, x_h, mtbf_h))
