"""Gradient buckets that are reduced beside the backward pass."""

from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json
from lockstep.base.types.shown import Shown
from lockstep.base.units import list_parts, parse_frac, parse_size_B, parse_time_s
from lockstep.show.verbs.pipeline import few_layers
from lockstep.show.verbs.words.algorithms import check_algorithm
from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.network import flags, read_network
from lockstep.show.verbs.words.option import Option, Switch
from lockstep.show.verbs.words.quantity import Quantity, Size, Time
from lockstep.show.verbs.words.question import whole
from lockstep.show.verbs.words.shared import LinkWords

if TYPE_CHECKING:
    from lockstep.simulate.parallel.data import BucketSweep, Layers
    from lockstep.simulate.parallel.group import Traffic
    from lockstep.simulate.program import Timeline


MOST_ROWS = 128

USUAL_BUCKET_B = 25e6
"""Bytes; DistributedDataParallel's bucket_cap_mb is 25."""


@dataclass(frozen=True, slots=True, repr=False)
class Overlap(Shown):
    """Steps of data parallelism by bucket size."""

    ranks: int
    algorithm: str | None
    """Of the all-reduce; None where each takes the fastest way across the levels of a cluster."""
    cluster: str | None
    efficiency: float
    layers: "Layers"
    sweep: "BucketSweep"
    traffic: "Traffic"

    def timeline(self) -> "Timeline":
        """One step with the best of these bucket sizes, of one rank for all."""
        from lockstep.simulate.parallel.data.buckets import timeline

        counts = self.layers.buckets(self.sweep.best.bucket_B)
        return timeline(self.layers, self.traffic, counts, efficiency=self.efficiency)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        named = f"{self.algorithm or 'the fastest'} all-reduce"
        over = "" if self.cluster is None else f" across the levels of {self.cluster}"
        return {
            **self.sweep.to_dict(),
            "ranks": self.ranks,
            "layers": len(self.layers.backward_s),
            "algorithm": self.algorithm,
            "efficiency": self.efficiency,
            "assumptions": [
                f"{self.ranks} ranks; all collectives one after another on one stream, {named}{over}",
                "gradients become ready layer by layer, last layer first; a layer is never cut",
            ],
        }


LAYERS = Option("L", "Number of equal layers, or a list such as 96x5ms:7.3MB,1x9ms:120MB (count x backward : bytes).")
ALGORITHM = Option("A", "Algorithm of the all-reduce.", default="ring; on a cluster the fastest across its levels")
EFFICIENCY = Option("FRAC", "Relative speed of compute while a collective runs.", default="1")


@verb
def overlap(
    *,
    layers: Annotated[str | Quantity, LAYERS],
    backward: Annotated[Time | None, Option("T", "Backward time of all equal layers together.")] = None,
    gradients: Annotated[Size | None, Option("S", "Gradient bytes of all equal layers together.")] = None,
    forward: Annotated[Time, Option("T", "Time of the forward pass before the backward pass.", default="0")] = 0.0,
    bucket_size: Annotated[Size | None, Option("B", "Size at which a bucket closes.", default="25MB")] = None,
    sweep: Annotated[bool, Switch("Compare all bucket sizes that make a difference.")] = False,
    ranks: Annotated[Quantity, Option("N", "Number of data-parallel ranks.", default="8")] = 8,
    algorithm: Annotated[str | None, ALGORITHM] = None,
    efficiency: Annotated[Quantity, EFFICIENCY] = 1.0,
    **link: Unpack[LinkWords],
) -> Overlap:
    """Bucketed all-reduce overlapped with the backward pass, for one bucket size (25 MB) or (`sweep`) for all.

    `layers`: a number of equal layers, that together take `backward` and hold `gradients`; or their list in forward
    order, as `96x5ms:7.3MB,1x9ms:120MB` (count x backward time : gradient bytes). `algorithm`: ring; on a cluster the
    fastest way across its levels, as in a training step.
    """
    from lockstep.simulate.parallel.data import sweep as find
    from lockstep.simulate.parallel.group import Traffic

    read = _layers(layers, backward, gradients, parse_time_s(forward, "--forward"))
    number, share = whole(ranks, "--ranks"), parse_frac(efficiency, "--efficiency")
    network = read_network(number, **link)
    network.check_filled()
    if sweep and bucket_size is not None:
        raise BadInput("conflicts with --sweep, which tries all sizes", "--bucket-size")
    sizes = (
        _sizes(read)
        if sweep
        else [parse_size_B(USUAL_BUCKET_B if bucket_size is None else bucket_size, "--bucket-size")]
    )
    name = "ring" if algorithm is None and network.cluster is None else algorithm
    if name is not None:
        check_algorithm("all-reduce", name, "--algorithm", network)
    with flags("--bucket-size"):
        if not sizes[0] > 0:
            raise BadInput("a bucket must be larger than 0", "bucket_B")
        traffic = Traffic(network.group, name or "")
        found = find(read, traffic, sizes, efficiency=share)
    return Overlap(number, name, network.words()["cluster"], share, read, found, traffic)


def _layers(layers: str | Quantity, backward: Time | None, gradients: Size | None, forward_s: float) -> "Layers":
    from lockstep.simulate.parallel.data import Layers

    text = str(layers)
    if "x" not in text and ":" not in text:
        if backward is None or gradients is None:
            where = "--backward" if backward is None else "--gradients"
            raise BadInput(
                "must be given with a number of layers: the seconds and bytes of all of them together", where
            )
        number = few_layers(whole(layers, "--layers"))
        with flags("--layers"):
            return Layers.equal(
                number, parse_time_s(backward, "--backward"), parse_size_B(gradients, "--gradients"), forward_s
            )
    if backward is not None or gradients is not None:
        raise BadInput("conflicts with the list of --layers", "--backward" if backward is not None else "--gradients")
    backward_s: list[float] = []
    gradient_B: list[float] = []
    for part in list_parts(text, "--layers"):
        count, cross, rest = part.partition("x")
        time, colon, size = rest.partition(":")
        if not cross or not colon:
            raise BadInput(f"{part!r} is not a group of layers; write it like 96x5ms:7.3MB", "--layers")
        number = few_layers(whole(count, "--layers") + len(backward_s)) - len(backward_s)
        backward_s += [parse_time_s(time, "--layers")] * number
        gradient_B += [parse_size_B(size, "--layers")] * number
    with flags("--layers"):
        return Layers(tuple(backward_s), tuple(gradient_B), forward_s)


def _sizes(layers: "Layers") -> list[float]:
    """Sizes that close the first bucket after another layer; of very many, some that grow evenly."""
    import numpy as np

    sizes = sorted({size for size in np.cumsum(layers.gradient_B[::-1]).tolist() if size > 0})
    if not sizes:
        raise BadInput("the layers have no gradients, so there is nothing to put into buckets", "--layers")
    chosen = np.unique(np.geomspace(1, len(sizes), MOST_ROWS).round().astype(int)) - 1
    return sizes if len(sizes) <= MOST_ROWS else [sizes[i] for i in chosen.tolist()]
