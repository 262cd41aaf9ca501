"""One mixture-of-experts layer: load, drops and all-to-all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from lockstep.errors import BadInput
from lockstep.units import parse_number, parse_size_B
from lockstep.verbs.words.calling import verb
from lockstep.verbs.words.network import LinkWords, flags, read_network
from lockstep.verbs.words.quantity import Quantity, Size
from lockstep.verbs.words.question import whole

if TYPE_CHECKING:
    from lockstep.parallel.expert import MoeLayer


@verb
def experts(
    *,
    experts: Quantity,
    top_k: Quantity = 2,
    tokens: Quantity,
    ranks: Quantity,
    skew: Quantity = 0.0,
    capacity_factor: Quantity | None = None,
    token_size: Size = 8192,
    shared: Quantity = 0,
    temperature: Quantity | None = None,
    noise: Quantity = 1.0,
    placement: str = "contiguous",
    seed: Quantity = 0,
    **link: Unpack[LinkWords],
) -> MoeLayer:
    """Load, drops and all-to-all of one mixture-of-experts layer; `tokens` of all ranks together."""
    from lockstep.parallel.expert import experts as find

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
