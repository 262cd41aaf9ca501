"""`Imported`: what a file of other training software says of a run, in Lockstep's terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field
from lockstep.base.types.plain import Json
from lockstep.decide.planner.from_file import LOUD, FromFile, Row, Source
from lockstep.decide.planner.imports.said import Said
from lockstep.describe.workload import MODULES, Model

Followed = Callable[[int], object]
"""A setting that follows from the number of devices."""


@dataclass(slots=True)
class Imported:
    """The settings of a question and of a layout, by keyword; what is as Lockstep has it anyway is left out."""

    software: str
    words: Json = field(default_factory=dict)
    layout: Json = field(default_factory=dict)
    model: str | Model | None = None
    called: str = ""
    """What the file calls its model, where that names none that is known."""
    stored: str | None = None
    """The format of a checkpoint that is quantised, as its name says."""
    table: tuple[Row, ...] = ()
    """What became of every setting of the file."""
    because: str = ""
    """The setting by which the format was recognised."""
    assumed: Json = field(default_factory=dict)
    """What of the layout the file does not say."""

    def set(self, words: Json, **values: object) -> None:
        """Adds the settings that have a value."""
        words |= {name: value for name, value in values.items() if value is not None}

    def degrees(self, **values: int) -> None:
        """Adds the degrees above one."""
        self.layout |= {name: value for name, value in values.items() if value > 1}

    def assume(self, **layout: object) -> None:
        """Adds what the file leaves open to its layout."""
        self.assumed |= layout
        self.layout |= layout

    def offload_parameters(self) -> None:
        """Parameters wait in host memory; stage 2, which keeps them for the backward pass, gathers them first."""
        self.layout["offload"] = "parameters"
        if self.layout.get("zero") == 2:
            self.layout["zero"] = 3
            self.words["reshard"] = False

    def finished(self, said: Said, because: str) -> Imported:
        """This, with what became of every setting."""
        self.table, self.because = said.rows(), because
        return self

    def recomputes(self, said: Said, word: str, modules: Sequence[str]) -> None:
        """Sets the modules that selective recomputation covers, which `word` names."""
        known = [one for one in modules if one in MODULES]
        if len(known) < len(modules):
            said.leave(word, f"recomputation of {', '.join(one for one in modules if one not in known)}")
        if not known:
            self.layout.pop("recompute", None)
        elif known != ["core_attn"]:
            self.words["recompute_modules"] = ",".join(known)

    @property
    def unread(self) -> list[str]:
        """Settings that were not understood or contradict one another, with their values."""
        return [f"{row.word}={row.value}" for row in self.table if row.kind in LOUD]

    @property
    def dense_ranks(self) -> int:
        """Ranks of one replica."""
        return int(self.layout.get("tp", 1) * self.layout.get("pp", 1) * self.layout.get("cp", 1))

    def replicas(self, devices: int) -> int:
        """Data-parallel replicas on that many devices. Raises BadInput where they do not fit."""
        if devices % self.dense_ranks:
            raise BadInput(f"tp*pp*cp = {self.dense_ranks} does not divide the {devices} devices", "--cluster")
        return devices // self.dense_ranks

    def sentence(self, name: str) -> str:
        """What was read, for the reader of an answer."""
        said = {key: value for key, value in {**self.words, **self.layout}.items() if key not in self.assumed}
        read = ", ".join(
            f"{key} {'by the number of devices' if callable(value) else value}" for key, value in said.items()
        )
        assumed = ", ".join(f"{key} {value}" for key, value in self.assumed.items())
        left = f"; left out: {', '.join(self.unread)}" if self.unread else ""
        assuming = f"; assumed, as the file does not say: {assumed}" if assumed else ""
        return f"read from {name} ({self.software}): {read or 'nothing'}{assuming}{left}"

    def note(self, name: str) -> FromFile:
        """The sentence of a file that is called `name`, with what became of every setting."""
        return FromFile(self.sentence(name), Source(name, self.software, self.because), self.table)
