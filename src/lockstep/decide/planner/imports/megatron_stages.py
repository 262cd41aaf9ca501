"""Pipeline stages of Megatron-LM: chunks, and layers placed by hand."""

from __future__ import annotations

import re

from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.said import Said

MOST_LETTERS = 10_000
"""Of a layout, when it is written out."""
REPEATED = re.compile(r"(\w|\([^()]*\))\*(\d{1,5})(?!\d)")
PLACED = "pipeline-model-parallel-layout"
PER_STAGE = "num-layers-per-virtual-pipeline-stage"


def stages(found: Imported, said: Said, layers: int) -> None:
    """Adds chunks and uneven stages. Raises BadInput for a layout that cannot be read."""
    layout, pp = found.layout, found.layout["pp"]
    if said[PLACED]:
        _placed(found, said)
    ends = sum(bool(said[f"account-for-{end}-in-pipeline-split"]) for end in ("embedding", "loss"))
    if said[PER_STAGE] and layers:
        if (layers + ends) % (pp * said[PER_STAGE]):
            raise said.refuse(
                PER_STAGE, f"is {said[PER_STAGE]}, which does not divide {layers + ends} layers on {pp} stages"
            )
        layout["vpp"] = (layers + ends) // (pp * said[PER_STAGE])
    if said["num-virtual-stages-per-pipeline-rank"]:
        layout["vpp"] = said["num-virtual-stages-per-pipeline-rank"]
    if layers and layout.get("vpp", 1) == 1:
        _ends(found, said, layers)
    if layout.get("vpp", 1) > 1 and not said["no-overlap-p2p-communication"]:
        found.words["overlap_pp"] = True


def _placed(found: Imported, said: Said) -> None:
    """Layers placed by hand: E embedding, t layer, m token prediction, L loss, | between stages."""
    layout, pp = found.layout, found.layout["pp"]
    parts = _expanded(said, said[PLACED].strip("\"'")).split("|")
    if len(parts) % pp:
        raise said.refuse(PLACED, f"has {len(parts)} parts, which {pp} stages do not divide")
    layout["stages"] = ",".join(str(part.count("t")) for part in parts)
    if len(parts) > pp:
        layout["vpp"] = len(parts) // pp
    ahead = [place for place, part in enumerate(parts) if "m" in part]
    if ahead and ahead[0] != len(parts) - 1:
        layout["mtp_stage"] = ahead[0]


def _expanded(said: Said, text: str) -> str:
    """A layout without its `t*3` and `(tt|)*2`."""
    while (one := REPEATED.search(text)) is not None:
        inner = one[1].strip("()")
        if len(text) + len(inner) * int(one[2]) > MOST_LETTERS:
            raise said.refuse(PLACED, f"is longer than the {MOST_LETTERS} letters allowed")
        text = text[: one.start()] + inner * int(one[2]) + text[one.end() :]
    if re.search(r"[^EtmLl|,\s]", text):
        raise said.refuse(PLACED, "is not made of E, t, m, L, | and repetitions")
    return re.sub(r"[,\s]", "", text)


def _ends(found: Imported, said: Said, layers: int) -> None:
    """Other numbers of layers in the first and the last stage."""
    pp = found.layout["pp"]
    first, last = (said[f"decoder-{end}-pipeline-num-layers"] or 0 for end in ("first", "last"))
    if not first and not last:
        return
    inner = pp - bool(first) - bool(last)
    rest = layers - first - last
    if rest < 0 or (rest % inner if inner else rest):
        word = "decoder-first-pipeline-num-layers" if first else "decoder-last-pipeline-num-layers"
        raise said.refuse(word, f"leaves {rest} layers, which do not divide among {inner} stages")
    even = [rest // inner] * inner if inner else []
    found.layout["stages"] = ",".join(map(str, [*([first] if first else []), *even, *([last] if last else [])]))
