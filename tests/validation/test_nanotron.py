"""The Ultra-Scale Playbook's rows: all of them asked, its count of FLOPs, and its stages."""

import numpy as np
import pytest

from lockstep.check.validation import nanotron
from lockstep.check.validation.case import read_rows
from lockstep.decide.planner.utilisation import model_flops
from lockstep.simulate.collectives import best_on_levels_time_s, bus_factor

ROWS = read_rows(nanotron.FILE)


def test_every_row_is_predicted() -> None:
    assert len(nanotron.cases()) + sum(nanotron.left_out().values()) == len(ROWS) == 31
    assert len(nanotron.memory_cases()) == sum(row["mfu_pct"] != "" for row in ROWS) == 26


def test_tokens_of_a_printed_step_are_those_of_its_layout() -> None:
    for row, case in zip(ROWS, nanotron.cases(), strict=True):
        microbatches = int(case.layout.grid().microbatches(case.job.recipe.batch))
        assert microbatches == int(row["grad_accum"])
        assert case.job.recipe.batch_tokens == int(row["gbs_tokens"])


def test_the_printed_rates_follow_from_one_another() -> None:
    """TFLOP/s per GPU are printed with two decimals beside tokens/s per GPU."""
    printed = [(row, case) for row, case in zip(ROWS, nanotron.cases(), strict=True) if row["tflops_per_gpu"]]
    assert len(printed) == 5
    for row, case in printed:
        rate = model_flops(case.job) / (case.measured * case.job.devices)
        assert rate / 1e12 == pytest.approx(float(row["tflops_per_gpu"]), abs=0.006)


@pytest.mark.parametrize("row", [row for row in ROWS if int(row["pp"]) > 1], ids=lambda row: row["row_id"])
def test_stages_are_divided_as_in_nanotron(row: dict[str, str]) -> None:
    """By its loop over blocks and cumulated FLOPs, written with numpy (models/base.py, build_model)."""
    model, pp = nanotron._model(row), int(row["pp"])
    hidden, ffn = int(row["hidden"]), int(row["ffn"])
    costs = [0.0, *[4 * hidden**2 + 3 * ffn * hidden] * model.layers, 0.0, model.vocab * hidden]
    total = np.cumsum(costs)
    stage, found = 0, [0] * pp
    for block, (cost, here) in enumerate(zip(costs, total, strict=True)):
        found[stage] += int(cost > 0 and block <= model.layers)
        stage += here > total[-1] * ((stage + 1) / pp)
    assert nanotron.stages(model, pp) == tuple(found)


MEASURED_B = 256e6
IN_A_NODE = {"all-reduce": 436.0, "all-gather": 249.8, "reduce-scatter": 249.7}
"""Bus bandwidth in GB/s of the playbook's figure (pp_comm_bandwidth), on eight GPUs of a node."""
FASTEST = {2: 226.3, 4: 229.4, 8: 178.5, 16: 126.7, 32: 77.0, 64: 44.4}
"""That of all-gathers by number of nodes, of the fastest twentieth of the runs."""


def _bus_GBps(op: str, nodes: int) -> float:
    where = nanotron._cluster(8 * nodes)
    seconds = best_on_levels_time_s(op, where.levels_of(8 * nodes), MEASURED_B)
    return float(bus_factor(op, 8 * nodes)) * MEASURED_B / float(seconds) / 1e9


@pytest.mark.parametrize("op", IN_A_NODE)
def test_collectives_in_a_node_are_as_fast_as_measured(op: str) -> None:
    assert _bus_GBps(op, 1) == pytest.approx(IN_A_NODE[op], rel=0.02)


def test_gathers_between_nodes_are_no_faster_than_measured_at_best() -> None:
    found = {nodes: _bus_GBps("all-gather", nodes) / fastest for nodes, fastest in FASTEST.items()}
    assert np.mean([abs(share - 1.0) for share in found.values()]) < 0.25, found
    assert max(found.values()) < 1.2, found
