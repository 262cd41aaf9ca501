"""Layers of pipeline stages, where a file says those of the first and the last."""

from __future__ import annotations

from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.said import Said
from lockstep.decide.planner.imports.torchtitan import layers_of


def ends(found: Imported, said: Said, first: str, last: str) -> None:
    """Sets `stages` from the layers of the first and the last stage, which two settings hold."""
    pp, layers = found.layout.get("pp", 1), layers_of(found.model)
    given = (said[first], said[last])
    if pp == 1 or given == (None, None) or not layers:
        return
    inner = pp - sum(one is not None for one in given)
    rest = layers - sum(one or 0 for one in given)
    if rest < 0 or (inner and rest % inner) or (not inner and rest):
        word = first if given[0] is not None else last
        raise said.refuse(word, f"leaves {rest} of {layers} layers for {inner} stages")
    middle = [rest // inner] * inner if inner else []
    counts = [*([given[0]] if given[0] is not None else []), *middle, *([given[1]] if given[1] is not None else [])]
    found.layout["stages"] = ",".join(map(str, counts))
