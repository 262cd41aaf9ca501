"""`claims --all` tells each item as soon as it is decided, and goes on from what its file has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import lockstep
from cli_runner import run
from lockstep.base.errors import BadInput
from lockstep.check.evidence.claims import running, shelf
from lockstep.check.evidence.claims.decide import Decided
from lockstep.check.evidence.claims.entry import Entry
from lockstep.check.evidence.claims.shelf import entries
from lockstep.show.verbs import claims as verb

FEW = tuple(entry for entry in entries() if entry.id in ("T5", "A.8", "T10", "B.17", "M11"))
"""Their deciders take a millisecond each."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Parts that ran, in their order; only a few items are there."""
    found: list[str] = []
    real = running.find_part

    def noted(seed: int, part: Sequence[str]) -> list[tuple[float, float, str]]:
        found.append(part[0])
        return real(seed, part)

    shelf.errata()  # Once made of all items, they are kept.
    monkeypatch.setattr(running, "find_part", noted)
    monkeypatch.setattr(shelf, "entries", lambda: FEW)
    return found


class Heard:
    """What a run tells, beside how many parts had run by then."""

    def __init__(self, asked: list[str]) -> None:
        self.asked, self.told = asked, list[tuple[str, int]]()

    def __call__(self, done: int, total: int) -> None:
        """Parts are seen in `asked`."""

    def decided(self, one: Decided) -> None:
        self.told.append((one.entry.id, len(self.asked)))


def texts(entry: Entry) -> set[str]:
    return {check.by for check in entry.every_check()}


def test_an_item_is_told_when_its_last_number_is_there(asked: list[str]) -> None:
    heard = Heard(asked)
    found, _ = running.run(FEW, progress=heard)
    assert {name for name, _ in heard.told} == {one.entry.id for one in found}
    assert heard.told[0][1] < len(asked)
    for name, number in heard.told:
        own = texts(next(one for one in FEW if one.id == name))
        assert own <= set(asked[:number])
        assert number == 1 or not own or asked[number - 1] in own, name


def test_a_later_run_goes_on_from_the_file(asked: list[str], tmp_path: Path) -> None:
    """Also where the file was cut off in the middle of a line, as by a kill."""
    store = tmp_path / "claims.sweep"
    whole = lockstep.claims(all=True, store=store)
    every = list(asked)
    lines = store.read_bytes().splitlines(keepends=True)
    store.write_bytes(b"".join(lines[:-3]) + lines[-3][:20])
    asked.clear()
    assert lockstep.claims(all=True, store=store) == whole
    assert 0 < len(asked) < len(every)
    asked.clear()
    assert lockstep.claims(all=True, store=store) == whole
    assert asked == []
    assert lockstep.claims(all=True, store=tmp_path / "other.sweep", seed=1).entries
    assert len(asked) == len(every)


def test_the_answer_is_one_json_object_that_begins_early(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = run("claims", "--all", "--json")
    assert found.code == 0
    told = json.loads(found.out)
    assert {one["id"] for one in told["claims"]} == {entry.id for entry in FEW}
    assert all(one["as_registered"] for one in told["claims"])
    assert (told["asked"], told["left_out"], told["stopped"]) == ("all", [], "")
    left = run("claims", "--all", "--within", "0s", "--json").json()
    assert {one["id"] for one in left["claims"]} == {entry.id for entry in FEW}
    assert set(left["left_out"]) == {entry.id for entry in FEW if entry.every_check()}


def test_items_are_printed_once_each_and_then_the_processor_time(asked: list[str]) -> None:
    before_s = running.spent_s()
    found = run("claims", "--all")
    most_s = running.spent_s() - before_s
    for entry in FEW:
        assert sum(line.startswith(f"{entry.id} ") for line in found.out.splitlines()) == 1
    (said,) = [line for line in found.out.splitlines() if line.endswith("s of processor time")]
    assert 0 <= float(said.split()[0]) <= most_s + 0.05
    answer = lockstep.claims(all=True)
    assert answer.took_s > 0
    assert isinstance(answer, verb.Claims)


def test_only_all_items_are_kept_in_a_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--store"):
        lockstep.claims("T5", run=True, store=tmp_path / "a.sweep")
