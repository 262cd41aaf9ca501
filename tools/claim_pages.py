"""The pages of claims and of exercises.

Every item in the order of the chapter, then theorems that are cited and missing, then errata.
"""

from __future__ import annotations

from collections import Counter

from lockstep.check.evidence.claims.deciders.table import nature_of
from lockstep.check.evidence.claims.entry import KINDS, PARTS, Check, Deliverable, Entry
from lockstep.check.evidence.claims.shelf import entries, errata, errata_of
from lockstep.learn.lab.facts import facts

HEAD = """# Claims

What a textbook chapter on distributed training says, item by item, with our verdict and the numbers that decide it. The
items are stated in full, in our words; their numbers are the chapter's. `lockstep claims T5` prints an item,
`lockstep claims T5 --run` decides it, `lockstep claims --all --within 60s` decides every one.

A problem has two verdicts, its own and that of its printed solution; a theorem those of its result and of its proof. A
problem that asks to derive something is *sound* where it assumes nothing wrong.

A verdict follows from the checks: *false* if the values found contradict those that the statement implies, *true* if
they agree; *conditional* if it is true in some cases and false in others, *ambiguous* if that depends on how it is
read. Every claimed value has the lines of the text that print it, or from which it follows as said. A number is
*simulated* by running the process, *solved* for numerically, *counted* on a program that runs,
*priced* by a closed form, or *arithmetic* on given numbers.
"""
SYMBOLS = (
    ("a", "step size"),
    ("alpha", "latency of a message, seconds"),
    ("b, B", "batch size; B of all workers"),
    ("beta", "bandwidth, or momentum where a step is meant"),
    ("c", "extra steps per local step, as a share"),
    ("C", "time to write a checkpoint"),
    ("d", "size of a gradient, in bytes or entries"),
    ("D", "first loss over the least"),
    ("delta, omega", "relative squared error of a compressor"),
    ("epsilon, eps", "target, or size of an error"),
    ("g", "gradient; GPUs of a node"),
    ("G", "largest gradient"),
    ("h", "width of a layer"),
    ("k", "tensor-parallel ranks"),
    ("K", "local steps between averages"),
    ("kappa", "condition number L / mu"),
    ("L, mu", "largest and least curvature"),
    ("lambda", "curvature of a direction"),
    ("m", "micro-batches"),
    ("M", "nodes; mean time between failures"),
    ("n, N", "workers; N also samples of a data set"),
    ("p", "pipeline stages; parameters"),
    ("P, V", "ranks or pipeline stages, and chunks of a device, in the guide"),
    ("r, X / T", "exchange over computing of a step"),
    ("R", "first distance to the optimum"),
    ("rho", "exchange over the computing of one worker"),
    ("s", "standard deviation of a sample's gradient; sequence length beside h"),
    ("S", "shards of a parameter server; speed-up"),
    ("tau", "delay in updates"),
    ("T", "steps; time"),
    ("v", "chunks of a device"),
)
TITLES = {
    "theorem": "Theorems", "statement": "True or false", "proof": "Problems with proofs", "example": "Worked examples",
    "exercise": "Exercises", "homework": "Homework", "guide": "Guide", "missing": "Theorems that are cited and missing",
}  # fmt: skip


def claims_page() -> str:
    """The text of `docs/reference/claims.md`; `python tools/pages.py --write` writes it there."""
    lines = [HEAD, *_counts(), "## Symbols", "", "| symbol | meaning |", "|---|---|"]
    lines += [f"| {symbol} | {meaning} |" for symbol, meaning in SYMBOLS]
    for kind in KINDS:
        lines += ["", f"## {TITLES[kind]}", ""]
        for entry in entries():
            if entry.kind == kind:
                lines += _entry(entry)
    lines += [
        "",
        "## Facts of the lab",
        "",
        "Statements about convergence that an experiment decides, by their ids.",
        "",
    ]
    lines += ["| fact | | experiment | id |", "|---|---|---|---|"]
    for fact in facts():
        lines.append(
            f"| {_cell(fact.statement)} | {'true' if fact.holds else 'false'} | `{fact.experiment}` | `{fact.id}` |"
        )
    return "\n".join(lines) + "\n"


def _counts() -> list[str]:
    counted = Counter(
        entry.verdict for entry in entries() if entry.kind in ("theorem", "statement", "proof", "example")
    )
    said = ", ".join(f"{number} {verdict}" for verdict, number in counted.most_common())
    told = Counter(one.why for one in errata() if one.why)
    rest = "; ".join(f"{number} rest on {why}" for why, number in told.most_common())
    return [
        f"Of the {counted.total()} theorems, statements, problems and examples: {said}.",
        "",
        f"{len(errata())} errata. `lockstep claims --errata all` recomputes {len(errata()) - told.total()}; {rest}.",
        "",
    ]


def exercises_page() -> str:
    """The table of exercises of `docs/learn/exercises.md`."""
    lines = ["| exercise | command | takeaway |", "|---|---|---|"]
    for entry in entries():
        if entry.kind == "exercise":
            link = f"[{entry.id}](../exercises/{anchor(entry)}.md) {entry.title}"
            lines.append(f"| {link} | `{entry.command}` | {_cell(entry.because)} |")
    return "\n".join(lines)


def exercise_page(item: str) -> str:
    """The page of one exercise, `docs/exercises/c5.md`: what it asks, what ticks each deliverable, numbers, figures."""
    from lockstep.check.evidence.claims.pictures import pictures

    (entry,) = (one for one in entries() if one.id == item)
    lines = [f"# {entry.id} {entry.title}", "", entry.says, "", *_answered(entry)]
    lines += ["## What is asked", "", "| asked for | shown by |", "|---|---|"]
    lines += [f"| {_cell(one.asks)} | {_ticks(one)} |" for one in entry.deliverables]
    lines += ["", "## Numbers", "", *_numbers(entry)]
    for name in entry.figures:
        title = " ".join(one.title for one in pictures(name))
        lines += ["", f"## {_named(name)}", "", f"![{title}](figures/{name}.svg)", ""]
        lines += ["```sh", f"lockstep claims {entry.id} --figure {name} --plot {name}.svg", "```"]
    return "\n".join(lines) + "\n"


def _answered(entry: Entry) -> list[str]:
    """Answer, law, commands, and where more is said."""
    learn = f"[{entry.learn.removeprefix('learn/').removesuffix('.md')}](../{entry.learn})"
    see = [f"[{other}](../reference/claims.md#{other.replace('.', '').lower()})" for other in entry.see]
    every = f"`lockstep claims {entry.id} --run` finds the numbers, `--plot {anchor(entry)}.svg` draws all figures"
    return [
        f"- answer: {entry.because}", f"- law: {entry.true_form}", f"- command: `{entry.command}`", f"- {every}.",
        f"- see: {', '.join((*see, learn))}", "",
    ]  # fmt: skip


def _ticks(one: Deliverable) -> str:
    """The figure and the number of a deliverable."""
    figure = f"figure [{_named(one.figure).lower()}](#{one.figure})" if one.figure else ""
    return ", ".join(filter(None, (figure, one.value and f"number: {_cell(one.value)}")))


def _named(figure: str) -> str:
    return figure.replace("-", " ").capitalize()


def anchor(entry: Entry) -> str:
    """The end of an address that leads to the item."""
    return entry.id.replace(".", "").lower()


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _entry(entry: Entry) -> list[str]:
    if entry.kind == "missing":
        see = " and ".join(entry.see)
        return [f"- **{entry.names[0].capitalize()}**: {entry.title.lower()}. {entry.because} See {see}."]
    asked = "asks" if entry.kind == "exercise" else "says"
    lines = [
        f"### {entry.id}",
        "",
        f"**{entry.title}**" + ("" if entry.verdict == "answer" else f": {_verdicts(entry)}"),
        "",
    ]
    said, other = PARTS[entry.kind] if entry.second else (asked, "")
    lines.append(f"- {said}: {entry.says}")
    lines += [f"- {other}: {entry.second.says}"] if entry.second else []
    lines.append(f"- {'answer' if asked == 'asks' else 'because'}: {entry.because}")
    if entry.true_form:
        lines.append(f"- {'law' if asked == 'asks' else 'in truth'}: {entry.true_form}")
    lines += [f"- shown by: {entry.argument}"] if entry.argument else []
    lines += [f"- {'read as' if entry.readings else 'if'} {case.when}: {case.verdict}" for case in entry.cases]
    lines.append(f"- command: `{entry.command}`")
    lines += [f"- program: [{entry.program}](../../{entry.program})"] if entry.program else []
    links = [f"[{other}](#{other.replace('.', '').lower()})" for other in entry.see]
    learn = [f"[{entry.learn.removeprefix('learn/').removesuffix('.md')}](../{entry.learn})"] if entry.learn else []
    return [*lines, f"- see: {', '.join(links + learn)}", "", *_numbers(entry), ""]


def _numbers(entry: Entry) -> list[str]:
    """The checks and the errata of an item as tables."""
    lines = ["| number | claimed | lines | right | |", "|---|---|---|---|---|"]
    lines += [_row(check, stated=check in entry.truths) for check in entry.every_check()]
    wrong = errata_of(entry.id)
    if wrong:
        lines += ["", "| erratum | lines | printed | right |", "|---|---|---|---|"]
        lines += [f"| {one.id} | {one.at} | {_cell(one.printed)} | {_cell(one.right)} |" for one in wrong]
    return lines


def _row(check: Check, *, stated: bool) -> str:
    """A check; one of the true form alone has no claimed value."""
    claimed = "-" if stated and not check.refutes else str(check.claimed)
    lines = f"{check.at}: {check.follows}" if check.follows else check.at
    return f"| {_cell(check.what)} | {claimed} | {_cell(lines)} | {check.right} | {nature_of(check)} |"


def _verdicts(entry: Entry) -> str:
    """The verdict, or both of an item with two."""
    both = entry.verdicts(entry.verdict)
    return ", ".join(f"{name} {verdict}" for name, verdict in both.items()) or entry.verdict
