"""`Operation`: how a run is operated: what fails and how fast it is back, how it saves, what else takes its time.

Numbers that are not set come from published runs, which the campaign's assumptions state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.units import format_bandwidth, format_frac, format_size, format_time
from lockstep.decide.planner.estimate import Estimate
from lockstep.price.layout import Job, checkpoint_B
from lockstep.simulate.failures import GapLaw, Pattern, Pool, Saving, write_time_s
from lockstep.simulate.failures.growth import AT_FAILURE, AT_ONCE

STORAGE_BPS_PER_DEVICE = 57.5e9 / 384
"""Assumed where no storage is known: BLOOM wrote 2.3 TB in 40 s from 384 A100 (BigScience chronicles, 2022)."""
DETECTION_S = 600.0
"""Assumed: MegaScale (arXiv 2402.15627, section 6.3) detects and diagnoses in less than 10 min on average."""
RESTART_S = 300.0
"""Assumed: to start processes and communicators anew; reading the checkpoint back comes on top. MegaScale catches up
within 15 min of a failure, detection included (same section)."""
WIDEST_CV = 10.0
TOKEN_B = 4.0
"""Bytes read per token: one 32-bit number, as in Megatron-LM's indexed datasets of large vocabularies."""


def assumed_storage(devices: int) -> tuple[float, str]:
    """Bytes per second at which `devices` together write where no storage is known, and how that is said."""
    rate_Bps = STORAGE_BPS_PER_DEVICE * devices
    return rate_Bps, f"written at {format_bandwidth(rate_Bps)}, assumed, BLOOM's 150 MB/s per device"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """How a run is operated; every field has a value that means "not known" or "not done"."""

    device_mtbf_s: float = math.inf
    """Per device; a job on n of them stops every device_mtbf_s / n. Infinite if nothing fails or it is unknown."""
    law: GapLaw | None = None
    """Law of the gaps in the simulation, of that mean; None is exponential."""
    write_s: float | None = None
    """Seconds a checkpoint takes; None derives them from its size and the storage's rate."""
    storage_Bps: float | None = None
    """Rate at which all devices together write; None means STORAGE_BPS_PER_DEVICE each."""
    rank_Bps: float | None = None
    """Rate at which one rank writes; None means that only the storage limits it."""
    ranks: int | None = None
    """Ranks that write at once, at rank_Bps, at most one per device; None means one per device."""
    copies: int = 1
    """Copies of every node's shard in the memory of nodes, its own included; from 2 on, between two checkpoints."""
    copy_Bps: float = math.inf
    """Rate per device at which shards are sent to their peers."""
    local_write_s: float | None = None
    """Seconds of a local checkpoint between whole ones; None if there are none."""
    local_restart_s: float | None = None
    """Restart from a local checkpoint or a copy; None uses restart_s, or RESTART_S and the time to read it back."""
    local_frac: float = 1.0
    """Share of the failures that a local checkpoint or a copy serves."""
    delta_write_s: float | None = None
    """Seconds of a delta between whole checkpoints; None if there are none."""
    every: int | None = None
    """One whole checkpoint in so many; None is the best number."""
    hidden_frac: float = 0.0
    """Share of a write that hides behind work."""
    interval_s: float | None = None
    """Work between checkpoints; None is the best."""
    detection_s: float = DETECTION_S
    restart_s: float | None = None
    """From a noticed failure until work continues; None means RESTART_S and the time to read the checkpoint back."""
    silent_mtbf_s: float = math.inf
    """Mean time between silent corruptions, per device."""
    silent_delay_s: float = 0.0
    """From a corruption until it is noticed."""
    repair_s: float | None = None
    """Mean time until a lost node is repaired; None means that a replacement is always available."""
    spares: int = 0
    """Nodes that stand by, and are paid for."""
    fewest_frac: float = 1.0
    """Share of the nodes with which the job goes on when spares have run out; 1: it waits for a repair."""
    grows: str = AT_FAILURE
    """When a job that shrank takes repaired nodes back, as in `Pool`."""
    lost: tuple[tuple[int, float], ...] = ((1, 1.0),)
    """(nodes lost, share of the failures), as in `Pool`."""
    straggler_cv: float = 0.0
    """Coefficient of variation of a device's compute time from step to step."""
    eval_every: int | None = None
    """Steps between evaluations; None if there are none."""
    eval_tokens: float = 0.0
    """Tokens of one evaluation."""
    data_Bps: float | None = None
    """Rate at which all devices together read training data; None means that it never delays a step."""
    sample_B: float = TOKEN_B
    """Bytes read per token, or per image."""

    def __post_init__(self) -> None:
        if not 0 < self.fewest_frac <= 1:
            raise BadInput(f"must leave from one to all nodes, got {self.fewest_frac:g} of them", "--fewest-nodes")
        if not self.device_mtbf_s > 0:
            raise BadInput(f"must be above 0, got {self.device_mtbf_s:g} s", "--mtbf")
        if self.interval_s is not None and not self.interval_s > 0:
            raise BadInput(f"must be above 0, got {self.interval_s:g} s", "--interval")
        if not 0 <= self.straggler_cv <= WIDEST_CV:
            raise BadInput(f"must be from 0 to {WIDEST_CV:g}, got {self.straggler_cv:g}", "--straggler-cv")
        if self.copies < 1 or not self.copy_Bps > 0:
            raise BadInput(f"must be at least 1, sent at a rate above 0, got {self.copies}", "--copies")
        if self.copies > 1 and (self.local_write_s, self.delta_write_s) != (None, None):
            raise BadInput("cannot be combined with --local-write or --delta-write", "--copies")
        if self.grows != AT_FAILURE and self.fewest_frac == 1:
            raise BadInput("needs a job that can shrink: set --fewest-nodes", "--grow")
        if self.eval_every is not None and not (self.eval_every >= 1 and self.eval_tokens > 0):
            raise BadInput("needs at least one step, and --eval-tokens", "--eval-every")

    def mtbf_s(self, devices: int) -> float:
        """Mean time between failures of a job on `devices`, silent corruption among them."""
        rate_per_s = 1 / self.device_mtbf_s + 1 / self.silent_mtbf_s
        return 1 / (rate_per_s * devices) if rate_per_s else math.inf

    def checkpoint_write_s(self, job: Job) -> float:
        """Seconds a whole checkpoint takes."""
        if self.write_s is not None:
            return self.write_s
        return float(write_time_s(checkpoint_B(job), storage_Bps=self.write_Bps(job)))

    def write_Bps(self, job: Job) -> float:
        """Rate at which a whole checkpoint is written: of its ranks, and of the storage."""
        if self.rank_Bps is None:
            return assumed_storage(job.devices)[0] if self.storage_Bps is None else self.storage_Bps
        together_Bps = self.rank_Bps * (job.devices if self.ranks is None else min(self.ranks, job.devices))
        return together_Bps if self.storage_Bps is None else min(together_Bps, self.storage_Bps)

    def copy_time_s(self, job: Job) -> float:
        """Seconds to send every shard to its peers."""
        return checkpoint_B(job) * (self.copies - 1) / (job.devices * self.copy_Bps)

    def whole_restart_s(self, job: Job) -> float:
        """Seconds to restart from the storage."""
        return RESTART_S + self.checkpoint_write_s(job) if self.restart_s is None else self.restart_s

    def lighter_restart_s(self, job: Job) -> float:
        """Seconds to restart from a local checkpoint, or from a copy at a peer."""
        if self.local_restart_s is not None:
            return self.local_restart_s
        return RESTART_S + (self._local_s(job) or 0.0) if self.restart_s is None else self.restart_s

    def recovering(self, job: Job, factor: float) -> Operation:
        """With detection and restarts that take `factor` times as long."""
        return replace(
            self,
            detection_s=self.detection_s * factor,
            restart_s=self.whole_restart_s(job) * factor,
            local_restart_s=self.lighter_restart_s(job) * factor,
        )

    def saving(self, job: Job) -> Saving:
        """The checkpoints, and the way back after a failure."""
        silent = not math.isinf(self.silent_mtbf_s)
        return Saving(
            write_s=self.checkpoint_write_s(job),
            restart_s=self.whole_restart_s(job),
            detection_s=self.detection_s,
            hidden_frac=self.hidden_frac,
            local_write_s=self._local_s(job),
            local_restart_s=self.lighter_restart_s(job),
            local_frac=self.local_frac,
            delta_write_s=self.delta_write_s,
            every=self.every,
            silent_frac=self.mtbf_s(1) / self.silent_mtbf_s if silent else 0.0,
            silent_delay_s=self.silent_delay_s if silent else 0.0,
        )

    def pattern(self, job: Job) -> Pattern:
        """The cycle of checkpoints, the best where none is given."""
        return self.saving(job).pattern(self.mtbf_s(job.devices))

    def _local_s(self, job: Job) -> float | None:
        return self.copy_time_s(job) if self.copies > 1 else self.local_write_s

    def pool(self, found: Estimate) -> Pool | None:
        """The nodes of an estimated layout, which leave in whole replicas; None if replacements are always there."""
        if self.repair_s is None:
            return None
        nodes, replica = found.cluster.num_nodes, found.job.devices // found.layout.dp
        fewest = max(1, math.ceil(self.fewest_frac * nodes))
        per_replica = max(1, math.ceil(replica / found.cluster.devices_per_unit(0)))
        return Pool(
            nodes=nodes,
            spares=self.spares,
            repair_s=self.repair_s,
            fewest=fewest,
            replica_nodes=per_replica if nodes % per_replica == 0 else 1,
            lost=self.lost,
            grows=self.grows if fewest < nodes else AT_FAILURE,
        )

    def assumptions(self, job: Job) -> Iterator[str]:
        """What is taken for granted about failures, checkpoints and devices."""
        if math.isinf(self.mtbf_s(1)):
            yield "nothing fails: how often these devices do is not known; give --mtbf of the job or --node-mtbf"
        else:
            yield from self._about_failures(job)
        if self.straggler_cv:
            yield f"compute times of devices vary by {format_frac(self.straggler_cv)} from step to step, independently"

    def _about_failures(self, job: Job) -> Iterator[str]:
        yield f"a failure every {format_time(self.mtbf_s(job.devices))}: {format_time(self.mtbf_s(1))} per device"
        if self.write_s is None:
            given = self.storage_Bps is not None or self.rank_Bps is not None
            rate = f"written at {format_bandwidth(self.write_Bps(job))}" if given else assumed_storage(job.devices)[1]
            yield f"a checkpoint holds {format_size(checkpoint_B(job))}: parameters and optimizer state; {rate}"
        yield from self._about_lighter()
        restart_s = self.whole_restart_s(job)
        known = "" if self.restart_s is not None else " (assumed: 5 min plus reading the checkpoint)"
        yield f"detection takes {format_time(self.detection_s)}, a restart {format_time(restart_s)}{known}"
        if self.repair_s is None:
            yield "a lost node is replaced within the restart; --repair, --spares and --fewest-nodes change that"
        else:
            when = {AT_FAILURE: "at the next restart", AT_ONCE: "by an immediate restart"}
            joining = when.get(self.grows, "by a restart after the next checkpoint")
            yield f"repairs take exponential times and run in parallel; repaired nodes join {joining}"
        if not math.isinf(self.silent_mtbf_s):
            yield "after a corruption all work is lost until it is noticed, a fixed time later"

    def _about_lighter(self) -> Iterator[str]:
        served = format_frac(self.local_frac)
        if self.copies > 1:
            yield (
                f"between checkpoints every shard goes to the memory of {self.copies} nodes, at"
                f" {format_bandwidth(self.copy_Bps)} per device; a copy is left after {served} of the failures"
            )
        if self.local_write_s is not None:
            yield f"local checkpoints serve {served} of the failures, full ones the rest"
        if self.delta_write_s is not None:
            yield "a restart replays every delta since the last full checkpoint, as fast as they are written"
