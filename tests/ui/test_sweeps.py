"""Sweeps on the page: what `lockstep sweeps` says, while they grow, for several readers; absent without any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep.base.engines import SweepFile
from lockstep.base.errors import BadInput
from lockstep.base.types.plain import Json
from lockstep.base.units import format_time
from lockstep.show.web.asked import Server
from lockstep.show.web.screens.sweeps import present
from ui.asking import Client
from ui.numbers import numbers, printed_by

SCREENS = ("/sweeps", "/data/sweeps", "/sweeps.json", "/sweeps.csv")


def test_without_sweep_files_there_is_no_sweeps_screen(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("no sweep")
    served = lockstep.ui(open=False, sweeps=tmp_path)
    client = Client(served.address).enter()
    assert [client.ask(path).status for path in SCREENS] == [404] * 4
    assert b"Sweeps" not in client.ask("/ask?model=gpt2").body  # type: ignore[attr-defined]
    assert "sweeps" not in [one["name"] for one in client.json("/screens")["screens"]]
    lockstep.plan("llama3-8b", "dgx-h100:2", batch=[64, 128], store=tmp_path / "plans.sweep")
    assert [client.ask(path).status for path in SCREENS] == [200] * 4
    assert b"Sweeps" in client.ask("/ask?model=gpt2").body  # type: ignore[attr-defined]
    served.stop()
    with pytest.raises(BadInput, match="--sweeps"):
        lockstep.ui(open=False, sweeps="")


def test_a_missing_or_unreadable_folder_has_no_sweeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not present(Server(sweeps=tmp_path / "gone"))

    def closed(_: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "iterdir", closed)
    assert not present(Server(sweeps=tmp_path))


HOSTILE: list[Json] = [
    {"verb": "plan", "words": {}, "began_s": "x", "versions": {}},
    {"verb": ["plan"], "words": {}, "began_s": 1.0, "versions": {}},
    {"verb": "plan", "words": {}, "began_s": 1.0, "versions": {}, "asked": "many"},
    {"verb": "plan", "words": {}, "began_s": 1.0, "versions": "1"},
]


def test_files_that_are_not_sweeps_are_not_shown(tmp_path: Path) -> None:
    """Nor do they keep the others from being shown; what a file's name holds is text."""
    for number, about in enumerate(HOSTILE):
        with SweepFile(tmp_path / f"{number}.sweep") as file:
            file.begin(about)
    (tmp_path / "torn.sweep").write_bytes(b"SQLite format 3\0" + b"x" * 4000)
    assert lockstep.sweeps("list", str(tmp_path)).to_dict()["sweeps"] == []
    name = "<img src=x onerror=alert(1)>.sweep"
    with SweepFile(tmp_path / name) as file:
        file.begin({"verb": "system", "words": {"command": "true"}, "began_s": 1.0, "versions": {}})
    served = lockstep.ui(open=False, sweeps=tmp_path)
    found = Client(served.address).enter().json("/data/sweeps")["data"]
    assert [row[0] for row in found["sweeps"]["rows"]] == [found["name"]] == [name]
    assert "is not a sweep" in found["blocks"][0]["text"]
    served.stop()


def test_a_sweep_is_selected_by_name_and_not_by_path(client: Client, kept: Path) -> None:
    for name in ("other.sweep", str(kept / "plans.sweep"), "../plans.sweep"):
        assert "no sweep" in client.json("/data/sweeps", {"sweep": name})["error"]


def test_the_shown_command_and_call_give_the_same_answer(client: Client, kept: Path) -> None:
    found = client.json("/data/sweeps", {"sweep": "plans.sweep"})
    assert found["shell"] == f"lockstep sweeps show {kept / 'plans.sweep'}"
    answer = eval(found["python"].partition("\n")[2], {"lockstep": lockstep})
    shown = client.json("/sweeps.json", {"sweep": "plans.sweep"})
    assert len(shown["rows"]) == len(answer.rows) == 2
    assert found["data"]["progress"]["text"] == "2 answers of 2, 100 %"


def test_a_sweep_is_shown_while_it_grows(tmp_path: Path) -> None:
    """Two readers in turn while it is written; what they see is on the disk, and never less than before."""
    served = lockstep.ui(open=False, sweeps=tmp_path)
    readers = [Client(served.address).enter() for _ in range(2)]
    seen: list[tuple[int, int]] = []

    def look(done: int, total: int) -> None:
        if (tmp_path / "plans.sweep").exists():
            found = readers[len(seen) % 2].ask("/data/sweeps").status
            if found == 200:
                data = readers[len(seen) % 2].json("/data/sweeps")["data"]
                seen.append((done, data["progress"]["at"]))
                assert total == 8

    places = [f"{name}:2" for name in ("dgx-h100", "dgx-h200", "dgx-b200", "dgx-a100-80gb")]
    lockstep.plan("llama3-8b", places, batch=[128, 256], store=tmp_path / "plans.sweep", progress=look)
    assert len(seen) > 2
    assert all(known <= done for done, known in seen)
    assert [known for _, known in seen] == sorted(known for _, known in seen)
    last = readers[0].json("/data/sweeps")["data"]
    assert last["progress"] == {"text": "8 answers of 8, 100 %", "share": 1.0, "at": 8}
    served.stop()


def test_the_page_grows_with_the_sweep(browser: Any, tmp_path: Path) -> None:
    """Without being loaded again, in two windows."""
    file = tmp_path / "plans.sweep"
    lockstep.plan("llama3-8b", "dgx-h100:2", batch=[64, 128], store=file)
    served = lockstep.ui(open=False, sweeps=tmp_path)
    context = browser.new_context()
    pages = [context.new_page() for _ in range(2)]
    complaints: list[str] = []
    for page in pages:
        page.on("console", lambda one: one.type in ("error", "warning") and complaints.append(one.text))
        page.goto(served.address)
        page.get_by_role("link", name="Sweeps").click()
        page.wait_for_function("() => document.querySelector('main h1')?.innerText === 'plans.sweep'")
        assert "2 answers of 2" in page.locator("main").inner_text()
    more = lockstep.plan("llama3-8b", "dgx-h100:2", batch=[64, 128, 256], store=file)
    for page in pages:
        page.wait_for_function("() => document.querySelector('main').innerText.includes('3 answers of 3, 100 %')")
        page.wait_for_function("() => !document.querySelector('[role=status]')")
        shown = page.locator("main").inner_text()
        assert format_time(more.rows[2].answer["plans"][0]["step_time_s"]) in shown
        listed = printed_by(lockstep.sweeps("list", str(tmp_path)))
        assert numbers(shown) <= numbers(printed_by(more), listed, "3 of 3, 100 %")
    assert complaints == []
    served.stop()
