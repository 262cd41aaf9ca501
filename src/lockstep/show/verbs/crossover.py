"""Sizes at which algorithms of a collective tie."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.base.errors import BadInput
from lockstep.show.verbs.words.about import needing
from lockstep.show.verbs.words.algorithms import read_group, read_names
from lockstep.show.verbs.words.calling import strict, verb
from lockstep.show.verbs.words.kinds import LINK
from lockstep.show.verbs.words.network import flags
from lockstep.show.verbs.words.option import Option
from lockstep.show.verbs.words.quantity import Quantity
from lockstep.show.verbs.words.shared import OP, RANKS, LinkWords

if TYPE_CHECKING:
    from lockstep.simulate.collectives import BestMap, Crossover


@verb
@needing(LINK)
def crossover(
    op: Annotated[str, OP],
    *,
    ranks: Annotated[Quantity, RANKS],
    between: Annotated[str | None, Option("A,B", "Algorithms to compare.", default="all that can win")] = None,
    **link: Unpack[LinkWords],
) -> "Crossover":
    """Sizes at which the fastest algorithm changes, exactly; `between` names the ones to compare."""
    from lockstep.simulate.collectives import crossover as find
    from lockstep.simulate.collectives import crossover_on_levels

    network = read_group(ranks, link)
    names = read_names(op, between, "--between", network)
    with flags("--between"):
        if network.spans_levels:
            return crossover_on_levels(op, network.levels, None if between in (None, "all") else names)
        return find(op, network.ranks, network.link, names)


@strict
def best_algorithms(op: str, *, ranks: Quantity, between: str | None = None, **link: Unpack[LinkWords]) -> "BestMap":
    """The fastest algorithm over group sizes up to `ranks` (powers of two) and sizes from 1 KiB to 4 GiB.

    On a cluster every group spans the levels that its ranks span; groups that do not fill whole nodes are left out.
    """
    from lockstep.simulate.collectives import best_map, best_map_on_levels

    network = read_group(ranks, link)
    names = read_names(op, between, "--between", network)
    groups, sizes_B = [2**i for i in range(1, network.ranks.bit_length())] or [1], [2.0**i for i in range(10, 33)]
    if not network.spans_levels:
        return best_map(op, groups, sizes_B, network.link, names)
    levels = {}
    for number in groups:
        with suppress(BadInput):
            levels[number] = read_group(number, link).levels
    return best_map_on_levels(op, levels, sizes_B, None if between in (None, "all") else names)
