"""Files of answers: the same bytes from any engine, nothing computed twice, readers while it grows, refusals."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lockstep
from cli_runner import run
from engines.engine_tasks import counted, die_always
from lockstep.base.engines import Asking, Processes, Questions, Serial, SweepFile
from lockstep.base.engines.packing import packed, unpacked
from lockstep.base.errors import BadInput

LINK = ("--latency", "5us", "--bandwidth", "25GB/s")
ASKED = ("estimate", "llama3-8b", "-c", "dgx-h100:4", "--batch", "256", "--tp", "1,2,4,8", "--zero", "1")


def asked(folder: Path, tasks: range, file: Path | None, engine: Any = None) -> dict[int, Any]:
    """The answers of `counted`, which notes every call in the folder."""
    questions = Questions(
        counted, [(str(folder), task) for task in tasks], {"of": "counted"}, content=lambda one: one[1]
    )
    if file is None:
        return dict(Asking(questions, engine or Serial()))
    with SweepFile(file) as kept:
        return dict(Asking(questions, engine or Serial(), kept))


def calls(folder: Path) -> list[int]:
    return sorted(int(path.name.split("-")[0]) for path in folder.iterdir())


def test_kept_answers_are_not_computed_again(tmp_path: Path) -> None:
    (folder := tmp_path / "calls").mkdir()
    file = tmp_path / "a.sweep"
    first = asked(folder, range(5), file)
    assert calls(folder) == [0, 1, 2, 3, 4]
    assert asked(folder, range(5), file) == first
    assert calls(folder) == [0, 1, 2, 3, 4]
    longer = asked(folder, range(8), file, Processes(2))
    assert calls(folder) == list(range(8)), "a longer list finds the answers of a shorter one"
    assert longer == asked(folder, range(8), None)


def test_keys_depend_on_content_only(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("one")
    keys = [Questions(die_always, [{"cluster": str(file), "batch": 4}], {"verb": "plan"}).keys()(0)]
    file.write_text("other")
    keys.append(Questions(die_always, [{"cluster": str(file), "batch": 4}], {"verb": "plan"}).keys()(0))
    keys.append(Questions(die_always, [{"batch": 4, "cluster": str(file)}], {"verb": "plan"}).keys()(0))
    keys.append(Questions(die_always, [{"batch": 5, "cluster": str(file)}], {"verb": "plan"}).keys()(0))
    keys.append(Questions(die_always, [{"batch": 4, "cluster": str(file)}], {"verb": "estimate"}).keys()(0))
    assert keys[1] == keys[2]
    assert len(set(keys)) == 4


@pytest.mark.parametrize("answer", [None, 1, 0.1 + 0.2, "a", [1, [2.5]], {"a": {"b": [None, True]}}, float("inf")])
def test_plain_data_round_trips(answer: Any) -> None:
    assert unpacked(packed(answer)) == answer


def test_arrays_round_trip_and_objects_are_refused() -> None:
    array = np.random.default_rng(0).normal(size=(3, 4))
    assert np.array_equal(unpacked(packed(array)), array)
    with pytest.raises(ValueError):
        packed(np.array([object()]))
    with pytest.raises(ValueError):
        unpacked(b"j" + b"damaged")


def test_every_engine_and_the_file_print_the_same_bytes(tmp_path: Path) -> None:
    file = str(tmp_path / "e.sweep")
    alone = run(*ASKED, "--json").out
    assert run(*ASKED, "--json", "--engine", "processes:2", "--store", file).out == alone
    assert run(*ASKED, "--json", "--store", file).out == alone
    assert run("sweeps", "show", file, "--json").out == alone
    assert run("sweeps", "resume", file, "--json").out == alone


def test_readers_see_a_file_grow(tmp_path: Path) -> None:
    path = tmp_path / "a.sweep"
    with SweepFile(path) as writer, SweepFile(path, writes=False) as one, SweepFile(path, writes=False) as other:
        for number in range(3):
            writer.add([(bytes([number]) * 16, packed(number))])
            writer.commit()
            assert len(one) == len(other) == number + 1
            assert one.answer(bytes([number]) * 16) == packed(number)


def test_an_answer_that_comes_twice_is_kept_once(tmp_path: Path) -> None:
    with SweepFile(tmp_path / "a.sweep") as file:
        file.add([(b"k" * 16, packed(1))])
        file.add([(b"k" * 16, packed(1)), (b"l" * 16, packed(2))])
        assert len(file) == 2


def test_a_killed_client_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "a.sweep"
    command = [sys.executable, "-m", "lockstep", "converge", "noise-scale", "--seeds", "4000", "--store", str(path)]
    client = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    known, deadline = 0, time.monotonic() + 60
    while known < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
        if path.exists():
            try:
                with SweepFile(path, writes=False) as file:
                    known = len(file)
            except BadInput:
                continue
    client.kill()
    client.wait()
    with SweepFile(path, writes=False) as file:
        assert len(file) >= known >= 2
        kept = len(file)
    shown = run("sweeps", "show", str(path), "--json").json()
    assert (shown["runs"], shown["complete"]) == (kept, False)


def test_the_verb_lists_exports_and_deletes(tmp_path: Path) -> None:
    file = tmp_path / "e.sweep"
    (tmp_path / "note.txt").write_text("no sweep")
    rows = run(*ASKED, "--json", "--store", str(file)).json()["rows"]
    listed = run("sweeps", "list", str(tmp_path), "--json").json()["sweeps"]
    assert [(one["file"], one["verb"], one["answers"], one["asked"]) for one in listed] == [
        (str(file), "estimate", 4, 4)
    ]
    assert "estimate" in run("sweeps", "list", str(tmp_path)).out
    for name in ("rows.csv", "rows.parquet"):
        exported = run("sweeps", "export", str(file), "-o", str(tmp_path / name)).out
        assert "exported 4 rows" in " ".join(exported.split())
    parquet = pytest.importorskip("pyarrow.parquet")
    found = parquet.read_table(tmp_path / "rows.parquet").to_pylist()
    assert [one["step_time_s"] for one in found] == [one["step_time_s"] for one in rows]
    assert [one["memory.total_B"] for one in found] == [one["memory"]["total_B"] for one in rows]
    assert "deleted" in run("sweeps", "delete", str(file)).out
    assert not file.exists()
    assert "No sweeps" in run("sweeps", "list", str(tmp_path)).out


def test_showing_a_sweep_file_does_not_change_it(tmp_path: Path) -> None:
    """Whoever writes it may have asked for more since it was read."""
    file = tmp_path / "e.sweep"
    run(*ASKED, "--store", str(file))
    with SweepFile(file) as grown:
        grown.begin({**grown.about, "asked": 99})
        about = grown.about
    run("sweeps", "show", str(file))
    with SweepFile(file, writes=False) as found:
        assert found.about == about


def test_foreign_sweep_files_are_refused(tmp_path: Path) -> None:
    file, other = tmp_path / "e.sweep", tmp_path / "other.txt"
    other.write_text("text" * 100)
    run(*ASKED, "--store", str(file))
    assert "not of messages" in run("messages", "--workers", "2,4", "--params", "1k", "--store", str(file)).refusal()
    for words in ((*ASKED, "--store", str(other)), ("sweeps", "show", str(other)), ("sweeps", "delete", str(other))):
        where = "SWEEP" if words[0] == "sweeps" else "--store"
        said = run(*words).refusal()
        assert said.startswith(f"{where}: ")
        assert "is not a file of answers" in said
    assert "belongs to a list" in run("messages", "--workers", "2", "--params", "1k", "--store", "a").refusal()
    assert "belongs to a list" in run("messages", "--workers", "2", "--params", "1k", "--engine", "serial").refusal()
    assert "no sweep is kept" in run("sweeps", "show", str(tmp_path / "none")).refusal()
    assert "--out" in run("sweeps", "export", str(file)).refusal()
    assert "belongs to resume" in run("sweeps", "show", str(file), "--engine", "serial").refusal()
    assert "takes one file" in run("sweeps", "show").refusal()
    assert "did you mean" in run("sweeps", "lst").refusal()
    cluster = lockstep.hardware.cluster("dgx-h100:4")
    with pytest.raises(BadInput, match="not of a Cluster"):
        lockstep.estimate("llama3-8b", cluster, batch=[256, 512], tp=2, store=tmp_path / "objects.sweep")


def test_answers_of_other_versions_are_refused_with_both(tmp_path: Path) -> None:
    file = tmp_path / "e.sweep"
    run(*ASKED, "--store", str(file))
    with SweepFile(file) as kept:
        kept.begin({"versions": {**kept.about["versions"], "numpy": "1.0"}})
    said = run("sweeps", "resume", str(file)).refusal()
    assert "numpy 1.0, not " + np.__version__ in said


def test_blocks_of_campaigns_are_the_same_everywhere(tmp_path: Path) -> None:
    words = ("campaign", "llama3-8b", "-c", "dgx-h100:4", "--batch", "256", "--tp", "2", "--zero", "1", "--tokens",
             "1T", "--campaigns", "25000", "--json")  # fmt: skip
    alone = run(*words).json()
    assert alone["simulated"]["campaigns"] == 25_000
    file = str(tmp_path / "c.sweep")
    assert run(*words, "--engine", "processes:2", "--store", file).json() == alone
    assert run("sweeps", "show", file, "--json").json() == alone
    exported = run("sweeps", "export", file, "-o", str(tmp_path / "c.csv")).out
    assert "exported 1 row to" in " ".join(exported.split())
    (row,) = csv.DictReader((tmp_path / "c.csv").read_text().splitlines())
    assert float(row["days"]) == alone["days"]
    assert float(row["simulated.p95_wall_s"]) == alone["simulated"]["p95_wall_s"]
    low, high = alone["ci95_days"]
    assert low <= alone["days"] <= high


def known(path: Path) -> int:
    """Answers in the file so far."""
    with suppress(BadInput), SweepFile(path, writes=False) as file:
        return len(file)
    return 0


def test_ctrl_c_keeps_what_is_known(tmp_path: Path) -> None:
    path = tmp_path / "a.sweep"
    command = [sys.executable, "-m", "lockstep", "converge", "noise-scale", "--seeds", "4000", "--store", str(path)]
    # What a shell starts in the background ignores SIGINT, and its children with it.
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    client = subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True, preexec_fn=heard)
    deadline = time.monotonic() + 60
    while not known(path) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(client.pid, signal.SIGINT)
    answer = json.loads(client.communicate(timeout=60)[0])
    assert answer["stopped"] == "Ctrl-C"
    with SweepFile(path, writes=False) as file:
        assert len(file) >= answer["runs"] > 0
