"""`not_counted`: what a job needs or does that neither the time nor the memory of an answer has in it."""

from __future__ import annotations

from collections.abc import Sequence

from lockstep.price.layout import Job

ALWAYS = ("loading data",)
"""What no answer counts; it is said beside what is left out of this job, and in JSON always."""

GENERATES, PRICED = "engine that generates", " `lockstep rollout` predicts generation and its engine."


def not_counted(job: Job) -> tuple[str, ...]:
    """Noun phrases for what an answer about `job` leaves out, the most specific to the job first."""
    return (*_of_job(job), *ALWAYS)


def said_not_counted(job: Job) -> str:
    """The same as a sentence for a verdict; empty where only what no answer counts is left out."""
    return said(not_counted(job))


def said(left_out: Sequence[str], of: str = "") -> str:
    """The sentence for `left_out`, the answer of `not_counted`; `of` which of several runs, if not of all."""
    if not set(left_out) - {*ALWAYS}:
        return ""
    more = PRICED if any(GENERATES in one for one in left_out) else ""
    return f"Not counted{of and f' in {of}'}: {', '.join(left_out)}.{more}"


def _of_job(job: Job) -> tuple[str, ...]:
    towers = job.transformer.notes if job.transformer else ()
    return (*job.recipe.objective.elsewhere, *(note.partition(" is not counted")[0] for note in towers))
