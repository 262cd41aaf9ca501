"""A configuration or log of other training software as MODEL: it stands for the words that it has.

    run.sh               Megatron-LM's arguments, which have the model too
    lf.yaml              fine-tuning software's, which names its model: axolotl, LLaMA-Factory, TRL, ms-swift
    configs.py::name     a function of Python that builds torchtitan's configuration
    llama3-8b@ds.json    a model, trained as that file has it; of DeepSpeed, Accelerate, torchtitan, Megatron-Bridge

Words that are given with it go before its own. A cluster with a number of nodes goes before the number of processes
that a file has; without one, as many devices as it has are taken. What was read reaches the assumptions of the answer.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.base.documents.files import InMemory
from lockstep.base.errors import BadInput, located
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json

if TYPE_CHECKING:
    from lockstep.base.documents.files import File
    from lockstep.decide.planner.imports import Imported

READ: ContextVar[tuple[str, ...]] = ContextVar("READ", default=())
"""What was read from the file that the current call is about, for its assumptions."""
ACCEPT = "accept_unknown"
"""The keyword for unknown words of a file that are left out."""
BESIDE = "@"
FUNCTION = "::"
"""Between a file of Python and the function in it that builds the configuration: configs.py::llama3_8b."""
SPLITS = ("tp", "pp", "cp", "dp", "zero")
PLACED = ("stages", "mtp_stage", "vpp")
"""Words that mean something for one number of pipeline stages only."""


@dataclass(frozen=True, slots=True)
class RunFile:
    """What a file of other software says."""

    path: str
    found: Imported
    model: str | None = None
    """The model that stands before it."""

    def answering(self, given: Json, own: Mapping[str, object], chooses: bool) -> Json:
        """The keywords of a function that takes `own`, with `given` before those of the file."""
        model = self.model or self.found.model
        if model is None:
            called = self.found.called
            why = f"trains {called}, whose shape is not known" if called else "does not say which model is trained"
            raise BadInput(f"{self.path} {why}; give both, e.g. llama3-8b{BESIDE}{self.path}", "MODEL")
        said = {name: value for name, value in given.items() if value is not None and name != "model"}
        words = {"model": model, **self.found.words, **self._layout(said, chooses)}
        if ":" in str(said.get("cluster", "")):
            words.pop("gpus", None)
        if "batch_tokens" in said:
            words.pop("batch", None)
        taken = {name: value for name, value in words.items() if name in own and name not in said}
        return {**given, **self._followed(taken, said), **said}

    def _layout(self, said: Json, chooses: bool) -> Json:
        if chooses or "layout" in said:
            return {}
        gone = set(PLACED) if "pp" in said else set()
        return {name: value for name, value in self.found.layout.items() if name not in gone}

    def _followed(self, words: Json, said: Json) -> Json:
        """Words that follow from the number of devices, once there is a cluster."""
        if "cluster" not in said:
            return {name: value for name, value in words.items() if not callable(value)}
        if not words.get("zero") and not any(callable(value) for value in words.values()):
            return words
        from lockstep.show.verbs.words.question import read_cluster

        devices = read_cluster(said["cluster"], said.get("gpus", words.get("gpus"))).num_devices
        found = {name: value(devices) if callable(value) else value for name, value in words.items()}
        one_rank = devices == self.found.dense_ranks and "cp" not in self.found.layout and not set(SPLITS) & set(said)
        if one_rank and "offload" not in found:
            # Software shares states among the ranks that there are; of one rank nothing is shared.
            found = {name: value for name, value in found.items() if name not in ("zero", "shard")}
        return found

    @contextmanager
    def located(self, given: Json) -> Iterator[None]:
        """Keeps what was read for the assumptions of the answer."""
        token = READ.set((self.found.note(self.path),))
        try:
            yield
        finally:
            READ.reset(token)


def run_given(model: object, accepted: Collection[str] = ()) -> RunFile | None:
    """The file of other software that MODEL names, alone or after a model; None where it names something else.

    Unknown words of it that are `accepted` are left out. Raises BadInput for a model beside a file that is not known.
    """
    if isinstance(model, InMemory):
        return _read(model, "", accepted)
    if not isinstance(model, str | Path):
        return None
    name, _, beside = str(model).partition(BESIDE)
    if beside and not os.path.isfile(model):
        if not _is_file(beside):
            return None
        found = _read(beside, name, accepted)
        if found is None:
            raise BadInput(f"{beside} is not a configuration or a log that is known", "MODEL")
        return found
    return _read(model, "", accepted) if _is_file(model) else None


def _read(file: File, name: str, accepted: Collection[str]) -> RunFile | None:
    """What a file beside the model `name`, if any, says; None of a file in no known format."""
    from lockstep.decide.planner.imports import read_run

    found = read_run(file, _model(name) if name else None, accepted)
    return None if found is None else RunFile(str(file), found, name)


def _is_file(path: str | Path) -> bool:
    """Whether there is a file, which may stand before the name of a function in it."""
    return os.path.isfile(str(path).partition(FUNCTION)[0])


def run_of(logs: Iterable[File]) -> tuple[File, RunFile] | None:
    """The first log that has the arguments of its run, the model among them, and what they say; None without one."""
    for path in logs:
        # What was measured is the question here: words that are not understood are said, and refuse nothing.
        run = run_given(path, ("*",))
        if run is not None and run.found.model is not None:
            return path, run
    return None


def _model(name: str) -> Any:
    from lockstep.describe.workload import model

    with located("MODEL"):
        return model(name)
