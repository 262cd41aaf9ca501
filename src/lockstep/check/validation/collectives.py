"""Collectives alone, as nccl-tests measures them: seconds of one, by ranks and bytes.

Of 197 and 84 rows 94 and 42 are asked here; `left_out` counts the others by reason. Below 1 MB libraries change to
protocols with a lower latency and rate, which no link of the catalog describes. Rows that a link of the catalog was
fitted to, or takes a number from, are no test of it.

Sources: the `source` of each row; NVIDIA/nccl-tests, doc/PERFORMANCE.md for bytes and bus bandwidth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from lockstep.check.validation.case import Case, Table, read_rows
from lockstep.describe.hardware import Cluster, cluster, link
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe
from lockstep.simulate.collectives import best_on_levels_time_s, bus_factor

SMALLEST_B = 2**20
OPS = {"all_gather": "all-gather", "reduce_scatter": "reduce-scatter", "alltoall": "all-to-all"}
FITTED_B = {"nccl01": 2**24, "nccl03": 2**24, "nccl04": 2**22, "nccl16": 0, "nccl17": 0}
"""From how many bytes on links of the catalog were fitted to the rows of a table."""
CLUSTERS = {
    "nccl01": "dgx-a100-80gb",
    "nccl03": "dgx-a100-80gb",
    "nccl04": "aws-p4d",
    "nccl07": "aws-p5",
    "nccl09": "dgx-h100",
    "nccl10": "gb200-nvl72",
    "nccl11": "gb200-nvl72",
    "nccl12": "gb200-nvl72",
    "nccl15": "dgx-h100",
    "nccl18": "dgx-h100",
    "nccl20": "dgx-a100-80gb",
    "nccl25 H200": "dgx-h200",
    "nccl25 B200": "dgx-b200",
    "nccl26 A100-SXM-80GB": "jean-zay-a100",
}
AZURE = {"ND A100": "dgx-a100-80gb", "ND H100": "dgx-h100", "ND H200": "dgx-h200"}


def cases() -> tuple[Case, ...]:
    """One case per row of nccl_collectives that is asked."""
    return tuple(_case(row) for row in read_rows("nccl_collectives.csv") if not _why_not(row))


def left_out() -> Counter[str]:
    """How many rows of nccl_collectives are left out, by reason."""
    return Counter(why for row in read_rows("nccl_collectives.csv") if (why := _why_not(row)))


def micro_cases() -> tuple[Case, ...]:
    """One case per row of collectives_micro that is asked."""
    return tuple(_micro_case(row) for row in read_rows("collectives_micro.csv") if not _why_not_micro(row))


def micro_left_out() -> Counter[str]:
    """How many rows of collectives_micro are left out, by reason."""
    return Counter(why for row in read_rows("collectives_micro.csv") if (why := _why_not_micro(row)))


def _why_not(row: dict[str, str]) -> str:
    table, size_B = row["table_id"], int(row["size_bytes"])
    if size_B < SMALLEST_B:
        return "below 1 MB"
    measures_link = (table, row["collective"], row["gpu"]) == ("nccl25", "all_reduce (Ring)", "B200")
    if (
        size_B >= FITTED_B.get(table, size_B + 1)
        or measures_link
        or (table == "nccl26" and row["inter_node"] == "none")
    ):
        return "source of the catalog"
    return "" if _cluster_name(row) else "cluster not in the catalog"


def _why_not_micro(row: dict[str, str]) -> str:
    if row["system"][:7] not in AZURE:
        return "cluster not in the catalog"
    return "below 1 MB" if int(row["bytes"]) < SMALLEST_B else ""


def _cluster_name(row: dict[str, str]) -> str:
    return CLUSTERS.get(row["table_id"]) or CLUSTERS.get(f"{row['table_id']} {row['gpu']}", "")


def _case(row: dict[str, str]) -> Case:
    ranks, size_B = int(row["n_ranks"]), float(row["size_bytes"])
    where = cluster(_cluster_name(row), gpus=ranks)
    if "SHARP" in row["inter_node"]:
        inside, fabric = where.levels
        where = replace(where, levels=(inside, replace(fabric, link=link("ndr-sharp"))))
    op = OPS.get(row["collective"], "all-reduce")
    time_us, rate_GBps = row["time_us_oop"], row["algbw_gbps_oop"]
    measured_s = float(time_us) * 1e-6 if time_us else size_B / (float(rate_GBps) * 1e9)
    only = "ring" if "Ring" in row["collective"] else ""
    return _asked(f"{row['table_id']} {row['gpu']}", op, size_B, measured_s, where, only)


def _micro_case(row: dict[str, str]) -> Case:
    ranks, size_B, op = int(row["n_devices"]), float(row["bytes"]), row["collective"]
    measured_s = size_B * float(bus_factor(op, ranks)) / (float(row["bus_gbytes_per_s"]) * 1e9)
    where = cluster(AZURE[row["system"][:7]], gpus=ranks)
    return _asked(f"{row['row_id']} {row['system'][:7]}", op, size_B, measured_s, where)


def _asked(name: str, op: str, size_B: float, measured_s: float, where: Cluster, only: str = "") -> Case:
    """A case of one collective; of its job, data-parallel on as many devices, nothing else is asked."""
    ranks = where.num_devices
    predict: Callable[[Case], float] = partial(collective_s, op=op, size_B=size_B, only=only)
    row = f"{name} {op} x{ranks} {size_B:.0f} B" + (f" by {only}" if only else "")
    job = Job(model("llama3-8b"), Recipe(seq=1, batch=ranks), ranks)
    return Case(row, "collective_s", measured_s, job, where, Layout(dp=ranks), predict)


def collective_s(case: Case, op: str, size_B: float, only: str = "") -> float:
    """Seconds of `op` among all devices of the case, by the fastest way or `only` one; nothing for launching it."""
    levels = case.cluster.levels_of(case.cluster.num_devices)
    return float(best_on_levels_time_s(op, levels, size_B, [only] if only else None))


TABLE = Table("nccl_collectives", "collective_s", "nccl-tests as published by clusters' owners", 0.12, cases)
MICRO = Table("collectives_micro", "collective_s", "Azure/AI-benchmarking-guide, Azure_Results", 0.12, micro_cases)
