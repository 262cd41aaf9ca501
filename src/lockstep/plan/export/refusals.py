"""`Refusals`: collects what a framework cannot express, and raises all of it at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from lockstep.errors import Infeasible, Violation


@dataclass(slots=True)
class Refusals:
    """Reasons against an export to `target`."""

    target: str
    reasons: list[str] = field(default_factory=list)

    def when(self, broken: bool, reason: str) -> None:
        """Notes `reason` if `broken`."""
        if broken:
            self.reasons.append(reason)

    def settle(self) -> None:
        """Raises Infeasible if there is any reason."""
        if self.reasons:
            message = f"{self.target} cannot express this plan: " + "; ".join(self.reasons)
            raise Infeasible(message, [Violation(reason, 1.0, 1.0) for reason in self.reasons])
