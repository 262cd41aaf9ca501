"""A plan on a terminal: a line for each layout at 80 columns, from which every layout can be read."""

from __future__ import annotations

import re
from io import StringIO

import pytest

import lockstep
from lockstep.decide.planner.result import Plan
from lockstep.show.views import plan as view
from lockstep.show.views.parts.layout_columns import layout_columns
from lockstep.show.views.parts.layout_table import print_layouts
from lockstep.show.views.parts.terminal import FileConsole, paragraph

WIDTHS = (80, 100, 120, 200)
ASKED = {
    "dense": ("llama3-70b", "dgx-h100:64", {"batch_tokens": "4M", "tokens": "15T"}),
    "experts": ("mixtral-8x7b", "dgx-h100:16", {"batch": 1024, "tokens": "1T"}),
    "no tokens": ("llama3-8b", "dgx-a100-40gb:8", {"batch_tokens": "4M"}),
    "images": ("vit-l-16", "dgx-h100:1", {"batch": 4096}),
    "few layouts": ("gpt2", "dgx-h100:1", {"batch": 64, "top": 1}),
}


@pytest.fixture(scope="module", params=ASKED)
def plan(request: pytest.FixtureRequest) -> Plan:
    model, cluster, words = ASKED[request.param]
    found: Plan = lockstep.plan(model, cluster, **words)
    return found


def printed(show: object, width: int) -> list[str]:
    """Lines at a width, without spaces at their ends."""
    out = FileConsole(file=StringIO(), width=width)
    show(out)
    lines = out.file.getvalue().splitlines()
    assert max(map(len, lines), default=0) <= width
    return [line.rstrip() for line in lines]


def read_back(lines: list[str]) -> tuple[list[str], list[dict[str, str]]]:
    """Titles, and by title the cells of every row with what is the same in all rows."""
    shared: dict[str, str] = {}
    if lines[0].startswith("  all with "):
        shared = dict(one.split(" ", 1) for one in lines.pop(0).removeprefix("  all with ").split(", "))
    titles = lines[0].split()
    rows = []
    for line in lines[1:]:
        # Cells with a space inside: a schedule with its chunks, and numbers with their units.
        joined = re.sub(r"(?<=[a-z0-9]) (?=x\d)|(?<=\d) (?=%|[KMG]iB|s\b|ms\b|d\b|h\b|min\b)", "_", line)
        cells = joined.split()
        assert len(cells) == len(titles), line
        rows.append(shared | dict(zip(titles, cells, strict=True)))
    return titles, rows


@pytest.mark.parametrize("width", WIDTHS)
def test_every_layout_takes_one_line_and_can_be_read_from_it(plan: Plan, width: int) -> None:
    for rows in (plan.plans, view.readable_front(plan.front)):
        lines = printed(lambda out, rows=rows: print_layouts(rows, plan.tokens, out), width)
        assert len(lines) == len(rows) + 1 + lines[0].startswith("  all with ")
        _, found = read_back(lines)
        for cells, one in zip(found, rows, strict=True):
            for title, _, show in layout_columns([each.layout for each in rows]):
                assert cells[title].replace("_", " ") == show(one.layout)


def test_a_wide_terminal_shows_every_column(plan: Plan) -> None:
    rows = plan.plans
    lines = printed(lambda out: print_layouts(rows, plan.tokens, out), 200)
    titles, _ = read_back(lines)
    wanted = [title for title, *_ in layout_columns([one.layout for one in rows])] + ["step", "MFU", "memory"]
    assert titles[: len(wanted)] == wanted
    assert titles[len(wanted) :] == (["time", "cost"] if plan.tokens else [f"$/M{plan.job.unit[:-1]}"])


def test_step_time_memory_and_cost_stay_on_a_narrow_terminal(plan: Plan) -> None:
    for rows in (plan.plans, view.readable_front(plan.front)):
        titles, _ = read_back(printed(lambda out, rows=rows: print_layouts(rows, plan.tokens, out), 80))
        assert {"step", "memory", "cost" if plan.tokens else f"$/M{plan.job.unit[:-1]}"} <= set(titles)


def test_where_no_form_fits_layouts_are_written_in_words() -> None:
    model, cluster, words = ASKED["dense"]
    found = lockstep.plan(model, cluster, **words)
    rows = view.readable_front(found.front)
    text = " ".join(" ".join(printed(lambda out: print_layouts(rows, found.tokens, out), 60)).split())
    assert text.startswith("layout step memory cost ")
    assert all(word in text for one in rows for word in str(one.layout).split())


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_of_a_plan_is_cut_or_parts_a_number_from_its_unit(plan: Plan, width: int) -> None:
    lines = printed(lambda out: view.render(plan, out), width)
    text = lines[: lines.index("Why other layouts were rejected  " + _rejected(plan))]
    assert [line for line in text if "…" in line] == []
    assert [line for line in text if re.match(r"\s*(%|[KMG]iB|s|d)(\W|$)", line)] == []


def _rejected(plan: Plan) -> str:
    found = plan.findings
    return f"{found.rejected.total():,} of {found.considered:,} layouts rejected"


def test_the_nearest_layout_that_was_rejected_is_named_at_every_width(plan: Plan) -> None:
    nearest = [one["nearest"]["layout"] for one in plan.rejected[:4] if one.get("nearest")]
    for width in WIDTHS:
        text = " ".join(" ".join(printed(lambda out: view.render(plan, out), width)).split())
        assert [str(layout) for layout in nearest if str(layout) not in text] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_every_recipe_is_named_with_its_layout_on_lines_that_do_not_wrap(width: int) -> None:
    found = lockstep.plan("llama3-70b", "dgx-h100:64", batch_tokens="4M", dtype="bf16,fp8")
    lines = printed(lambda out: view.render(found, out), width)
    recipes = lines[lines.index("") : lines.index("", lines.index("") + 1)]
    for one in found.choices:
        assert [line for line in recipes if one.words in line and str(one.layout) in line], (width, recipes)


@pytest.mark.parametrize("width", range(12, 60, 7))
def test_a_paragraph_breaks_between_words_and_not_before_a_unit(width: int) -> None:
    said = "It takes 7.8 s to 9.6 s in 90 % of cases, 56 GiB of 79 GiB, 332 d, and 3 days for 5 sheep."
    lines = printed(lambda out: paragraph(out, said), width)
    assert " ".join(lines) == said
    assert [line for line in lines if re.match(r"(%|GiB|s|d)\b", line) or line.startswith("%")] == []
