"""What is asked of a machine without a model: which models it trains, by which methods, and for how long."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.base.types.plain import Json
from lockstep.base.units import parse_count, parse_number
from lockstep.show.verbs.words.named import Cluster
from lockstep.show.verbs.words.pins import read_pins
from lockstep.show.verbs.words.question import positive, read_cluster, read_question
from lockstep.show.verbs.words.shared import LAYOUT_WORDS

if TYPE_CHECKING:
    from lockstep.decide.planner.trainable import Method, Trainable

STACK = "trl"
"""The software with which most people fine-tune, where none is given."""
ADAPTERS = "lora:r=16"
METHODS: Mapping[str, Mapping[str, str]] = {
    "full": {"train": "full"},
    "LoRA": {"train": ADAPTERS},
    "QLoRA": {"train": ADAPTERS, "base": "nf4"},
    "DPO": {"train": f"dpo,{ADAPTERS}"},
    "GRPO": {"train": f"grpo,{ADAPTERS}"},
}
"""What is asked where --train is not given; preferences and rewards with adapters, as is usual on one machine."""
USUAL: Json = {"seq": 2048, "samples": "50k", "sample_tokens": 400, "epochs": 3}
"""Words that are taken where they are not given."""
BATCH = 16
"""Sequences per device and step, where no batch is given."""
SEARCHED: Json = {"tp": 1, "pp": 1, "cp": 1, "ep": 1, "sequence_parallel": False}
"""Of a layout, what is not searched where it is not given: software for fine-tuning shares states out, as ZeRO does."""


def read_trainable(cluster: str | Path | Cluster | None, words: Json) -> "Trainable":
    """What `cluster` trains. Raises BadInput and UnknownName at the flag."""
    from lockstep.decide.planner.course import Course
    from lockstep.decide.planner.largest import trainable

    machine = read_cluster(cluster, words.get("gpus"))
    given = {**_usual(machine, words), **{name: value for name, value in words.items() if value is not None}}
    layout = {name: given.pop(name) for name in LAYOUT_WORDS if name in given}
    samples = positive(parse_count(given.pop("samples"), "--samples"), "--samples")
    epochs = positive(parse_number(given.pop("epochs"), "--epochs"), "--epochs")
    given.pop("accept_unknown", None)
    methods = [_method(name, own, machine, given) for name, own in _methods(given).items()]
    asked = {name: value for name, value in given.items() if name not in ("seq", "batch_tokens", "train", "base")}
    first = methods[0].recipe
    shared = {**_said(cluster, machine), **asked, "batch": first.batch}
    return trainable(machine, methods, read_pins({**SEARCHED, **layout}), shared, Course(samples, epochs))


def _usual(machine: Cluster, words: Json) -> Json:
    """What is taken where it is not given: on devices on which the usual software does not run, that of their maker."""
    from lockstep.describe.stacks import default_stack, stack

    vendor = machine.device.vendor
    found = {**USUAL, "stack": STACK if vendor in stack(STACK).vendors else default_stack(vendor)}
    if words.get("batch") is None and words.get("batch_tokens") is None:
        found["batch"] = BATCH * machine.num_devices
    return found


def _methods(given: Json) -> Mapping[str, Mapping[str, str]]:
    """Which methods are asked, and the words of each: those given, of adapters also with a quantised base."""
    train, base = given.get("train"), given.get("base")
    if train is None:
        return {name: own for name, own in METHODS.items() if base is None or own["train"] != "full"}
    bases = [base] if base is not None or not _quantises(train) else [None, "nf4"]
    asked: list[Mapping[str, str]] = [
        {"train": train} if one is None else {"train": train, "base": one} for one in bases
    ]
    return {
        next((name for name, known in METHODS.items() if known == own), ", ".join(own.values())): own for own in asked
    }


def _quantises(train: str) -> bool:
    """Whether what is trained is priced beside a quantised base too."""
    from lockstep.describe.workload import read_training

    adapters = read_training(train).adapters
    return adapters is not None and adapters.above_narrow


def _method(name: str, own: Mapping[str, str], machine: Cluster, given: Json) -> "Method":
    from lockstep.decide.planner.trainable import Method
    from lockstep.describe.workload import families

    # The model says nothing of the recipe, as the software and the length of the sequences are given.
    _, some = next(iter(families().values()))[0]
    asked = {word: value for word, value in given.items() if word != "gpus"}
    return Method(name, own, read_question(some, machine, **{**asked, **own}).recipe)


def _said(cluster: str | Path | Cluster | None, machine: Cluster) -> Json:
    """The cluster as a command line writes it."""
    if cluster is None or isinstance(cluster, str | Path):
        return {"cluster": str(cluster)}
    return {"cluster": machine.name, "gpus": machine.num_devices}
