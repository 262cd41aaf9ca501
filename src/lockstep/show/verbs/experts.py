"""One mixture-of-experts layer: load, drops and all-to-all."""

from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.base.errors import BadInput
from lockstep.base.units import parse_number, parse_size_B
from lockstep.show.verbs.words.about import needing
from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.kinds import LINK
from lockstep.show.verbs.words.network import flags, read_network
from lockstep.show.verbs.words.option import Option
from lockstep.show.verbs.words.quantity import Quantity, Size
from lockstep.show.verbs.words.question import whole
from lockstep.show.verbs.words.shared import RANKS, SEED, LinkWords

if TYPE_CHECKING:
    from lockstep.simulate.parallel.expert import MoeLayer


_ROUTER = "Router"


SKEW = Option("Z", "Zipf exponent of the experts' popularity.", panel=_ROUTER, default="0")
CAPACITY_FACTOR = Option("C", "Capacity of an expert over the mean load of a rank's tokens.", default="drops nothing")
TEMPERATURE = Option("T", "Router temperature; above 1 it flattens the popularity.", panel=_ROUTER, default="1")
NOISE = Option("G", "Scale of the Gumbel noise; at 0 all tokens are routed alike.", panel=_ROUTER, default="1")
PLACEMENT = Option("P", "Placement of experts on ranks: contiguous, round-robin or balanced.", default="contiguous")


@verb
@needing(LINK)
def experts(
    *,
    experts: Annotated[Quantity, Option("E", "Number of routed experts.")],
    top_k: Annotated[Quantity, Option("K", "Experts per token.", default="2")] = 2,
    tokens: Annotated[Quantity, Option("T", "Tokens of all ranks together.")],
    ranks: Annotated[Quantity, RANKS],
    skew: Annotated[Quantity, SKEW] = 0.0,
    capacity_factor: Annotated[Quantity | None, CAPACITY_FACTOR] = None,
    token_size: Annotated[Size, Option("S", "Bytes per token sent.", default="8192, 4096 wide in bf16")] = 8192,
    shared: Annotated[Quantity, Option("N", "Shared experts, which see every token.", default="0")] = 0,
    temperature: Annotated[Quantity | None, TEMPERATURE] = None,
    noise: Annotated[Quantity, NOISE] = 1.0,
    placement: Annotated[str, PLACEMENT] = "contiguous",
    seed: Annotated[Quantity, SEED] = 0,
    **link: Unpack[LinkWords],
) -> "MoeLayer":
    """Load, drops and all-to-all of one mixture-of-experts layer; `tokens` of all ranks together."""
    from lockstep.simulate.parallel.expert import experts as find

    number = whole(ranks, "--ranks")
    if temperature is not None and not parse_number(skew, "--skew"):
        raise BadInput("flattens the popularity of experts, which is flat without --skew", "--temperature")
    network = read_network(number, **link)
    with flags("--experts"):
        return find(
            whole(experts, "--experts"),
            whole(top_k, "--top-k"),
            whole(tokens, "--tokens"),
            number,
            network.inner,
            skew=parse_number(skew, "--skew"),
            capacity_factor=None if capacity_factor is None else parse_number(capacity_factor, "--capacity-factor"),
            token_B=parse_size_B(token_size, "--token-size"),
            shared=whole(shared, "--shared", minimum=0),
            temperature=1.0 if temperature is None else parse_number(temperature, "--temperature"),
            noise=parse_number(noise, "--noise"),
            placement=placement,
            node_ranks=network.node_ranks,
            outer=network.link if network.node_ranks else None,
            seed=whole(seed, "--seed", minimum=0),
        )
