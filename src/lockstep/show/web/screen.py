"""`Screen`: what one screen of the page asks and shows.

A screen NAME is one Python file that gives data and one JavaScript file that draws it:

    NAME.py in `screens`         SCREEN = Screen(title=..., verb="estimate", fields=QUESTION, data=data)
                                 data(answer, asked) -> plain JSON with every number as text, by `lockstep.base.units`
    NAME.js in `page/screens`    export function draw(element, data, page) { ... }
    ORDER in `screens`           NAME, in the order of the tabs

`verb` is the verb whose answer is shown and whose command and call stand below the screen; the words in the address are
its keywords. `asked.ask("memory", words)` asks another one, and `asked.kept(key, function)` computes what no verb does;
both are kept for the next request. The address has `.json` and `.csv` next to it, which are the answer of the verb, and
`.html`, the same as one file. In the browser `page.words` are those of the address, `page.link(screen, words)` is an
address, `page.go(words)` changes some of them, and `await page.later()` is what takes longer. `draw` may return what to
call when it leaves. `dom.js` has the parts that screens are made of; nothing is computed in the browser beyond places
on the screen. `page.mark(words)` keeps in the address what changes only how an answer is looked at, and
`await page.again()` is the same answer asked once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lockstep.show.web.asked import Asked, Server

Words = Mapping[str, str]
"""Keywords of a verb, as they stand in the address."""


@dataclass(frozen=True, slots=True)
class Field:
    """A control of a screen: a keyword of its verb."""

    name: str
    label: str
    names: str = ""
    """What it offers: a list of `lockstep.show.views.parts.completing`, or words separated by spaces."""
    instead: str = ""
    """A field that is emptied when this one is filled."""
    group: str = ""
    """The heading of fields that belong together, which are folded until one of them is given."""
    example: str = ""
    files: bool = False
    """Whether files are dropped on it; its words are separated by spaces."""


QUESTION = (
    Field("model", "Model", "models", example="llama3-70b"),
    Field("cluster", "Cluster", "clusters", example="dgx-h100:64"),
    Field("batch_tokens", "Tokens per step", instead="batch", example="4M"),
    Field("batch", "or sequences per step", instead="batch_tokens", example="512"),
    Field("seq", "Tokens per sequence", example="8192"),
)
"""What every screen about a training run is asked."""
RECIPE = (
    Field("dtype", "Number format", "bf16 fp16 fp8 mxfp8 nvfp4", group="Recipe", example="bf16 or fp16"),
    Field("stack", "Training software", "stacks", group="Recipe", example="megatron-te"),
    Field("optimizer", "Optimizer", "optimizers", group="Recipe", example="adamw"),
)
LAYOUT = (
    Field("tp", "Tensor parallel", group="Layout", example="best"),
    Field("pp", "Pipeline stages", group="Layout", example="best"),
    Field("cp", "Context parallel", group="Layout", example="best"),
    Field("ep", "Expert parallel", group="Layout", example="best"),
    Field("vpp", "Chunks per stage", group="Layout", example="best"),
    Field("micro_batch", "Micro-batch", group="Layout", example="best"),
    Field("zero", "ZeRO stage", "0 1 2 3", group="Layout", example="best"),
    Field("recompute", "Recomputation", "none selective full", group="Layout", example="best"),
    Field("schedule", "Schedule", "schedules", group="Layout", example="best"),
    Field("sequence_parallel", "Sequence parallelism", "yes no", group="Layout", example="best"),
)
EXAMPLE: Words = {"model": "llama3-70b", "cluster": "dgx-h100:64", "batch_tokens": "4M", "tokens": "15T"}
"""What is shown before anything is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """One screen."""

    title: str
    verb: str
    data: Callable[[Any, Asked], Json]
    """What the browser draws of the answer."""
    fields: tuple[Field, ...] = QUESTION
    alone: bool = False
    """Whether it shows something without a question; of another, the bare address is that of the first one."""
    words: Callable[[Asked], Mapping[str, Any]] | None = None
    """Words that the verb is asked, where they are not those of the address: the best layout of a plan."""
    answer: Callable[[Asked], Any] | None = None
    """The answer, where the verb does not take its words as they are."""
    saves: str = ""
    """The verb of the file that is saved, where it is not `verb`."""
    sooner: Callable[[Asked], tuple[Any, Mapping[str, Any]]] | None = None
    """What `data` takes, and the words, where the answer of the verb takes longer than a reader waits."""
    no_is_data: bool = False
    """Whether `data` takes why there is no answer, where there is none, and draws the rest all the same."""
    later: Callable[[Any, Asked], Json] | None = None
    """What takes longer, and is asked for by `page.later()` once the rest is drawn."""
    picture: Callable[[Any], Any] | None = None
    """A figure of the answer, at `.svg`."""
    picture_at: Callable[[Asked], Callable[..., Figure]] | None = None
    """What draws it, where that depends on the words."""
    stream: Callable[[Asked], Iterator[Json]] | None = None
    """What comes piece by piece, by `page.stream(take)`; `sooner` says what is known before."""
    present: Callable[[Server], bool] | None = None
    """Whether there is something to show; else the screen has no tab and no address."""
    asks: Callable[[Asked], str] | None = None
    """The verb, where it depends on the words."""
    fields_of: Callable[[Asked], tuple[Field, ...] | None] | None = None
    """The controls, where they depend on the words; None for those of `fields`."""
    trace: Callable[[Any, Path], None] | None = None
    """Writes the timeline of the answer, at `.trace`, where that is not all of it."""
