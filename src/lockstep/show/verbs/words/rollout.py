"""Options of `rollout` about an engine and about the whole step."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypedDict

from lockstep.show.verbs.words.option import Option, Switch
from lockstep.show.verbs.words.quantity import Length, Quantity, Time
from lockstep.show.verbs.words.stack_file import WAY, Given

_ENGINE, _STEP = "Engine", "Step"


class EngineWords(TypedDict, total=False):
    """How an engine is cut, its formats and its limits."""

    rollout_tp: Annotated[
        Quantity | None, Option("N", "Tensor-parallel ranks of an engine.", panel=_ENGINE, default="1")
    ]
    rollout_pp: Annotated[Quantity | None, Option("N", "Pipeline stages of an engine.", panel=_ENGINE, default="1")]
    attention_dp: Annotated[
        Quantity | None,
        Option(
            "N",
            "Groups of sequences of an engine that have attention of their own and share experts.",
            panel=_ENGINE,
            default="1",
        ),
    ]
    rollout_ep: Annotated[
        Quantity | None,
        Option("N", "Ranks of an engine among which experts are divided.", panel=_ENGINE, default="1"),
    ]
    weights_dtype: Annotated[
        str | None, Option("F", "Format of weights, of half a byte to two.", panel=_ENGINE, default="bf16")
    ]
    experts_dtype: Annotated[
        str | None,
        Option("F", "Format of routed experts, where it is another.", panel=_ENGINE, default="--weights-dtype"),
    ]
    kv_dtype: Annotated[
        str | None, Option("F", "Format of keys and values, of one byte or two.", panel=_ENGINE, default="bf16")
    ]
    memory_frac: Annotated[
        Quantity | None,
        Option("FRAC", "Share of a device's memory that an engine may take.", panel=_ENGINE, default="90%"),
    ]
    in_flight: Annotated[
        Quantity | None,
        Option("N", "Answers that an engine works on at a time, at most.", panel=_ENGINE, default="1024"),
    ]
    pass_tokens: Annotated[
        Length | None,
        Option("N", "Tokens of one pass at most; longer prefills are cut.", panel=_ENGINE, default="8k"),
    ]
    host: Annotated[
        Time | None, Option("T", "Time of the host for each answer at each step.", panel=_ENGINE, default="20us")
    ]


class StepWords(EngineWords, total=False):
    """The same, and the trainer of the step."""

    trainer: Annotated[
        str | None,
        Option(
            "LAYOUT",
            "Adds the trainer, and so the whole step: a layout such as tp=4,pp=2,zero=1, or plan for the best one.",
            panel=_STEP,
        ),
    ]
    train: Annotated[
        str | None, Option("T", "What is trained, as --train of lockstep estimate.", panel=_STEP, default="grpo")
    ]
    train_batch: Annotated[
        Quantity | None,
        Option("N", "Answers of one update; several make a step.", panel=_STEP, default="all of the step"),
    ]
    stack: Annotated[
        Given | None,
        Option(
            "S",
            "Training software, as lockstep stack lists it, or a file of your own.",
            panel=_STEP,
            default="megatron-te",
        ),
    ]
    way: Annotated[str | Mapping[str, str] | None, replace(WAY, panel=_STEP)]
    split: Annotated[
        Quantity | None,
        Option(
            "N", "Devices that generate apart from the others, which train.", panel=_STEP, default="none: all do both"
        ),
    ]
    staleness: Annotated[
        Quantity | None,
        Option(
            "K",
            "Steps that answers may be older than the weights that learn from them; with --split.",
            panel=_STEP,
            default="0",
        ),
    ]
    software: Annotated[
        str | None,
        Option(
            "SOFTWARE",
            "Only steps that this software can run: verl, nemo-rl, trl, openrlhf or prime-rl. The answer has its "
            "configuration.",
            "--for",
            panel=_STEP,
        ),
    ]
    export: Annotated[str | Path | None, Option("DIR", "Folder for the configuration of --for.", panel=_STEP)]
    search: Annotated[
        bool | None,
        Switch("Find the split and the engine's tensor parallelism with the fastest step that fits.", panel=_STEP),
    ]
