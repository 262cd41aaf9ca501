"""What libraries need so that they run on a device without bytes: a file each, with the versions that it is for."""

from __future__ import annotations

from lockstep.run.capture.libraries import (
    checkpoints,
    compiling,
    data_parallel,
    deepspeed,
    distributed,
    pretrained,
    safetensors,
    transformers,
)

EVERY = (checkpoints, compiling, distributed, data_parallel, deepspeed, safetensors, transformers, pretrained)


def prepare() -> list[str]:
    """Prepares what is installed; notes for whoever reads the capture are added to the list as the program runs."""
    notes: list[str] = []
    for one in EVERY:
        one.prepare(notes)
    return notes
