"""`Goal`: what makes one plan better than another, which numbers of devices to look at, and when to stop looking.

robust      the whole cluster, of the layouts that are nearly fastest the one that loses least (`robust.py`)
time        the whole cluster, fastest layout
cost        parts of the cluster too, cheapest per token
deadline    the fewest devices on which the tokens are done in time
"""

from __future__ import annotations

from lockstep.base.errors import BadInput, Infeasible, UnknownName, Violation
from lockstep.base.records import dataclass
from lockstep.base.units import SECONDS_PER_DAY, format_time
from lockstep.decide.planner.course import Course
from lockstep.decide.planner.estimate import hourly_price_usd
from lockstep.decide.planner.result import Plan
from lockstep.decide.planner.utilisation import model_flops
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import Job

OBJECTIVES = ("robust", "time", "cost")
MOST_TOKENS = 1e18


def check_tokens(tokens: float, batch_tokens: float) -> None:
    """Raises BadInput when a run to `tokens` is shorter than a step of `batch_tokens`, or longer than any."""
    if not batch_tokens <= tokens <= MOST_TOKENS:
        raise BadInput(f"must be from one step to {MOST_TOKENS:g} tokens, got {tokens:g}", "--tokens")


@dataclass(frozen=True, slots=True)
class Goal:
    """What is wanted. `tokens` to train on; `deadline_s` needs them."""

    objective: str = "time"
    tokens: float | None = None
    deadline_s: float | None = None
    course: Course | None = None
    """The passes over a data set in which the tokens are read; None where they are read once, in equal steps."""

    @property
    def aim(self) -> float | Course | None:
        """What is read."""
        return self.tokens if self.course is None else self.course

    def check(self, cluster: Cluster) -> None:
        """Raises BadInput when the goal cannot be judged on `cluster`."""
        if self.objective not in OBJECTIVES:
            raise UnknownName("objective", self.objective, OBJECTIVES, "--objective")
        if self.objective == "cost" and hourly_price_usd(cluster) is None:
            raise BadInput(f"no price is known for {cluster.name}; give price_per_hour in YAML", "--objective")
        if self.deadline_s is not None and self.tokens is None:
            raise BadInput("a deadline needs --tokens", "--deadline")

    def sizes(self, cluster: Cluster) -> list[int]:
        """Numbers of devices to plan for, ascending."""
        return [cluster.num_devices] if self.alone else device_counts(cluster)

    @property
    def alone(self) -> bool:
        """Whether the whole cluster is planned for, and no part of it."""
        return self.objective != "cost" and self.deadline_s is None

    def least_s(self, job: Job, cluster: Cluster) -> float:
        """Seconds for the tokens at the full peak rate: no layout is faster. 0 where no tokens are given.

        Kernels may leave out the attention that a causal mask hides, and nothing else.
        """
        flops = model_flops(job, "causal") * (self.tokens or 0.0) / job.step_units
        return flops / (job.devices * max(cluster.device.peak_flops.values()))

    def planned_s(self, found: Plan) -> float:
        """Seconds for the tokens in the best layout found. 0 where no tokens are given."""
        return 0.0 if self.aim is None else found.best.campaign(self.aim)[0] * SECONDS_PER_DAY

    def hopeless(self, job: Job, cluster: Cluster) -> bool:
        """Whether even the full peak rate misses the deadline, so that no layout need be searched."""
        return self.deadline_s is not None and self.least_s(job, cluster) > self.deadline_s

    def prefers(self, found: Plan, chosen: Plan | None) -> bool:
        """Whether `found` should replace what was chosen so far."""
        if self.deadline_s is not None:
            return chosen is None and self.reached(found)
        if chosen is None:
            return True
        new, old = found.best.cost_per_token, chosen.best.cost_per_token
        return new is not None and old is not None and new < old

    def reached(self, found: Plan) -> bool:
        """Whether nothing better can follow: the first size that makes the deadline is the smallest."""
        return self.deadline_s is not None and self.planned_s(found) <= self.deadline_s

    def missed(self, job: Job, cluster: Cluster, fastest_s: float | None) -> Infeasible:
        """What to say when no size makes the deadline; `fastest_s` of what was planned, None when all was hopeless."""
        within_s, least_s = self.deadline_s or 0.0, self.least_s(job, cluster)
        least = f"even at their full peak rate they take at least {format_time(least_s)}"
        reason = least if fastest_s is None else f"the fastest takes {format_time(fastest_s)}"
        return Infeasible(
            f"no layout on up to {job.devices} devices finishes within {format_time(within_s)}: {reason}; "
            "try more devices, or fewer tokens",
            [Violation("deadline", (least_s if fastest_s is None else fastest_s) - within_s, within_s)],
        )


def device_counts(cluster: Cluster) -> list[int]:
    """Device counts to try when fewer than all may do, ascending: parts of a node, then 1, 2, 3, 4, 6, 8, ... nodes."""
    whole = cluster.num_devices
    node = min(cluster.devices_per_unit(0), whole)
    nodes = sorted({factor * 2**power for factor in (1, 3) for power in range(whole.bit_length())})
    inside = [d for d in (1, 2, 4) if d < node and node % d == 0]
    outside = [n * node for n in nodes if n * node < whole and whole % node == 0]
    return [*inside, *(d for d in outside if _fills(cluster, d)), whole]


def _fills(cluster: Cluster, devices: int) -> bool:
    """Whether so many devices fill whole units of every level."""
    try:
        cluster.resized(devices)
    except BadInput:
        return False
    return True
