"""Settings of a table that follow from other settings: of another section, or of the options of another format."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from lockstep.base.types.plain import Json

if TYPE_CHECKING:
    from lockstep.decide.planner.imports.formats import Format

PARTS = ("read", "left-out", "harmless", "yours")


def copy_sections(data: Json) -> None:
    """Adds the settings of sections that inherit from others; its own, and those of earlier parts, take precedence."""
    known = {word for part in PARTS for word in data[part]}
    for section, others in data.get("copies", {}).items():
        for part in PARTS:
            for word, kind in list(data[part].items()):
                other = next((one for one in others if word.startswith(one)), "")
                copied = section + word.removeprefix(other)
                if other and copied not in known:
                    known.add(copied)
                    data[part][copied] = kind


def add_fields(data: Json, like: Format, names: Collection[str]) -> None:
    """Adds the fields of config classes that stand for options of another format, with their class and its kind."""
    own = {word for part in PARTS for word in data[part]}
    data["options"] = {}
    for word in sorted(names):
        option, off = _option_of(word.rpartition(".")[2], data, like)
        known, kind = like.kind_of(option)
        if known != "unknown":
            data["options"][word] = (option, off)
        if word in own or known == "unknown":
            continue
        if known == "read":
            data["read"][word] = [kind, like.read[option][1]]
        elif known == "left out":
            data["left-out"][word] = [kind, like.left_out[option][1], *((True,) if off else like.left_out[option][2])]
        else:
            data[known][word] = "parsed"


def _option_of(field_name: str, data: Json, like: Format) -> tuple[str, bool]:
    """The option that a field stands for, and whether the option is there where the field is false."""
    option = data["fields"].get(field_name, field_name.replace("_", "-"))
    if like.kind_of(option)[0] != "unknown":
        return option, option in data["turned-off"]
    off = (one for one in (f"no-{option}", f"disable-{option}") if like.kind_of(one)[0] != "unknown")
    found = next(off, None)
    return (option, False) if found is None else (found, True)
