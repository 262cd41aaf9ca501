"""What a textbook chapter claims of distributed training, whether it is so, and what decides it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.base.types.plain import Json
from lockstep.base.units import format_time
from lockstep.check.evidence.claims.entry import KINDS, VERDICTS
from lockstep.show.verbs.claims import LIST
from lockstep.show.verbs.claims import claims as find
from lockstep.show.views import claims as view
from lockstep.show.views.parts.claims_plot import CONVERGE, plot_claim
from lockstep.show.web.screen import Field, Screen
from lockstep.show.web.sections import sections

if TYPE_CHECKING:
    from lockstep.check.evidence.claims.entry import Entry
    from lockstep.show.verbs.claims import Claims
    from lockstep.show.web.asked import Asked

FILTERS = ("kind", "verdict", "search")
YES = "yes"


def answer(asked: Asked) -> Claims:
    """The list, or the card of an item; with `run`, what decides it is run."""
    words = {name: value for name, value in asked.words.items() if value}
    item = words.get("claim", "")
    run = bool(item) and words.get("run") == YES
    filters: Any = {} if item else {name: words[name] for name in FILTERS if name in words}
    found: Claims = asked.kept(
        ("claim", item, run, *filters.items()),
        lambda: find(*filter(None, [item]), run=run, progress=asked.check, **filters),
    )
    return found


def words(asked: Asked) -> dict[str, str]:
    """Filters go with the list, not with an item."""
    item = asked.words.get("claim", "")
    keep = ("claim", "run") if item else FILTERS
    return {name: value for name, value in asked.words.items() if name in keep}


def data(found: Claims, asked: Asked) -> Json:
    """A list of items, or a card."""
    if found.asked == LIST:
        return {
            "title": f"{len(found.entries)} items",
            "items": [
                {
                    "id": one.entry.id,
                    "title": one.entry.title,
                    "verdict": one.verdict,
                    "style": view.STYLES.get(one.verdict, "dim").split()[-1],
                    "kind": one.entry.kind,
                    "picture": _pictured(one.entry),
                }
                for one in found.entries
            ],
        }
    ran = asked.words.get("run") == YES
    entry = found.entries[0].entry if found.entries else None
    return {
        "title": asked.words["claim"],
        "blocks": sections(view.render, found),
        "run": bool(entry and entry.every_check()) and not ran,
        "seconds": f"about {format_time(max(0.1, found.entries[0].seconds), 2)}" if found.entries else "",
        "picture": entry is not None and _pictured(entry),
        "caption": "" if entry is None else entry.title,
    }


def _pictured(entry: Entry) -> bool:
    """Whether an item has a picture, or the experiment that decides it."""
    return bool(entry.figures) or entry.command.startswith(CONVERGE)


SCREEN = Screen(
    title="Learn",
    verb="claims",
    fields=(
        Field("search", "Words", example="bubble"),
        Field("kind", "Kind", " ".join(KINDS), example="all"),
        Field("verdict", "Verdict", " ".join(VERDICTS), example="all"),
    ),
    words=words,
    answer=answer,
    data=data,
    picture=plot_claim,
)
