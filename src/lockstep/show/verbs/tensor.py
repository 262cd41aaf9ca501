"""The verb about one layer that several ranks share: `tensor`."""

from typing import TYPE_CHECKING, Annotated, Any, Unpack

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.units import (
    PLAIN_FLOPS,
    format_bandwidth,
    format_flops,
    format_frac,
    format_time,
    parse_flops,
    parse_size_B,
)
from lockstep.show.verbs.words.about import needing
from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.kinds import LINK, RATE
from lockstep.show.verbs.words.network import Network, flags, read_network
from lockstep.show.verbs.words.option import Option, Switch
from lockstep.show.verbs.words.quantity import FlopRate, Length, Quantity, Size
from lockstep.show.verbs.words.question import length, whole
from lockstep.show.verbs.words.shared import LinkWords

if TYPE_CHECKING:
    from lockstep.price.tensor_layer import TensorLayer
    from lockstep.simulate.parallel.group import Levels
    from lockstep.simulate.parallel.tensor import Shape

USUAL_OVERLAP = "gradients"
FORMATS = ("bf16", "fp16")
"""Number formats of products, where the rate comes from a device: the first that it has."""
SLOWEST_FLOPS, FASTEST_FLOPS = 1.0, 1e24
MOST_ELEMENT_B = 16.0


FFN = Option("F", "Width of the feed-forward block (two products).", default="4 times --hidden")
FLOPS = Option("R", "FLOP/s that a rank achieves, e.g. 600T.", default="large products on --cluster")
OVERLAP = Option("W", "Traffic overlapped with products: none, gradients (Megatron) or all.", default="gradients")
PARAMS = Option("N", "Parameters of a model of such layers; adds its layers and the bytes of all of them.")
RUN = Switch("Also run the layer on numpy, split and whole, at a size small enough to run immediately.")


@verb
@needing(LINK, RATE)
def tensor(
    *,
    ranks: Annotated[Quantity, Option("N", "Ranks that share the layer.")],
    hidden: Annotated[Quantity, Option("H", "Width of the layer.")],
    heads: Annotated[Quantity, Option("A", "Attention heads; each rank holds whole heads.")],
    seq: Annotated[Length, Option("S", "Tokens per sequence, where 8k is 8,192.")],
    ffn: Annotated[Quantity | None, FFN] = None,
    batch: Annotated[Quantity, Option("N", "Sequences per micro-batch.", default="1")] = 1,
    flops: Annotated[FlopRate | None, FLOPS] = None,
    element_size: Annotated[Size, Option("B", "Bytes per element sent, held and kept.", default="2")] = 2,
    overlap: Annotated[str | None, OVERLAP] = None,
    params: Annotated[Quantity | None, PARAMS] = None,
    sequence_parallel: Annotated[bool, Switch("Split norms and residual by tokens.")] = False,
    run: Annotated[bool, RUN] = False,
    **link: Unpack[LinkWords],
) -> "TensorLayer":
    """One transformer layer on `ranks` ranks: computing, traffic and what of it hides, by overlap policy and ranks.

    `ffn`: width of the feed-forward block (4 times `hidden`). `flops`: FLOP/s that a rank's products achieve; with a
    cluster those of its device. `overlap`: none, gradients (the default) or all. `run`: also run it on numpy, scaled
    down where it is large, and compare it with the layer on one rank. `params`: those of a model of such layers, whose
    number follows. Raises BadInput.
    """
    from lockstep.price.tensor_layer import tensor_layer
    from lockstep.simulate.parallel.tensor import prove

    number, shape = whole(ranks, "--ranks"), _shape(batch, seq, hidden, heads, ffn)
    network = read_network(number, **link)
    element_B = _element_B(element_size)
    rate, said = _rate(flops, network)
    policy = _overlap(overlap, number)
    if number == 1 and (sequence_parallel or run):
        raise BadInput("one rank has nothing to split", "--sequence-parallel" if sequence_parallel else "--run")
    with flags("--ranks"):
        shape.layer(number, sequence_parallel)
        proof = prove(shape, number, sequence_parallel) if run else None
        return tensor_layer(
            shape, number, _groups(shape, network, sequence_parallel, link), rate, overlap=policy,
            sequence_parallel=sequence_parallel, element_B=element_B, proof=proof,
            assumptions=(_linked(network), said, *_assumptions(sequence_parallel)), params=_params(params, shape),
        )  # fmt: skip


def _shape(batch: Quantity, seq: Length, hidden: Quantity, heads: Quantity, ffn: Quantity | None) -> "Shape":
    """The layer in words as sizes."""
    from lockstep.describe.workload.checks import LIMITS
    from lockstep.simulate.parallel.tensor import Shape

    width = _size(hidden, "--hidden", LIMITS["hidden"])
    inner = 4 * width if ffn is None else _size(ffn, "--ffn", LIMITS["ffn"])
    with flags("--hidden"):
        return Shape(whole(batch, "--batch"), length(seq), width, _size(heads, "--heads", LIMITS["heads"]), inner)


def _size(value: Quantity, where: str, most: int) -> int:
    number = whole(value, where)
    if number > most:
        raise BadInput(f"must be at most {most:,}, got {number:,}", where)
    return number


def _element_B(size: Size) -> float:
    element_B = parse_size_B(size, "--element-size")
    if not 0 < element_B <= MOST_ELEMENT_B:
        raise BadInput(f"must be above 0 and at most {MOST_ELEMENT_B:g} bytes, got {element_B:g}", "--element-size")
    return element_B


def _params(params: Quantity | None, shape: "Shape") -> float | None:
    """Parameters of the model, of one such layer or more."""
    if params is None:
        return None
    number = whole(params, "--params")
    if number < shape.weight_elems:
        raise BadInput(f"must be at least those of one layer, {shape.weight_elems:,}", "--params")
    return float(number)


def _overlap(overlap: str | None, ranks: int) -> str:
    from lockstep.simulate.parallel.tensor.traffic import OVERLAPS

    if overlap is None:
        return USUAL_OVERLAP
    if overlap not in OVERLAPS:
        raise UnknownName("overlap", overlap, OVERLAPS, "--overlap")
    if ranks == 1:
        raise BadInput("one rank sends nothing that could be hidden", "--overlap")
    return overlap


def _rate(flops: FlopRate | None, network: Network) -> tuple[float, str]:
    """FLOP/s of a rank, and what is assumed about it."""
    if flops is not None:
        if isinstance(flops, str):
            PLAIN_FLOPS.check(flops, "--flops")
        rate = parse_flops(flops, "--flops")
        if not SLOWEST_FLOPS <= rate <= FASTEST_FLOPS:
            raise BadInput(f"must be {SLOWEST_FLOPS:g} to {FASTEST_FLOPS:g} FLOP/s, got {rate:g}", "--flops")
        return rate, f"all kernels compute at {format_flops(rate)}, however small their share of the layer"
    if network.cluster is None:
        raise BadInput("must be given: FLOP/s that a rank achieves, or --cluster", "--flops")
    device = network.cluster.device
    dtype = next((one for one in FORMATS if one in device.peak_flops), None)
    if dtype is None:
        raise BadInput(f"{device.name} has no rate for {FORMATS[0]}; give the rate it achieves", "--flops")
    frac = device.efficiency.matmul_max_frac
    rate = device.peak(dtype) * frac
    reached = f"{format_flops(rate)}, {format_frac(frac)} of the peak of {device.name} in {dtype}"
    return rate, f"all kernels compute at {reached}: what large products reach; small shares of a layer are slower"


def _groups(shape: "Shape", network: Network, sequence_parallel: bool, link: Any) -> "dict[int, Levels]":
    """Levels of the ranks asked for and of 1, 2, 4, ... ranks that divide the layer and fit on the cluster."""
    found = {network.ranks: network.group}
    most = shape.heads if network.cluster is None else min(shape.heads, network.cluster.num_devices)
    for ranks in (2**power for power in range(most.bit_length())):
        if ranks <= most and ranks not in found and shape.splits_over(ranks, sequence_parallel):
            try:
                found[ranks] = read_network(ranks, **link).group
            except BadInput:
                continue  # ranks that do not fill whole nodes
    return found


def _linked(network: Network) -> str:
    """What the ranks talk over."""
    told = f"{format_time(float(network.link.latency_s))} and {format_bandwidth(float(network.link.bandwidth_Bps))}"
    if network.cluster is None:
        return f"ranks on one link of {told} each way, ring algorithms"
    inside = f"{format_time(float(network.inner.latency_s))} and {format_bandwidth(float(network.inner.bandwidth_Bps))}"
    if network.node_ranks is None:
        return f"neighbouring devices of {network.cluster.name}, {inside} each way in a node"
    return f"neighbouring devices of {network.cluster.name}, {inside} each way in a node, {told} between nodes"


def _assumptions(sequence_parallel: bool) -> tuple[str, ...]:
    """What holds of every answer."""
    from lockstep.simulate.parallel.tensor.traffic import CHUNKS

    again = ("inputs that are kept cut and gathered again for gradients of weights: not counted",)
    return (
        "a feed-forward block of two products; a gated one of width f has three, so give 1.5 f",
        "norms, activation function and residual sums take no time; causal scores are counted in full",
        f"traffic overlaps with products, not with the attention core; "
        f"with overlap all, products are cut into {CHUNKS} pieces",
        "attention is fused and nothing is recomputed",
        *(again if sequence_parallel else ()),
    )
