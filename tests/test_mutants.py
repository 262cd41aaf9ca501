"""The mutation tool draws what it says: real changes, one at a time, the same for the same seed."""

import ast
import tomllib
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[1] / "tools"
mutants = pytest.importorskip("mutants", reason="the tools are not installed beside these tests")

TEXT = '''"""Doc 3 + 4."""
from __future__ import annotations
LIMIT: int = 3
def f(x: int = 2, *, deep: bool = True) -> dict[str, int] | None:
    """Says 5 > 4."""
    if x and not deep or x >= LIMIT:
        note("a" + f"{x * 2}")
    while deep:
        x += min(x, 1.5)
    return {"é": -x ** 2 % 7}[
        "é"
    ]
'''


def test_every_mutant_is_another_program() -> None:
    found = mutants.mutants_of("sample.py", TEXT)
    texts = [one.apply(TEXT) for one in found]
    assert len(set(texts)) == len(texts)
    original = ast.dump(ast.parse(TEXT))
    assert original not in {ast.dump(ast.parse(text)) for text in texts}
    changes = {(one.before, one.after) for one in found}
    assert {("3", "4"), ("2", "3"), ("True", "False"), ("x >= LIMIT", "(x > LIMIT)"), ("min", "max")} <= changes
    assert ("deep", "(not deep)") in changes
    assert ("note('a' + f'{x * 2}')", "pass") in changes
    assert not any("dict" in one.before or "Doc" in one.before or one.before.startswith("'a' +") for one in found)


def test_sampled_mutants_are_reproducible_and_chosen_by_lines() -> None:
    part = mutants.SOURCE / "simulate" / "collectives"
    first, again, other = (mutants.drawn(seed, 60, part) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert len(first) == len(set(first)) == 60
    lines = {path.name: sum(len(one.read_text(encoding="utf-8").splitlines()) for one in path.rglob("*.py"))
             for path in part.iterdir() if path.is_dir()}  # fmt: skip
    total = sum(len(one.read_text(encoding="utf-8").splitlines()) for one in part.rglob("*.py"))
    for room, size in lines.items():
        assert abs(sum(one.file.startswith(f"simulate/collectives/{room}/") for one in first) - 60 * size / total) < 1


def test_every_equivalent_mutant_has_its_reason_and_still_exists() -> None:
    for one in tomllib.loads((TOOLS / "equivalent_mutants.toml").read_text(encoding="utf-8"))["mutant"]:
        assert len(one["because"]) > 20
        text = (mutants.SOURCE / one["file"]).read_text(encoding="utf-8")
        lines = [line.strip() for line in text.splitlines()]
        changes = {(lines[x.line - 1], x.before, x.after) for x in mutants.mutants_of(one["file"], text)}
        assert {(line, one["before"], one["after"]) for line in one["lines"]} <= changes, one
