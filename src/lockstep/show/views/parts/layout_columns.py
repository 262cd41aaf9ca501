"""Layouts as table columns in the field's words: a column appears only where some layout differs from the plainest."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockstep.price.layout import Layout

    Column = tuple[str, str, Callable[[Layout], str]]

_COLUMNS: tuple[tuple[str, str, str, Callable[[Layout], str]], ...] = (
    ("tp", "right", "1", lambda one: str(one.tp)),
    ("cp", "right", "1", lambda one: str(one.cp)),
    ("ep", "right", "1", lambda one: str(one.ep)),
    ("etp", "right", "-", lambda one: str(one.etp) if one.etp else "-"),
    ("pp", "right", "1", lambda one: str(one.pp)),
    ("dp", "right", "", lambda one: str(one.dp)),
    ("mb", "right", "", lambda one: str(one.micro_batch)),
    ("zero", "right", "0", lambda one: str(one.zero) + (f"/{one.shard}" if one.shard else "")),
    ("schedule", "left", "-", lambda one: "-" if one.pp == 1 else schedule(one)),
    ("recompute", "left", "none", lambda one: one.recompute),
    ("sp", "left", "no", lambda one: "yes" if one.sequence_parallel else "no"),
    ("offload", "left", "none", lambda one: one.offload),
)
"""(title, justification, what the plainest layout shows, text)."""


def schedule(layout: Layout) -> str:
    """The pipeline schedule, with chunks per stage when there are several: `interleaved x4`."""
    placed = f" {layout.split}" if layout.stages else ""
    return layout.schedule + (f" x{layout.vpp}" if layout.vpp > 1 else "") + placed


def layout_columns(layouts: Sequence[Layout]) -> list[Column]:
    """The columns that tell `layouts` apart from the plainest one."""
    return [
        (title, kind, show)
        for title, kind, plainest, show in _COLUMNS
        if any(show(layout) != plainest for layout in layouts)
    ]


def layout_words(layout: Layout) -> str:
    """`tp 2, cp 2, dp 128, ZeRO-3, micro-batch 1, sequence parallelism`: a layout as a person says it."""
    names = ("tp", "cp", "ep", "etp", "pp", "dp")
    words = [f"{name} {getattr(layout, name)}" for name in names if getattr(layout, name) > (name != "etp")]
    if layout.pp > 1:
        words.append(layout.schedule + (f" x{layout.vpp}" if layout.vpp > 1 else ""))
    if layout.stages:
        words.append(f"{layout.split} layers per {'chunk' if layout.vpp > 1 else 'stage'}")
    if layout.mtp_stage is not None:
        words.append(f"prediction modules in stage {layout.mtp_stage}")
    if layout.zero:
        words.append(f"ZeRO-{layout.zero}" + (f" over {layout.shard}" if layout.shard else ""))
    words.append(f"micro-batch {layout.micro_batch}")
    if layout.recompute != "none":
        words.append(f"{layout.recompute} recomputation")
    if layout.sequence_parallel:
        words.append("sequence parallelism")
    if layout.offload != "none":
        paged = layout.offload == "paged"
        words.append("paged optimizer states" if paged else f"{layout.offload} offloaded")
    return ", ".join(words)
