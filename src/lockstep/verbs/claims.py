"""The verb about what the field says: `claims`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from lockstep.errors import BadInput
from lockstep.types.plain import Json, picked, plain
from lockstep.types.shown import Shown
from lockstep.verbs.words.calling import strict
from lockstep.verbs.words.option import Argument, Option
from lockstep.verbs.words.quantity import Quantity
from lockstep.verbs.words.question import whole

if TYPE_CHECKING:
    from lockstep.lab import Check
    from lockstep.lab.claims import Claim

EVERY = "all"


@dataclass(frozen=True, slots=True)
class Decided:
    """A claim, and what its experiment found; `evidence` is None where no experiment ran."""

    claim: Claim
    evidence: tuple[Check, ...] | None = None

    @property
    def as_known(self) -> bool:
        """Whether the experiment, if it ran, found what the table of claims says."""
        return self.evidence is None or (bool(self.evidence) and all(one.ok for one in self.evidence))

    @property
    def verdict(self) -> str:
        """`holds`, `false`, or `undecided` where this run's checks did not find what earlier ones did."""
        if not self.as_known:
            return "undecided"
        return "holds" if self.claim.holds else "false"

    def to_dict(self) -> Json:
        """Plain JSON form."""
        claim = self.claim
        return {
            "id": claim.ids[0],
            **picked(claim, "ids statement"),
            "verdict": self.verdict,
            "experiment": claim.experiment,
            "evidence": plain(self.evidence),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Claims(Shown):
    """Claims of the field with their verdicts; `asked`: an id, `all`, or None for the list alone."""

    decided: tuple[Decided, ...]
    asked: str | None

    @property
    def ok(self) -> bool:
        """Whether the answer is yes: of an id that all its claims hold, of `all` that each is as known."""
        if self.asked in (None, EVERY):
            return all(one.as_known for one in self.decided)
        return all(one.verdict == "holds" for one in self.decided)

    def count(self, verdict: str) -> int:
        """Claims with that verdict."""
        return sum(one.verdict == verdict for one in self.decided)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {"asked": self.asked, "claims": plain(self.decided)}


@strict
def claims(
    claim: Annotated[
        str | None,
        Argument("ID", "Claim to test, e.g. A.5; or all, which takes minutes. All claims are listed when omitted."),
    ] = None,
    *,
    seed: Annotated[Quantity | None, Option("N", "Random seed of the experiments. (default: 0)")] = None,
    progress: Callable[[int, int], None] | None = None,
) -> Claims:
    """What the field says about how training converges, and whether it is so.

    With the id of a claim, such as `A.5`, the experiments that decide run with their default settings and `seed`; with
    `all`, every one does, which takes minutes; without, the claims are listed. `seed`: 0 when left out.
    `progress(experiments done, of)`. Raises BadInput, UnknownName.
    """
    from lockstep.lab.claims import claims as known
    from lockstep.lab.claims import find_claims

    if claim is None:
        if seed is not None:
            raise BadInput("no experiment runs for the list; name a claim, or all", "--seed")
        return Claims(tuple(Decided(one) for one in known()), None)
    chosen = known() if claim == EVERY else find_claims(claim)
    return Claims(_decide(chosen, 0 if seed is None else whole(seed, "--seed", minimum=0), progress), claim)


def _decide(chosen: Sequence[Claim], seed: int, progress: Callable[[int, int], None] | None) -> tuple[Decided, ...]:
    """The claims with the evidence of their experiments, each of which runs once."""
    from lockstep.lab import find_experiment

    names = list(dict.fromkeys(one.experiment for one in chosen))
    found = {}
    for done, name in enumerate(names, 1):
        found[name] = find_experiment(name).answer({}, seed)
        if progress is not None:
            progress(done, len(names))
    return tuple(Decided(one, one.evidence(found[one.experiment])) for one in chosen)
