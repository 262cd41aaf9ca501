"""Mutation testing: one small change of the code at a time; does a test notice?

    python tools/mutants.py record --processes 2        the whole suite once under coverage: which test runs which line
    python tools/mutants.py run --seed 1 --count 120    draws mutants and tries those not tried yet (resumes)
    python tools/mutants.py run --seed 1 --count 120 --again    tries those that were not killed once more
    python tools/mutants.py record --files tests/a/test_b.py    adds new or changed test files to the record
    python tools/mutants.py try "FILE:LINE: a -> b" TEST...     one mutant with the tests named
    python tools/mutants.py report                      score and survivors

A room is a folder of src/lockstep; each gets mutants in proportion to its lines. A mutant changes one operator, number,
condition or statement (`CHANGES`). It is tried on a copy of the sources with the tests that run its line, those of its
own room first, quick ones first, and others of the same files about the same cases, for at most 60 s of processor time,
so that a busy machine changes no verdict. It counts as killed when a test fails; one that times out counts as survived.
Mutants that change nothing a caller could see are listed with the reason in `equivalent_mutants.toml`.

    score = killed / (drawn - equivalent)

Needs `coverage`, which the dev extra installs. Everything is kept in `.mutants/`.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import copy
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "lockstep"
KEPT = ROOT / ".mutants"
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
LIMIT_S = 60
"""Processor time of one mutant."""
WAIT_S = 4 * LIMIT_S
"""For a mutant that waits for ever."""
CHOSEN_S = 40.0
"""Recorded processor time of the tests chosen for a mutant."""
MOST_TESTS = 600
TIMES = "MUTANTS_TIMES"
"""Names the file that keeps what each test took."""
_began: dict[str, float] = {}

GROUPS = 24
"""Parts in which the suite is recorded."""

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "maximum": "minimum", "minimum": "maximum", "floor": "ceil", "ceil": "floor"}
UNSEEN = ("annotation", "returns", "decorator_list", "type_params", "cases")
"""Parts of the syntax that are left alone: types, decorators, patterns."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file."""

    file: str
    """Below src/lockstep."""
    line: int
    last_line: int
    column: int
    end_column: int
    before: str
    after: str

    @property
    def id(self) -> str:
        """What it changes, wherever the line has moved to."""
        return f"{self.file}:{self.line}: {self.before} -> {self.after}"

    @property
    def place(self) -> tuple[int, int, int, int]:
        """First line and column, last line and column."""
        return self.line, self.column, self.last_line, self.end_column

    @property
    def room(self) -> str:
        """The folder, or the file for those at the top."""
        return self.file.partition("/")[0]

    def apply(self, text: str) -> str:
        """The source with the change."""
        lines = [line.encode() for line in text.splitlines(keepends=True)]
        head = b"".join(lines[: self.line - 1]) + lines[self.line - 1][: self.column]
        tail = lines[self.last_line - 1][self.end_column :] + b"".join(lines[self.last_line :])
        return (head + self.after.encode() + tail).decode()


def changed(node: ast.AST) -> Iterator[ast.AST]:
    """The node with one thing different, in every way there is."""
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in OPERATORS:
        sides = (node.left, node.right) if isinstance(node, ast.BinOp) else ()
        if not any(_is_text(side) for side in sides):
            yield _with(node, op=OPERATORS[type(node.op)]())
    elif isinstance(node, ast.Compare):
        for place, op in enumerate(node.ops):
            yield _with(node, ops=[OPERATORS[type(op)]() if i == place else one for i, one in enumerate(node.ops)])
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield _with(node, value=not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield _with(node, value=node.value + 1 if isinstance(node.value, int) else node.value * 1.1 or 1.0)
    elif isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        if name in NAMES:
            yield _with(node, **{"id" if isinstance(node, ast.Name) else "attr": NAMES[name]})
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        if not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
            yield ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass()


def _with(node: ast.AST, **fields: object) -> ast.AST:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


@cache
def mutants_of(file: str, text: str) -> list[Mutant]:
    """Every change of one file, in the order of its lines."""
    found: list[Mutant] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            return
        for other in changed(node):
            place = node.test if isinstance(node, ast.If | ast.While | ast.IfExp) else node
            bare = isinstance(other, ast.stmt | ast.Constant | ast.Name | ast.Attribute)
            before, after = ast.unparse(place), ast.unparse(other) if bare else f"({ast.unparse(other)})"
            lines, columns = (place.lineno, place.end_lineno or 0), (place.col_offset, place.end_col_offset or 0)
            found.append(Mutant(file, *lines, *columns, before, after))
        for name, value in ast.iter_fields(node):
            if name not in UNSEEN:
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        visit(child)

    visit(ast.parse(text))
    return sorted(found, key=lambda one: (one.line, one.column, one.after))


def drawn(seed: int, count: int, source: Path = SOURCE) -> list[Mutant]:
    """`count` mutants, by folder of `source` in proportion to lines (largest remainders), without repetition."""
    rooms: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        rooms[path.relative_to(source).parts[0]].append(path)
    lines = {room: sum(len(path.read_text().splitlines()) for path in files) for room, files in rooms.items()}
    exact = {room: count * lines[room] / sum(lines.values()) for room in rooms}
    shares = {room: int(share) for room, share in exact.items()}
    for room in sorted(rooms, key=lambda one: (shares[one] - exact[one], one))[: count - sum(shares.values())]:
        shares[room] += 1
    chosen: list[Mutant] = []
    for room, files in rooms.items():
        every = [one for path in files for one in mutants_of(str(path.relative_to(SOURCE)), path.read_text())]
        chosen += random.Random(f"{seed}/{room}").sample(every, min(shares[room], len(every)))
    return chosen


def record(processes: int, files: list[str]) -> None:
    """Runs the suite under coverage with a context for every test, and keeps what each test takes."""
    if files:
        (KEPT / "record").mkdir(parents=True, exist_ok=True)
        _record_group(GROUPS + len(list((KEPT / "record").glob("*.ini"))), files)
        return
    shutil.rmtree(KEPT / "record", ignore_errors=True)
    (KEPT / "record").mkdir(parents=True)
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    groups = [files[start::GROUPS] for start in range(GROUPS)]
    with ThreadPoolExecutor(processes) as pool:
        for done, code in enumerate(pool.map(_record_group, range(GROUPS), groups), 1):
            print(f"{done}/{GROUPS} groups of test files, exit code {code}", flush=True)


def _record_group(number: int, files: list[str]) -> int:
    """Runs some test files under coverage with the hooks below; the exit code of pytest."""
    here = KEPT / "record" / str(number)
    here.with_suffix(".ini").write_text(f"[run]\nsource = {SOURCE}\ndata_file = {here}.coverage\n")
    environment = os.environ | {TIMES: f"{here}.times", "PYTHONPATH": f"{SOURCE.parent}:{Path(__file__).parent}"}
    command = ["-m", "coverage", "run", f"--rcfile={here}.ini", "-m", "pytest", "-q", "-p", "no:xdist", "-p", "mutants"]
    with here.with_suffix(".log").open("w") as log:
        return subprocess.run(
            [sys.executable, *command, "--timeout=1200", "-o", "addopts=", *files],
            cwd=ROOT, env=environment, check=False, stdout=log, stderr=log,
        ).returncode  # fmt: skip


def pytest_runtest_logstart(nodeid: str) -> None:
    """Of pytest, which loads this file to record: what runs from now on belongs to this test."""
    from coverage import Coverage

    current = Coverage.current()
    if current is not None:
        current.switch_context(nodeid)
    _began[nodeid] = _processor_s()


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Of pytest: keeps what processor time the test took."""
    with open(os.environ[TIMES], "a", encoding="utf-8") as file:
        file.write(json.dumps([nodeid, _processor_s() - _began.pop(nodeid)]) + "\n")


def _processor_s() -> float:
    """Of this process and those that it waited for."""
    return sum(os.times()[:4])


class Record:
    """Which tests run a line, and how long they take."""

    def __init__(self) -> None:
        from coverage import CoverageData

        self.data = CoverageData(no_disk=True)
        for found in sorted((KEPT / "record").glob("*.coverage")):
            part = CoverageData(str(found))
            part.read()
            self.data.update(part)
        self.files = {name.partition("/src/lockstep/")[2]: name for name in self.data.measured_files()}
        times = (KEPT / "record").glob("*.times")
        recorded = dict(json.loads(row) for path in times for row in path.read_text().splitlines())
        self.seconds: dict[str, float] = {name: recorded[name] for name in recorded.keys() & _collected()}
        self.slowest: dict[str, float] = defaultdict(float)
        for name, seconds in self.seconds.items():
            self.slowest[_file(name)] = max(self.slowest[_file(name)], seconds)

    def tests(self, mutant: Mutant) -> list[str]:
        """Node ids up to `CHOSEN_S`, the mutant's room first, quick ones first; outside functions others of it too."""
        by_line = self.data.contexts_by_lineno(self.files[mutant.file]) if mutant.file in self.files else {}
        lines = range(mutant.line, mutant.last_line + 1)
        names = {name for line in lines for name in by_line.get(line, ()) if name}
        room = {name for name in self.seconds if name.startswith(f"tests/{mutant.room}/")}
        outside = not names or _at_import(mutant)
        if outside:  # Then all that the file does may depend on it.
            names = {name for found in by_line.values() for name in found if name}
        own = (names | room if outside else names) & self.seconds.keys()
        if not own:
            folder = Path(mutant.file).parent
            while not (ROOT / "tests" / folder).is_dir():
                folder = folder.parent
            return [str(ROOT / "tests" / folder)]
        first = self._quick(names & own, room, CHOSEN_S)
        chosen = first + self._quick(own - names, room, CHOSEN_S / 2)[: MOST_TESTS - len(first)]
        chosen += self._quick(self._beside(chosen), room, CHOSEN_S / 2)[: MOST_TESTS - len(chosen)]
        # What a module prepares for all its tests is in the time of one: files without a slow test begin.
        return sorted(chosen, key=lambda one: self.slowest[_file(one)])

    def _beside(self, chosen: list[str]) -> set[str]:
        """Tests of the same files about the same cases, of which only the first runs what the file prepares for all."""
        cases = {_case(node) for node in chosen}
        return {node for node in self.seconds if _case(node) in cases} - set(chosen)

    def _quick(self, nodes: set[str], room: set[str], most_s: float) -> list[str]:
        """Those of the room first, quick ones first, up to a time."""
        chosen, total_s = list[str](), 0.0
        for node in sorted(nodes, key=lambda one: (one not in room, self.seconds[one], one)):
            if len(chosen) == MOST_TESTS or (chosen and total_s + self.seconds[node] > most_s):
                break
            chosen.append(node)
            total_s += self.seconds[node]
        return chosen


def _collected() -> set[str]:
    """Tests that there are; to name one that is gone would be an error."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist", "-o", "addopts="]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {line for line in said.splitlines() if "::" in line}


def _case(node: str) -> tuple[str, str]:
    """Of a test: its file, and the parameters that it runs with."""
    return _file(node), node.partition("[")[2]


def _file(node: str) -> str:
    """Of a test."""
    return node.partition("::")[0]


def _at_import(mutant: Mutant) -> bool:
    """Whether the line is outside the bodies of functions: constants, fields and defaults of arguments."""
    found = ast.walk(ast.parse((SOURCE / mutant.file).read_text()))
    bodies = (one.body for one in found if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    return not any(body[0].lineno <= mutant.line <= (body[-1].end_lineno or 0) for body in bodies)


def tried(mutant: Mutant, tests: list[str], copied: Path) -> dict[str, Any]:
    """The verdict of those tests on the mutant, in the copy of the sources."""
    path = copied / mutant.file
    original, times = path.read_text(), path.stat()
    path.write_text(mutant.apply(original))
    environment = os.environ | {"PYTHONPATH": str(copied.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts="]
    began = time.monotonic()
    process = subprocess.Popen(
        command + tests, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S)),
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=WAIT_S)
        verdict = {0: "survived", 5: "survived", -signal.SIGKILL: "timeout"}.get(process.returncode, "killed")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        verdict = "timeout"
    finally:
        path.write_text(original)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # Else its compiled form would be out of date.
    failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return {"verdict": verdict, "seconds": round(time.monotonic() - began, 1), "by": (failed or [""])[0][:200]}


def results() -> dict[tuple[int, str, int], dict[str, Any]]:
    """What is known: by seed and mutant."""
    path = KEPT / "results.jsonl"
    rows = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return {(row["seed"], row["id"], row["column"]): row for row in rows}


def run(seed: int, count: int, again: bool = False) -> None:
    """Tries the mutants of a seed that were not tried, or `again` those that no test killed."""
    known, recorded = results(), Record()
    with _copied() as copied, (KEPT / "results.jsonl").open("a") as file:
        for place, mutant in enumerate(drawn(seed, count), 1):
            verdict = known.get((seed, mutant.id, mutant.column), {}).get("verdict")
            if verdict is not None and (verdict == "killed" or not again):
                continue
            tests = recorded.tests(mutant)
            row = {"seed": seed, "id": mutant.id, **asdict(mutant), "tests": len(tests), **tried(mutant, tests, copied)}
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(f"{place}/{count} {row['verdict']:9} {row['seconds']:5} s  {mutant.id}", flush=True)
    report()


def one(named: str, tests: list[str]) -> None:
    """Tries one mutant with the tests named."""
    file = named.partition(":")[0]
    found = [mutant for mutant in mutants_of(file, (SOURCE / file).read_text()) if mutant.id == named]
    if not found:
        sys.exit(f"no such mutant: {named}")
    with _copied() as copied:
        for mutant in found:
            print(tried(mutant, tests, copied))


@contextmanager
def _copied() -> Iterator[Path]:
    """A compiled copy of the sources that goes away."""
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "src" / "lockstep"
        shutil.copytree(SOURCE, copied, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(copied, quiet=2)
        yield copied


def text_of(row: dict[str, Any]) -> str:
    """The first line that a mutant changes, wherever it has moved to."""
    return (SOURCE / row["file"]).read_text().splitlines()[row["line"] - 1].strip()


def report() -> None:
    """Score, survivors and what they are in, by seed."""
    listed = tomllib.loads(EQUIVALENT.read_text())["mutant"]
    excused = {(one["file"], line, one["before"], one["after"]) for one in listed for line in one["lines"]}
    rows = list(results().values())
    for seed in sorted({row["seed"] for row in rows}):
        own = [row for row in rows if row["seed"] == seed]
        same = [row for row in own if (row["file"], text_of(row), row["before"], row["after"]) in excused]
        counted = [row for row in own if row not in same]
        killed = sum(row["verdict"] == "killed" for row in counted)
        score = killed / max(1, len(counted))
        print(f"seed {seed}: {killed} of {len(counted)} killed = {score:.1%}; {len(same)} equivalent")
        for row in counted:
            if row["verdict"] != "killed":
                print(f"  {row['verdict']:9} {row['id']}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "run", "try", "report"))
    parser.add_argument("named", nargs="*", help="of try: the mutant, then tests")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--again", action="store_true", help="of run: those not killed once more")
    parser.add_argument("--processes", type=int, default=1, help="of record: how many at once")
    parser.add_argument("--files", nargs="*", default=[], help="of record: these test files only, added to the record")
    given = parser.parse_args()
    match given.what:
        case "record":
            record(given.processes, given.files)
        case "run":
            run(given.seed, given.count, given.again)
        case "try":
            one(given.named[0], given.named[1:])
        case _:
            report()


if __name__ == "__main__":
    main()
