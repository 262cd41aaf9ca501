"""Mutants of the functions that decide claims: one small change at a time; does a check of the claims notice?

    python tools/claim_mutants.py                       every mutant of every decider
    python tools/claim_mutants.py --count 169 --seed 1  as many, drawn at random
    python tools/claim_mutants.py --lab --count 150     mutants of the lab's experiments instead
    python tools/claim_mutants.py --only network        of one file alone

A mutant is one of those of `mutants.py`. Only checks and errata run that name a function which uses the changed line,
each in a process of its own; of an experiment those that name one of its checks, and mutants are drawn from what these
read (`claim_slices.py`). One on whose expression no number of a check depends, however drastically it is changed, and
one that differs only for equal floats, of which there were none (`claim_classes.py`), are counted apart. A mutant is
caught when a check does not find its right value or stops. One that takes longer than `LIMIT_S` of processor time, as a
search that never ends does, gives no verdict, so it is caught too; how many of these there are is printed. Mutants that
no caller can tell from the code as it is are listed with the reason in `equivalent_mutants.toml`.

    score = caught / (mutants - equivalent)
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import resource
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import ModuleType

# A mutant's processor time is limited, and threads of a busy machine wait by spinning.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
sys.path.insert(0, str(Path(__file__).parent))

import claim_classes
from claim_slices import Slice, drastic, made_at, slice_of
from lockstep.check.evidence.claims.decide import Bench, seconds
from lockstep.check.evidence.claims.deciders.table import FILES, LAB, lab_name
from lockstep.check.evidence.claims.entry import Check
from lockstep.check.evidence.claims.shelf import entries, errata
from lockstep.learn.lab import find_experiment
from mutants import EQUIVALENT, SOURCE, Mutant, mutants_of

LIMIT_S = 30
"""Processor time of the checks of one mutant."""
DECIDERS = "check/evidence/claims/deciders"
EXPERIMENTS = "learn/lab/experiments"


def all_checks() -> tuple[Check, ...]:
    """Those of entries and of errata, each text once for each pair of claimed and right values."""
    found = [check for entry in entries() for check in entry.every_check()]
    return tuple(dict.fromkeys([*found, *(one.check for one in errata() if one.check is not None)]))


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse((SOURCE / file).read_text())


def _named(node: ast.AST) -> list[str]:
    """Names that a statement at the top of a file defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [name.id for target in targets if target for name in ast.walk(target) if isinstance(name, ast.Name)]


@cache
def users(file: str, line: int) -> frozenset[str]:
    """Names at the top of a file whose statement holds that line, or uses one that does."""
    uses = {
        name: {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        for node in _tree(file).body
        for name in _named(node)
    }
    first = [node for node in _tree(file).body if node.lineno <= line <= (node.end_lineno or 0)]
    found = {name for node in first for name in _named(node)}
    while more := {name for name, used in uses.items() if used & found} - found:
        found |= more
    return frozenset(found)


def deciding(mutant: Mutant) -> list[Check]:
    """The checks that a mutant can change."""
    if not mutant.file.startswith(DECIDERS):
        return named(mutant.file)
    names = {f"{Path(mutant.file).stem}.{name}" for name in users(mutant.file, mutant.line)}
    return [check for check in all_checks() if check.by.split()[0] in names]


def experiment_of(file: str) -> str:
    """The experiment of a file of the lab."""
    return Path(file).stem.replace("_", "-")


@cache
def named(file: str) -> list[Check]:
    """The checks of claims that name the experiment of a file."""
    return [one for one in all_checks() if one.by.startswith(LAB) and lab_name(one.by)[0] == experiment_of(file)]


def put(file: str, text: str) -> None:
    """A module made of that text in place of the one of a file; nothing is left of what it kept."""
    name = "lockstep." + file.removesuffix(".py").replace("/", ".")
    module = ModuleType(name)
    module.__file__, module.__package__ = str(SOURCE / file), name.rpartition(".")[0]
    sys.modules[name] = module
    setattr(import_module(module.__package__), name.rpartition(".")[2], module)
    exec(compile(text, str(SOURCE / file), "exec"), module.__dict__)


def notices(mutant: Mutant) -> bool:
    """Whether a check does not come out as known with the mutant in place of its module."""
    try:
        put(mutant.file, mutant.apply((SOURCE / mutant.file).read_text()))
        bench = Bench()
        return any(not _as_known(check, bench) for check in by_cost(mutant))
    except Exception:  # a broken function that stops the run is noticed too
        return True


def by_cost(mutant: Mutant) -> list[Check]:
    """The checks that a mutant can change, the cheapest first."""
    return sorted(deciding(mutant), key=lambda one: seconds([one]))


def _as_known(check: Check, bench: Bench) -> bool:
    found = bench.find(check.by)
    return check.as_known(found) and check.has_power(found)


def is_read(mutant: Mutant) -> bool:
    """Whether its checks depend on the expression that is changed: a drastic change moves a number or stops the run."""
    as_it_is = replace(mutant, after=mutant.before)
    others = [replace(mutant, after=after) for after in drastic(mutant.before)]
    base, *seen = (in_child(partial(_numbers, one)) for one in (as_it_is, *others))
    return any(one != base for one in seen)


def _numbers(mutant: Mutant) -> list[str]:
    """What the checks of a mutant find, to the last bit."""
    put(mutant.file, mutant.apply((SOURCE / mutant.file).read_text()))
    bench = Bench()
    found = (bench.find(check.by) for check in by_cost(mutant))
    return [repr((one.value, one.error)) for one in found]


def in_child(work: Callable[[], object]) -> object:
    """What that returns in a process of its own; None where it raises, `endless` where it takes too long."""
    reads, writes = os.pipe()
    process = os.fork()
    if process == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        try:
            os.write(writes, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as file:
        said = file.read()
    _, status = os.waitpid(process, 0)
    return "endless" if os.WIFSIGNALED(status) else json.loads(said) if said else None


def tried(mutant: Mutant) -> str:
    """`caught`, `survived`, `endless`; `equal` or `unread` where the checks cannot depend on what is changed."""
    found = in_child(partial(notices, mutant))
    if found == "endless":
        return "endless"
    if found is not False:
        return "caught"
    watched = claim_classes.watching(mutant)
    if watched is not None and in_child(partial(_never_equal, watched)) is True:
        return "equal"
    return "survived" if mutant.file.startswith(DECIDERS) or is_read(mutant) else "unread"


def _never_equal(watched: Mutant) -> bool:
    """Whether the floats that are compared were never equal while its checks ran."""
    _numbers(watched)
    return claim_classes.never_equal()


def mutants(lab: bool, only: Sequence[str] = ()) -> list[Mutant]:
    """All of the deciders, or of what checks of claims read of the lab's experiments."""
    if lab:
        found = sorted((SOURCE / EXPERIMENTS).rglob("*.py"))
        files = [str(one.relative_to(SOURCE)) for one in found if named(str(one))]
    else:
        files = [f"{DECIDERS}/{name}.py" for name in FILES]
    files = [file for file in files if not only or Path(file).stem in only]
    every = [one for file in files for one in mutants_of(file, (SOURCE / file).read_text())]
    return [one for one in every if not lab or read_by(one.file).covers(one.place)]


@cache
def read_by(file: str) -> Slice:
    """What the checks of claims read of an experiment's file."""
    put(file, (SOURCE / file).read_text())
    ways = made_at(find_experiment(experiment_of(file)), SOURCE / file)
    return slice_of(SOURCE / file, ways, {lab_name(one.by)[1] for one in named(file)})


def is_equivalent(mutant: Mutant) -> bool:
    """Whether it is listed as one that nobody can tell from the code as it is."""
    line = (SOURCE / mutant.file).read_text().splitlines()[mutant.line - 1].strip()
    return (mutant.file, line, mutant.before, mutant.after) in _equivalent()


@cache
def _equivalent() -> frozenset[tuple[str, str, str, str]]:
    listed = tomllib.loads(EQUIVALENT.read_text())["mutant"]
    return frozenset((one["file"], line, one["before"], one["after"]) for one in listed for line in one["lines"])


def warm() -> None:
    """Imports all that deciders need, so that processes of mutants begin with it."""
    for name in FILES:
        import_module(f"lockstep.{DECIDERS.replace('/', '.')}.{name}")


def verdicts(chosen: Sequence[Mutant]) -> Iterator[tuple[Mutant, str]]:
    """Each mutant with its verdict, in order."""
    warm()
    for mutant in chosen:
        yield mutant, tried(mutant)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", action="store_true", help="mutants of the lab's experiments instead of deciders")
    parser.add_argument("--only", nargs="*", default=[], help="files, without .py")
    parser.add_argument("--count", type=int, help="how many to draw; all of them by default")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chosen = [one for one in mutants(given.lab, given.only) if not is_equivalent(one)]
    if given.count is not None:
        chosen = random.Random(given.seed).sample(chosen, min(given.count, len(chosen)))
    counts = Counter[str]()
    for mutant, verdict in verdicts(chosen):
        counts[verdict] += 1
        if verdict != "caught":
            print(f"{verdict:9} {mutant.id}", flush=True)
    caught = counts["caught"] + counts["endless"]
    ends = f" ({counts['endless']} by never ending)" if counts["endless"] else ""
    of = len(chosen) - counts["unread"] - counts["equal"]
    print(f"{caught} of {of} caught = {caught / max(1, of):.1%}{ends}")
    if given.lab:
        print(f"{counts['unread']} more change what no number of a check depends on")
    print(f"{counts['equal']} more differ only for equal floats, of which there were none")


if __name__ == "__main__":
    main()
