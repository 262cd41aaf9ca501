"""`Question`: model, cluster and recipe as objects, from names, paths and quantities with units.

What is chosen on the user's behalf (a sequence length, a batch rounded to whole sequences) is written into
`Recipe.notes`, from where it reaches the assumptions of every answer.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from lockstep.base.errors import BadInput
from lockstep.base.errors import located as located
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json
from lockstep.base.units import COUNT, LENGTH, format_count, parse_count, parse_integer
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.named import Cluster, Model
from lockstep.show.verbs.words.quantity import Length, Quantity
from lockstep.show.verbs.words.recipe import RecipeWords, read_recipe
from lockstep.show.verbs.words.run_file import READ

if TYPE_CHECKING:
    from lockstep.price.layout import Job, Layout, Recipe


GIVE_CLUSTER = "give the cluster to train on, e.g. dgx-h100:64"
GIVE_BATCH = "give --batch (sequences, e.g. 512) or --batch-tokens (e.g. 4M)"
USUAL_SEQ = 8192
"""Longest sequence assumed when none is given: models stretched to 128k tokens were trained on this one."""
LIMITS = {"--seq": 10**8, "--batch": 10**9, "--gpus": 10**7, "--params": 10**13}
"""Beyond these a number is taken for a mistake; their products stay below 2**63."""
DEGREES = ("tp", "pp", "cp", "ep", "vpp", "micro_batch")


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be trained, how, and on what."""

    model: Model
    cluster: Cluster
    recipe: "Recipe"

    @property
    def job(self) -> "Job":
        """The question apart from the machine."""
        from lockstep.price.layout import Job

        return Job(self.model, self.recipe, self.cluster.num_devices)


@strict
def read_question(
    model: str | Path | Model,
    cluster: str | Path | Cluster | None,
    *,
    gpus: Quantity | None = None,
    batch: Quantity | None = None,
    batch_tokens: Quantity | None = None,
    seq: Length | None = None,
    accept_unknown: str | None = None,  # of the file, which `strict` has read by now
    **recipe: Unpack[RecipeWords],
) -> Question:
    """The question, given as options, as objects. Exactly one of `batch` and `batch_tokens` must be given."""
    from lockstep.describe.workload import model as find_model

    with located("MODEL"):
        wanted = find_model(model) if isinstance(model, str | Path) else model
    if cluster is None and batch is None and batch_tokens is None:
        raise BadInput(f"{GIVE_CLUSTER}; {GIVE_BATCH}", "--cluster")
    machine = read_cluster(cluster, gpus)
    tokens, notes = _sequence(wanted, seq)
    if batch_tokens is not None and getattr(wanted, "patches", None) is not None:
        raise BadInput(f"{wanted.name} reads images; give --batch, their number, e.g. 1024", "--batch-tokens")
    sequences, rounded = _sequences(batch, batch_tokens, tokens, machine.num_devices)
    asked = read_recipe(machine, recipe, wanted, seq=tokens, batch=sequences, notes=(*rounded, *notes, *READ.get()))
    return Question(wanted, machine, asked)


def read_cluster(cluster: str | Path | Cluster | None, gpus: Quantity | None = None) -> Cluster:
    """The cluster of that name or path, with `gpus` devices instead of its own number if given."""
    from lockstep.describe.hardware import cluster as find_cluster

    if cluster is None:
        raise BadInput(GIVE_CLUSTER, "--cluster")

    devices = None if gpus is None else whole(gpus, "--gpus")
    given = cluster
    if isinstance(cluster, str | Path):
        with located("--cluster"):
            cluster = find_cluster(cluster)
    if devices is None:
        return cluster
    with located("--gpus"):
        return find_cluster(given, devices) if isinstance(given, str | Path) else cluster.resized(devices)


def whole(value: Quantity, where: str, minimum: int = 1, units: Mapping[str, float] = COUNT) -> int:
    """A whole number, below the limit for its flag."""
    number = parse_integer(value, where, minimum=minimum, units=units)
    limit = LIMITS.get(where, 10**9)
    if number > limit:
        raise BadInput(f"must be at most {limit:,}, got {number:,}", where)
    return number


def length(value: Length) -> int:
    """Tokens of a sequence, where k and M are powers of 1,024."""
    return whole(value, "--seq", units=LENGTH)


def batches_of(values: Sequence[Quantity]) -> list[int]:
    """The global batches among the values of a list; one that is no number is refused when it is asked."""
    found = []
    for value in values:
        with suppress(BadInput):
            found.append(whole(value, "--batch"))
    return found


def named_folder(given: str | Path, where: str) -> Path:
    """The path of a folder, which need not exist. Raises BadInput for no name, and for one that no system takes."""
    if not str(given) or "\0" in str(given):
        raise BadInput("must name a folder; write . for this one", where)
    return Path(given)


def existing_folder(given: str | Path, where: str) -> Path:
    """The path of a folder that is there. Raises BadInput."""
    path = named_folder(given, where)
    if not os.path.isdir(path):
        raise BadInput(f"{str(path)!r} is not a folder", where)
    return path


def _sequence(model: Model, seq: Length | None) -> tuple[int, tuple[str, ...]]:
    """Tokens per sequence, and a note when they were not given. An image is one sequence: of its patches, or of one
    token for a convolutional network.
    """
    from lockstep.describe.workload import Transformer

    patches = model.patches if isinstance(model, Transformer) else None
    if not isinstance(model, Transformer) or patches is not None:
        if seq is not None:
            how = "" if patches is None else "; its length follows from image and patch of the model"
            raise BadInput(f"{model.name} reads images, not sequences; leave --seq out{how}", "--seq")
        return (1, ()) if patches is None else (patches.tokens, ())
    if seq is not None:
        return length(seq), ()
    chosen = min(model.max_positions, USUAL_SEQ)
    longest = "its longest" if chosen == model.max_positions else f"it takes up to {model.max_positions:,}"
    return chosen, (f"sequences of {chosen:,} tokens, as --seq was not given ({model.name}: {longest})",)


def _sequences(
    batch: Quantity | None, batch_tokens: Quantity | None, seq: int, devices: int
) -> tuple[int, tuple[str, ...]]:
    """Sequences per step, and a note when a number of tokens had to be rounded to whole sequences."""
    if batch is not None and batch_tokens is not None:
        raise BadInput("give either --batch or --batch-tokens, not both", "--batch")
    if batch is not None:
        return whole(batch, "--batch"), ()
    if batch_tokens is None:
        raise BadInput(GIVE_BATCH, "--batch")
    tokens = parse_count(batch_tokens, "--batch-tokens")
    if tokens < seq:
        raise BadInput(f"{batch_tokens} tokens are less than one sequence of {seq} tokens", "--batch-tokens")
    if tokens > seq * LIMITS["--batch"]:
        raise BadInput(f"{batch_tokens} tokens are too many for one step", "--batch-tokens")
    sequences = even_batch(tokens / seq, devices)
    if sequences * seq == tokens:
        return sequences, ()
    note = f"batch of {sequences:,} sequences = {format_count(sequences * seq)} tokens, the nearest to "
    return sequences, (note + f"{format_count(tokens)} that {devices:,} devices can share out",)


def even_batch(wanted: float, devices: int) -> int:
    """Whole sequences near `wanted` that many layouts can share out.

    The nearest multiple of the largest divisor of the devices that has one at most a sixteenth off; exact halves go up.
    """
    from lockstep.price.layout import divisors

    near = [max(1, int(wanted / unit + 0.5)) * unit for unit in divisors(devices)]
    return next((one for one in reversed(near) if abs(one - wanted) <= wanted / 16), near[0])


def read_layout(job: "Job", words: Mapping[str, object], cluster: Cluster | None = None) -> "Layout":
    """The layout that `words` describe. `dp` defaults to what is left of the devices, the schedule follows `vpp`.

    The best layers per stage are those on `cluster`.
    """
    from lockstep.price.layout import check
    from lockstep.show.verbs.words.stages import BEST, any_stages, best_stages, read_stages

    given, best = dict(words), words.get("stages") == BEST
    if given.get("stages") is not None:
        given["stages"] = any_stages(job, given) if best else read_stages(given["stages"])
    layout = any_layout(job.devices, given)
    if words.get("dp") is None and layout.world != job.devices:
        _check_degrees(layout, job)
    check(layout, job)
    return best_stages(job, cluster, layout) if best else layout


def _check_degrees(layout: "Layout", job: "Job") -> None:
    """Says which degree does not fit, when `dp` is left to follow; the model's own rules come first."""
    from lockstep.price.layout import broken_by, refuse
    from lockstep.price.layout.rules import BATCH, EXPERT_RANKS, SCHEDULE, WORLD, nearest

    of_replicas = (WORLD, BATCH, SCHEDULE, EXPERT_RANKS, "shard divides the data ranks")
    refuse([rule for rule in broken_by(layout, job) if rule.key not in of_replicas], layout, job)
    taken = layout.tp * layout.pp * layout.cp
    flag = next((f"--{name}" for name in ("tp", "pp", "cp") if job.devices % getattr(layout, name)), "--pp")
    raise BadInput(
        f"tp*pp*cp = {layout.tp}*{layout.pp}*{layout.cp} = {taken} does not divide the {job.devices} devices; "
        f"try {nearest(job.devices, taken)} in total",
        flag,
    )


def any_layout(devices: int, words: Mapping[str, Any]) -> "Layout":
    """The layout that `words` describe, which may break rules."""
    from lockstep.price.layout import Layout

    given = {name: value for name, value in words.items() if value is not None}
    degrees: Json = {name: whole(given.pop(name, 1), f"--{name.replace('_', '-')}") for name in DEGREES}
    taken = degrees["tp"] * degrees["pp"] * degrees["cp"]
    if isinstance(given.get("order"), str):
        given["order"] = tuple(given["order"].split("-"))
    return Layout(
        dp=whole(given.pop("dp", max(1, devices // taken)), "--dp"),
        zero=whole(given.pop("zero", 0), "--zero", minimum=0),
        shard=whole(given.pop("shard", 0), "--shard", minimum=0),
        etp=whole(given.pop("etp", 0), "--etp", minimum=0),
        mtp_stage=whole(given.pop("mtp_stage"), "--mtp-stage", minimum=0) if "mtp_stage" in given else None,
        schedule=given.pop("schedule", "interleaved" if degrees["vpp"] > 1 else "1f1b"),
        **degrees,
        **given,
    )


def positive(number: float, where: str) -> float:
    """`number`, which must not be zero."""
    if number <= 0:
        raise BadInput(f"must be more than zero, got {number:g}", where)
    return number
