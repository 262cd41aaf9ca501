"""The verb `calibrate`: how fast one's own software and links are, from a few measured steps and nccl-tests."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from lockstep.base.documents.files import writable_yaml, write_text
from lockstep.base.errors import located
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json
from lockstep.base.types.shown import Shown
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.named import Cluster
from lockstep.show.verbs.words.option import Argument, Option
from lockstep.show.verbs.words.question import read_cluster

if TYPE_CHECKING:
    from lockstep.check.validation.calibration import Calibration


@dataclass(frozen=True, slots=True, repr=False)
class Calibrated(Shown):
    """What was found, and the cluster file that holds it."""

    found: "Calibration"
    path: str | None

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return self.found.to_dict() | {"file": self.path}


CLUSTER = Option("C", "Cluster that was measured, of any size.", flag="-c", names="clusters")
CASE = Option(
    "FILE",
    "A measured step as `lockstep case` reads it: model, layout, devices and step_time_s, tokens_per_s or "
    "mfu_frac. Several are several steps; two sizes tell links from kernels.",
    repeated=True,
)
FILE = Argument("FILE", "Output of nccl-tests or the OSU micro-benchmarks, or a CSV of lockstep bench.", repeated=True)


@strict
def calibrate(
    *file: Annotated[str | Path, FILE],
    cluster: Annotated[str | Path | Cluster, CLUSTER],
    case: Annotated[Sequence[str | Path], CASE] = (),
    out: Annotated[str | Path | None, Option("FILE", "Cluster file to write, ending in .yaml.", flag="-o")] = None,
) -> Calibrated:
    """Finds how much longer than predicted kernels and host take, what links reach, and writes a cluster file.

    Args: `file`: measured collectives, whose link replaces that of the level they ran over; `case`: measured steps;
    `out`: for `plan` and every other verb that takes a cluster. Raises BadInput, and Infeasible where a constant
    predicts the times of a FILE better.
    """
    from lockstep.check.validation.calibration import calibrate as find
    from lockstep.check.validation.calibration import measured_steps
    from lockstep.check.validation.cases import study
    from lockstep.run.fit.cluster_file import paced_yaml, with_measured_link

    path = None if out is None else writable_yaml(out, "--out")
    base = read_cluster(cluster)
    for one in file:
        with located("FILE"):
            base = with_measured_link(base, one)
    with located("--case"):
        steps = [step for one in case for step in measured_steps(base, study(str(one)))]
        found = find(base, steps)
    if path is not None:
        names = ", ".join(step.name for step in steps)
        entry = found.entry(f"lockstep calibrate on {names}", datetime.now(UTC).strftime("%Y-%m-%d"))
        write_text(path, paced_yaml(found.cluster, path.stem, entry.model_dump(exclude_none=True)), "--out")
    return Calibrated(found, None if path is None else str(path))
