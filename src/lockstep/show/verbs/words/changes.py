"""`tp=8 pp=2`: a run as changes of another one. `read_changes(text)` gives the options by keyword."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.types.plain import Json
from lockstep.show.verbs.words.option import Switch, declared_in
from lockstep.show.verbs.words.plan_file import kept_layout, layout_options
from lockstep.show.verbs.words.shared import LAYOUT_WORDS, LayoutWords

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockstep.price.layout import Layout

CHANGE = re.compile(r"\s*[A-Za-z_-]+=")
ALSO = ("cluster",)
TRUTHS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


def is_change(given: object) -> bool:
    """Whether a run is said as changes of another one."""
    return isinstance(given, str) and CHANGE.match(given) is not None


def read_changes(text: str, where: str) -> Json:
    """Options by keyword; each is written OPTION=VALUE. Raises BadInput and UnknownName."""
    declared, found = declared_in(LayoutWords), Json()
    for part in text.split():
        name, equals, value = part.partition("=")
        key = name.strip("-").replace("-", "_")
        if not equals or not value:
            raise BadInput(f"{part[:60]!r} must be written OPTION=VALUE, such as tp=8", where)
        if key not in declared and key not in ALSO:
            raise UnknownName("option", key, (*ALSO, *declared), where)
        if key in found:
            raise BadInput(f"{key} is given twice", where)
        found[key] = _truth(part, value, where) if isinstance(declared.get(key), Switch) else value
    return found


def _truth(part: str, value: str, where: str) -> bool:
    if value.lower() not in TRUTHS:
        raise BadInput(f"{part[:60]!r} must be yes or no", where)
    return TRUTHS[value.lower()]


def changed_layout(layout: Layout, changes: Mapping[str, object]) -> Json:
    """The options of a layout with some changed; `dp` follows the other degrees."""
    kept = kept_layout(layout_options(layout), {*changes})
    return kept | {name: value for name, value in changes.items() if name in LAYOUT_WORDS}
