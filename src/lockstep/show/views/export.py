"""`lockstep export`: the layout as launch flags or a configuration of another tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.show.views.parts.command import Command

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.show.verbs.export import Export


def render(found: Export, out: Console) -> None:
    """Prints the text as it is, never wrapped."""
    out.file.write(found.text if found.text.endswith("\n") else found.text + "\n")


COMMAND = Command(
    examples=(
        "lockstep export llama3-8b -c dgx-h100:4 --batch 256 --zero 3 --to torchtitan",
        "lockstep export llama3-8b -c dgx-h100:1 --batch 64 --train lora:r=16 --zero 3 --to accelerate",
        "lockstep export llama3-70b -c dgx-h100:64 --batch 512 --tp 8 --pp 4 --zero 1 --to megatron",
    ),
    more="It is the layout that the flags describe or, without such flags, the best one that the tool can run.",
    render=render,
    lists=False,
)
