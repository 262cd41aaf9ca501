"""Messages that it takes to sum parameters over workers."""

from typing import TYPE_CHECKING, Annotated

from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.network import flags
from lockstep.show.verbs.words.option import Option
from lockstep.show.verbs.words.quantity import Quantity
from lockstep.show.verbs.words.question import whole

if TYPE_CHECKING:
    from lockstep.simulate.collectives import Messages


@verb
def messages(
    workers: Annotated[Quantity, Option("N", "Workers that hold a copy of the parameters.")],
    params: Annotated[Quantity, Option("P", "Number of parameters, e.g. 25M.")],
    *,
    program: Annotated[
        str | None,
        Option("NAME", "Program: all, or one of all-to-all, parameter-server, ring, tree ...", default="three of them"),
    ] = None,
) -> "Messages":
    """Messages and elements of one synchronisation of `params` parameters, counted from the programs."""
    from lockstep.simulate.collectives import messages as count

    with flags("--program"):
        return count(whole(workers, "--workers"), whole(params, "--params"), program)
