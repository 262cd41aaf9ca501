"""`Experiment`: a question with settings, and the function that answers it; and all of them, by part of the theory.

One joins by a file in its group's folder of `experiments/` that defines `QUESTION`, `SOURCE`, `Settings` and `run`, and
by its name in `GROUPS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from lockstep.base.engines.engine import silent as silent
from lockstep.base.engines.threads import one_blas_thread
from lockstep.base.errors import UnknownName
from lockstep.base.records import asdict, dataclass, replace
from lockstep.base.settings import described, read_settings
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.progress import Progress as Progress
from lockstep.learn.lab.facts import facts_of
from lockstep.learn.lab.findings import Findings

Part = TypeVar("Part")


_KEPT: ContextVar[dict[Any, Findings] | None] = ContextVar("answers of experiments", default=None)


@contextmanager
def each_run_once() -> Iterator[None]:
    """While it lasts, an experiment that is asked again with the same settings and seed gives the answer it gave."""
    kept = _KEPT.get()
    token = _KEPT.set({} if kept is None else kept)
    try:
        yield
    finally:
        _KEPT.reset(token)


def watched(parts: Iterable[Part], progress: Progress, more: int = 0) -> Iterator[Part]:
    """Each of the parts, reported as done when the next is asked for; of `more` after them the caller reports."""
    given = tuple(parts)
    for done, part in enumerate(given, 1):
        yield part
        progress(done, len(given) + more)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One file of `experiments/`: what is asked, on which settings, from which source, and how it is found out.

    `run(settings, seed, progress)` returns the findings; `settings` is an instance of the class `settings`.
    """

    name: str
    question: str
    source: str
    settings: type[Any]
    run: Callable[[Any, int, Progress], Findings]

    def answer(self, given: Mapping[str, object], seed: int = 0, progress: Progress = silent) -> Findings:
        """Findings with the given settings; `BadInput` for those that are unknown or not allowed.

        Arithmetic beyond the range of floats is an answer here (a run diverged), not a warning.
        """
        settings = read_settings(self.settings, given)
        kept, key = _KEPT.get(), (self, repr(settings), seed)
        if kept is None:
            return self._found(settings, seed, progress)
        if key not in kept:
            kept[key] = self._found(settings, seed, progress)
        return kept[key]

    def _found(self, settings: Any, seed: int, progress: Progress) -> Findings:
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            found = self.run(settings, seed, progress)
        return replace(
            found.sorted_out(), experiment=self.name, question=self.question, source=self.source,
            settings=asdict(settings), seed=seed,
        )  # fmt: skip

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "experiment": self.name, "question": self.question, "source": self.source,
            "settings": described(self.settings), "claims": [claim.to_dict() for claim in facts_of(self.name)],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Group:
    """A part of the theory: `name` is its folder, `about` a line on it, `experiments` in the order a person sees."""

    name: str
    about: str
    experiments: tuple[str, ...]

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


GROUPS = (
    Group("descent", "problems with a known optimum, and plain SGD", ("objectives", "sgd-bound")),
    Group("staleness", "stale gradients: barrier, bounded staleness, no waiting", (
        "consistency", "hogwild", "nonconvex-delay", "stale-descent", "delay-stability", "delay-floor",
        "delay-iterations", "varying-delay", "async-momentum", "async-staleness", "staleness-bounds",
        "staleness-weights", "delay-adaptive", "tolerable-delay",
    )),
    Group("local", "local SGD: drift, bias, averaging period", (
        "local-identity", "local-drift", "local-bias", "client-sampling", "outer-momentum", "local-period",
        "local-digits",
    )),
    Group("compression", "gradients in fewer bytes, error feedback", (
        "compression-factors", "compression-stability", "compression-noise", "aggregation-error", "error-feedback",
        "layerwise-compression", "compression-time", "index-bits", "communication-bound",
    )),
    Group("precision", "fp16, bf16, fp8: range, scaling, overflow", (
        "gradient-range", "loss-scaling", "master-weights", "overflow",
    )),
    Group("batch", "gradient noise, critical batch, learning rate", (
        "gradient-variance", "data-parallel", "noise-scale", "critical-batch", "critical-batch-digits",
        "learning-rate-scaling", "large-batch", "generalization-gap", "algorithmic-stability",
    )),
    Group("optimizers", "derived from norms; the solution each prefers", (
        "norm-steps", "implicit-bias", "implicit-bias-epochs",
    )),
    Group("determinism", "summation order, and rounding errors that grow", (
        "reduction-orders", "summation-error", "trajectory-divergence",
    )),
    Group("time", "seconds and bytes to a target on a cluster", ("time-to-accuracy",)),
)  # fmt: skip

EXPERIMENTS = tuple(name for group in GROUPS for name in group.experiments)


def is_group(name: str) -> bool:
    """Whether a group has that name; no experiment has it then."""
    return any(group.name == name for group in GROUPS)


def find_group(name: str, where: str = "group") -> Group:
    """The group of that name; `UnknownName` with close ones."""
    for group in GROUPS:
        if group.name == name:
            return group
    raise UnknownName("group", name, tuple(group.name for group in GROUPS), where)


def find_experiment(name: str, where: str = "EXPERIMENT") -> Experiment:
    """The experiment of that name (its file has underscores for hyphens); `UnknownName` with close ones."""
    wanted = name.replace("_", "-")
    for group in GROUPS:
        if wanted in group.experiments:
            module = import_module(f"lockstep.learn.lab.experiments.{group.name}.{wanted.replace('-', '_')}")
            return Experiment(wanted, module.QUESTION, module.SOURCE, module.Settings, module.run)
    raise UnknownName("experiment", name, EXPERIMENTS + tuple(group.name for group in GROUPS), where)
