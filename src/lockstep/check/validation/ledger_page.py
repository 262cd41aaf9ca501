"""The section of `docs/validation.md` on tables at first sight, from the ledger."""

from __future__ import annotations

from textwrap import fill

from lockstep.check.validation.ledger import Errors, Sight, first_sight

HEAD = """## First sight

**{median} is the error to expect of a model, machine or program that Lockstep was not made beside**: the median over
the {tables} tables of steps below of the median error of each at *first sight*, asked once, before anything was
changed for it. {inside} of their steps lie inside their 90 % interval. The same two numbers *in sample*, of programs
beside whose rows the code was written and mended, are {in_sample} and {in_sample_inside}; all that follows on this page
is in sample.

Entries have a date and the commit that was asked, and are never changed (`lockstep validate --first-sight`). What is
quoted is the first of a table; a later one is of code that still had not been changed for it. Tables of generation,
whose times are of tokens of answers, are listed and not quoted.

| table | asked | commit | rows | median error | mean signed | inside | fit in memory | choice |
|---|---|---|---|---|---|---|---|---|
"""
PARTS_HEAD = """
*Choice* is the measured time of the layout predicted fastest over the least measured time, minus 1, as under
[Choices](#choices). Parts, of the first entries:

| table | rows of | rows | median error | mean signed | inside | fit in memory |
|---|---|---|---|---|---|---|
"""


def section(in_sample: str, in_sample_inside: str) -> str:
    """The section as Markdown, beside the two numbers in sample."""
    found = first_sight()
    head = HEAD.format(
        median=f"{100 * found.median_abs_frac:.0f} %",
        inside=f"{100 * found.coverage_frac:.0f} %",
        tables=len(found.quoted),
        in_sample=in_sample,
        in_sample_inside=in_sample_inside,
    )
    parts = (_line(one.table, part.name, *_cells(part)) for one in found.first for part in one.groups)
    entries, asked = map(_entry, found.entries), map(_asked, found.first)
    return head + "\n".join((*entries, PARTS_HEAD.rstrip(), *parts, "", *asked, ""))


def _asked(one: Sight) -> str:
    """What the table is, and how its rows were asked, as an item of a list."""
    text = f"- **{one.table}.** {one.title} ({one.source}). Asked as: {one.question}"
    return fill(text, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _entry(one: Sight) -> str:
    choice = "" if one.choice_frac is None else f"{100 * one.choice_frac:.1f} %"
    return _line(one.table, one.date, one.commit, *_cells(one), choice)


def _cells(one: Errors) -> tuple[str, ...]:
    shares = f"{100 * one.coverage_frac:.0f} %", f"{100 * one.fits_frac:.0f} %"
    return str(one.rows), f"**{100 * one.median_abs_frac:.1f} %**", f"{100 * one.mean_signed_frac:+.1f} %", *shares


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"
