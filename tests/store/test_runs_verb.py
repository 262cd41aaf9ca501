"""The verb `runs`, on a store with runs of every status."""

from __future__ import annotations

from pathlib import Path

import pytest

import lockstep
from cli_runner import run
from lockstep.base.store import RunStore


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two finished runs, one failed, one running; the folder is the default one."""
    monkeypatch.setenv("LOCKSTEP_RUNS", str(tmp_path))
    store = RunStore()
    for ranks in (2, 4):
        with store.start("train", {"ranks": ranks}) as writer:
            for step in range(3):
                writer.record(step=step, loss=1.0 / (step + ranks))
            writer.finish({"loss": 1.0 / ranks})
    store.start("train", {}).fail("rank 1 killed by SIGKILL during backward")
    store.start("bench", {"op": "all-reduce"})
    return tmp_path


def test_the_list_is_newest_first(root: Path) -> None:
    answer = run("runs", "--json").json()
    assert [row["status"] for row in answer["runs"]] == ["running", "failed", "finished", "finished"]
    assert answer["total"] == 4
    assert run("runs", "--limit", "1", "--json").json()["runs"] == answer["runs"][:1]
    assert lockstep.runs().to_dict() == answer
    table = run("runs").out
    assert "SIGKILL" in table
    assert all(len(line) <= 80 for line in table.splitlines())


def test_runs_show_prints_events_and_status(root: Path) -> None:
    first = min(path.name for path in root.iterdir() if path.is_dir())
    answer = run("runs", "show", first, "--json").json()
    assert [event["loss"] for event in answer["events"]] == [1 / 2, 1 / 3, 1 / 4]
    assert "finished" in run("runs", "show", first).out


def test_runs_compare_prints_and_plots_the_difference(root: Path) -> None:
    first, second, *_ = sorted(path.name for path in root.iterdir() if path.is_dir())
    answer = run("runs", "compare", first, second, "--json").json()
    assert answer["words"] == {"ranks": [2, 4]}
    assert answer["rows"] == [{"number": "loss", "first": 0.5, "second": 0.25, "change_frac": -0.5}]
    picture = root / "curves.svg"
    assert "ranks" in run("runs", "compare", first, second, "--plot", str(picture)).out
    assert picture.stat().st_size > 1000


def test_reindex_and_delete(root: Path) -> None:
    (root / "index.sqlite").write_text("nonsense" * 500)
    assert run("runs", "reindex", "--json").json()["runs"] == 4
    oldest = run("runs", "--json").json()["runs"][-1]["id"]
    assert run("runs", "delete", oldest, "--json").json()["runs"] == 3
    assert oldest not in run("runs").out


def test_an_empty_folder_has_no_runs(tmp_path: Path) -> None:
    assert run("runs", "--runs", str(tmp_path), "--json").json()["runs"] == []
    assert "No runs" in run("runs", "--runs", str(tmp_path / "none")).out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("ACTION", ("shw",)),
        ("RUN", ("show",)),
        ("RUN", ("show", "nothing")),
        ("RUN", ("compare", "last")),
        ("RUN", ("list", "last")),
        ("RUN", ("delete", "last")),
        ("--limit", ("list", "--limit", "0")),
        ("--plot", ("list", "--plot", "x.png")),
    ],
)
def test_invalid_runs_commands_are_refused(root: Path, where: str, words: tuple[str, ...]) -> None:
    assert run("runs", *words, "--json").refusal().startswith(f"{where}: ")
