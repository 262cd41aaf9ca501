"""`--card FILE`: the headline of any answer as one picture of 1,200 x 630, as pages show that link to it.

Its title is the verdict that the command prints first. Below stand the figures by which the verb's answers are compared
(`Command.figures`), each in its unit, and of a training step its interval, its parts and what binds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from io import StringIO
from pathlib import Path
from textwrap import shorten, wrap
from typing import TYPE_CHECKING

from lockstep import __version__
from lockstep.base.documents.files import writing
from lockstep.base.records import dataclass
from lockstep.base.rows.columns import Series, label, shown
from lockstep.base.types.plain import Json
from lockstep.base.units import format_frac, format_size, format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

WIDTH_PX, HEIGHT_PX = 1200, 630
EDGE = 0.055
"""Paper left free on each side, of the width."""
FIGURES, PARTS = 4, 5
DARK, SOFT = "#1F2A33", "#55616B"
"""Letters: of titles and figures, and of what explains them; both are dark enough to read at half the size."""
TITLE_LETTERS, BODY_LETTERS, BODY_LINES, COMMAND_LETTERS = 52, 88, 5, 88
SMALL = 9.5
"""Points of the smallest letters, which are ten pixels high at half the size."""


@dataclass(frozen=True, slots=True)
class Card:
    """A picture that is wanted of the answer of a command."""

    path: Path
    shell: str
    """The command that gives the same answer."""
    figures: Sequence[str]
    series: Series | None
    """What names the rows of an answer that is rows, and their figure."""

    def write(self, answer: Json, render: Callable[[Console], None]) -> None:
        """Draws and writes it. Raises BadInput at `--card` where it cannot be written."""
        from lockstep.show.views.parts.figure import save_figure

        with writing(self.path, "--card"):
            save_figure(self.drawn(answer, render), self.path)

    def drawn(self, answer: Json, render: Callable[[Console], None]) -> Figure:
        """The picture of an answer in its plain form."""
        return draw_card(answer, verdict(render), self.figures, self.series, self.shell)


CARD: ContextVar[Card | None] = ContextVar("CARD", default=None)


@contextmanager
def carded(card: Card | None) -> Iterator[None]:
    """What is shown inside is drawn on the card as well."""
    before = CARD.set(card)
    try:
        yield
    finally:
        CARD.reset(before)


def verdict(render: Callable[[Console], None]) -> list[str]:
    """The lines that a command prints before its first empty one, unbroken."""
    from lockstep.show.views.parts.terminal import FileConsole

    out = FileConsole(file=StringIO(), width=2000, color_system=None)
    render(out)
    text = out.file.getvalue() if isinstance(out.file, StringIO) else ""
    return [line.strip() for line in text.strip("\n").partition("\n\n")[0].splitlines()]


def figure_of(answer: object, key: str) -> object:
    """The value at a dotted key, whose numbers are places of a list; None where there is none."""
    for part in key.split("."):
        if isinstance(answer, Mapping):
            answer = answer.get(part)
        elif isinstance(answer, list) and part.isdigit() and int(part) < len(answer):
            answer = answer[int(part)]
        else:
            return None
    return answer


def chosen(answer: Json, figures: Sequence[str]) -> list[tuple[str, str, str]]:
    """Name, value and remark of up to FIGURES figures: the first that is known, then time and cost, then others."""
    known = [key for key in figures if type(figure_of(answer, key)) in (int, float) and key != "gpus"]
    costs = [key for key in ("cost", "cost_per_token", "plans.0.cost_per_token") if figure_of(answer, key)]
    first = [*known[:1], *(key for key in known if key == "days"), *costs[:1]]
    keys = list(dict.fromkeys((*first, *known)))[:FIGURES]
    return [(_called(key), _valued(answer, key), _remark(answer, key)) for key in keys]


def _called(key: str) -> str:
    return "cost" if key.endswith("cost_per_token") else label(key).replace(" time", "")


def _valued(answer: Json, key: str) -> str:
    said = shown(key, figure_of(answer, key))
    return f"${said}" if key.endswith("cost_per_token") else said


def _remark(answer: Json, key: str) -> str:
    """What is printed small below a figure."""
    above, _, name = key.rpartition(".")
    beside = figure_of(answer, above) if above else answer
    between = beside.get("interval") if isinstance(beside, Mapping) else None
    if name == "step_time_s" and between:
        said = f"{format_time(between['low'])} to {format_time(between['high'])}"
        return f"{said}\nin {format_frac(between['level_frac'])} of cases"
    if name == "days" and (ends := answer.get("days_interval")):
        return f"{shown('days', ends['low'])} to {shown('days', ends['high'])}"
    capacity_B = figure_of(answer, f"{above}.capacity_B") if name == "total_B" else None
    if isinstance(capacity_B, int | float):
        return f"of {format_size(capacity_B)}"
    return "per million tokens" if name == "cost_per_token" else ""


def draw_card(answer: Json, lines: Sequence[str], figures: Sequence[str], series: Series | None, shell: str) -> Figure:
    """The picture."""
    from lockstep.show.views.parts.figure import DPI, PALETTE, new_figure

    made = new_figure((WIDTH_PX / DPI, HEIGHT_PX / DPI))
    made.set_layout_engine("none")
    axes = made.add_axes((0, 0, 1, 1))
    axes.axis("off")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axhspan(0.982, 1.0, color=PALETTE[0])
    paper, (title, after) = Paper(axes), _split(lines[0] if lines else "")
    whole = wrap(title, TITLE_LETTERS)
    for line in whole[:2]:
        paper.line(line, 17, weight="bold", height=0.085)
    for line in wrap(" ".join([*whole[2:], after]), BODY_LETTERS)[:3]:
        paper.line(line, 10.5, SOFT)
    paper.top -= 0.05
    _figures(chosen(answer, figures), paper)
    parts = next(filter(None, (figure_of(answer, key) for key in ("breakdown_s", "plans.0.breakdown_s"))), None)
    if isinstance(parts, Mapping):
        _bar(answer, parts, paper)
    else:
        for line in _body(lines[1:], int((paper.top - 0.13) / 0.062)):
            paper.line(line, 10.5)
        _rows(bars_of(answer, figures, series), paper)
    paper.write(EDGE, 0.085, shorten(shell, COMMAND_LETTERS, placeholder=" ..."), SMALL, SOFT)
    axes.text(1 - EDGE, 0.085, f"Lockstep {__version__}", size=SMALL, color=SOFT, va="top", ha="right")
    return made


@dataclass(slots=True)
class Paper:
    """Where the next line begins."""

    axes: Axes
    top: float = 0.925

    def write(self, x: float, y: float, text: str, size: float, colour: str = DARK, weight: str = "normal") -> None:
        """Writes text whose upper left corner is there."""
        # A dollar would begin a formula.
        self.axes.text(x, y, text.replace("$", r"\$"), size=size, color=colour, weight=weight, va="top")

    def line(self, text: str, size: float, colour: str = DARK, weight: str = "normal", height: float = 0.062) -> None:
        """Writes a line, and goes on below it."""
        self.write(EDGE, self.top, text, size, colour, weight)
        self.top -= height


def _figures(found: Sequence[tuple[str, str, str]], paper: Paper) -> None:
    """The figures in a row."""
    for place, (called, value, remark) in enumerate(found):
        x = EDGE + place * (1 - 2 * EDGE) / max(3, len(found))
        paper.write(x, paper.top, called, 10.5, SOFT)
        paper.write(x, paper.top - 0.055, value, 19, weight="bold")
        paper.write(x, paper.top - 0.15, remark, SMALL, SOFT)
    paper.top -= 0.28 if any(remark for _, _, remark in found) else 0.22 if found else 0.0


def _rows(bars: Sequence[tuple[str, str, float]], paper: Paper) -> None:
    """A bar for each row of an answer that is rows, the least first, as far as there is room."""
    from lockstep.show.views.parts.figure import PALETTE

    kept = sorted(bars, key=lambda one: one[2])[: max(0, int((paper.top - 0.16) / 0.075))]
    most = max((value for _, _, value in kept), default=0.0)
    paper.top -= 0.03
    for place, (name, key, value) in enumerate(kept):
        wide, colour = 0.5 * value / most if most else 0.0, PALETTE[0] if not place else PALETTE[-1]
        paper.write(EDGE, paper.top, shorten(name, 26, placeholder="..."), 10.5)
        paper.axes.barh(paper.top - 0.022, wide, left=0.34, height=0.042, color=colour)
        paper.write(0.35 + wide, paper.top, shown(key, value), 10.5, SOFT)
        paper.top -= 0.075


def bars_of(answer: Json, figures: Sequence[str], series: Series | None) -> list[tuple[str, str, float]]:
    """Name, key and number of the rows of an answer: by its series, or of one answer for each value of an option."""
    options, under = answer.get("options"), series[2] if series and len(series) > 2 else "rows"
    rows = [one for one in figure_of(answer, under) or () if isinstance(one, Mapping)]  # type: ignore[attr-defined]
    if options and figures:
        named = [(" ".join(f"--{name} {one[name]}" for name in options), figures[0], one) for one in rows]
    else:
        named = [(str(one[series[0]]), series[1], one) for one in rows] if series else []
    found = [(name, key, figure_of(one, key)) for name, key, one in named]
    return [(name.replace("_", "-"), key, float(value)) for name, key, value in found if isinstance(value, int | float)]


def _split(line: str) -> tuple[str, str]:
    """A verdict as a title and what comes after its colon: a layout, in most."""
    title, _, after = line.partition(": ")
    return title.rstrip("."), after


def _body(lines: Sequence[str], most: int) -> list[str]:
    """The first sentences of the verdict, as many lines as there is room for."""
    broken = [part for line in lines for part in wrap(line, BODY_LETTERS)]
    kept = broken[: max(0, min(most, BODY_LINES))]
    return [*kept[:-1], f"{kept[-1]} ..."] if len(broken) > len(kept) > 0 else kept


def _bar(answer: Json, parts: Mapping[str, float], paper: Paper) -> None:
    """Where the time of a step goes, and what binds it."""
    from lockstep.show.views.parts.figure import PALETTE
    from lockstep.show.views.parts.reading import BINDS

    bound = next(filter(None, (figure_of(answer, key) for key in ("bound_by", "plans.0.bound_by"))), None)
    said = f"bound by {BINDS.get(str(bound), bound)}" if bound else "where the time goes"
    paper.line(said, 10.5, weight="bold", height=0.105)
    whole, left, room = sum(parts.values()), EDGE, (1 - 2 * EDGE) / PARTS
    ranked = sorted((item for item in parts.items() if item[1] > 0), key=lambda item: -item[1])
    rest = sum(seconds for _, seconds in ranked[PARTS - 1 :])
    kept = ranked if len(ranked) <= PARTS else [*ranked[: PARTS - 1], ("other parts", rest)]
    for place, (name, seconds) in enumerate(kept):
        colour = PALETTE[place] if place < PARTS - 1 else PALETTE[-1]
        wide, x = (1 - 2 * EDGE) * seconds / whole, EDGE + place * room
        paper.axes.barh(paper.top, wide, left=left, height=0.05, color=colour)
        paper.axes.barh(paper.top - 0.08, 0.012, left=x, height=0.023, color=colour)
        text = "\n".join([*wrap(BINDS.get(name, name), 16)[:2], format_frac(seconds / whole, 2)])
        paper.write(x + 0.02, paper.top - 0.06, text, SMALL)
        left += wide
