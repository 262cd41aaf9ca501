"""Measured runs on the page: what is shown is what `diagnose` says, and no file can do more than be read."""

from __future__ import annotations

import gzip
import json
import pickle
import re
import threading
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

import lockstep
from lockstep.base.units import format_time
from lockstep.explain.diagnosis import Diagnosis
from lockstep.show.verbs.diagnose import PARTS
from lockstep.show.views.page.inline import script
from lockstep.show.views.parts.diagnosis import lanes
from lockstep.show.web import uploads
from lockstep.show.web.asked import Asked, Server, Superseded
from lockstep.show.web.measured import diagnosed
from lockstep.show.web.screens.diagnose import gap
from lockstep.simulate.program import read_trace
from ui.asking import Client
from ui.measured_run import WORDS, drop, dropped, run, write
from ui.megatron_log import MEGATRON

SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write(tmp_path_factory.mktemp("traces"))


@pytest.fixture(scope="module")
def answer(paths: list[Path]) -> Diagnosis:
    return lockstep.diagnose(paths, **run())


@pytest.fixture(scope="module")
def words(client: Client, paths: list[Path]) -> dict[str, str]:
    return dropped(client, paths)


def unlocated(found: object) -> object:
    """An answer without the folders of its files."""
    return json.loads(re.sub(r'"path": "[^"]*/', '"path": "', json.dumps(found)))


def test_the_screen_shows_the_answer_of_diagnose(answer, words, paths, client, monkeypatch) -> None:
    """Also by the call that stands beside it, where files of these names are."""
    found = client.json("/diagnose.json", words)
    assert unlocated(found) == unlocated({"schema": 1, **answer.to_dict()})
    said = client.json("/data/diagnose", words)
    assert said["shell"].startswith("lockstep diagnose rank0.json.gz rank1.json.gz")
    monkeypatch.chdir(paths[0].parent)
    called = eval(said["python"].partition("\n")[2], {"lockstep": lockstep})
    assert unlocated(called.to_dict()) == unlocated(answer.to_dict())


def test_the_slow_rank_is_named_first(words, client) -> None:
    """The fault is known: it is the first cause, and at most three changes are named."""
    blocks = client.json("/data/diagnose", words)["data"]["blocks"]
    assert blocks[0]["text"].startswith("Rank 3")
    changes = next(one for one in blocks if one.get("title") == "Change first")
    assert "ceilings" in changes["note"]
    assert 1 <= len(changes["rows"]) <= 3


def test_parts_of_the_gap_add_up(answer, words, client) -> None:
    """Every bar begins where the one before ends; the first and the last are the two steps."""
    both = answer.comparison()
    assert both.a.step_time_s == pytest.approx(answer.predicted.step_time_s, rel=1e-12)
    assert both.b.step_time_s == pytest.approx(answer.measured_s, rel=1e-12)
    assert both.b.mfu_frac == pytest.approx(answer.mfu_frac)
    assert both.b.cost_per_token / both.a.cost_per_token == pytest.approx(both.ratio)
    shown = client.json("/data/diagnose", words)["data"]["gap"]
    assert shown == json.loads(json.dumps(gap(both)))
    first, *steps, last = shown["rows"]
    assert first["text"] == format_time(answer.predicted.step_time_s)
    assert last["text"] == format_time(answer.measured_s)
    at = first["width"]
    for one in steps:
        low, high = one["start"], one["start"] + one["width"]
        begins, ends = (low, high) if one["kind"] == "more" else (high, low)
        assert begins == pytest.approx(at, abs=1e-9)
        at = ends
    assert at == pytest.approx(last["width"], abs=1e-6)
    sizes = [one["width"] for one in steps[:-1]]
    assert all(one >= other for one, other in pairwise(sizes))


def test_timeline_and_compare_show_measurement_and_prediction(answer, words, client, tmp_path) -> None:
    """The lanes are those of the one-file answer, the parts those of the comparison."""
    assert client.json("/later/diagnose", words)["data"]["form"] == json.loads(json.dumps(lanes(answer)))
    drawn = client.json("/data/timeline", words)["data"]
    assert drawn["form"] == json.loads(json.dumps(lanes(answer)))
    compared = client.json("/data/compare", words)
    both = answer.comparison()
    assert compared["shell"].startswith("lockstep diagnose")
    assert compared["data"]["verdict"].lower() == both.verdict().lower()
    assert [one["text"] for one in compared["data"]["sides"]] == [
        format_time(both.a.step_time_s),
        format_time(both.b.step_time_s),
    ]
    # What is said of B goes before what was measured.
    assert client.json("/data/compare", {**words, "b": "micro_batch=2"})["shell"].startswith("lockstep compare")
    trace = tmp_path / "both.json.gz"
    trace.write_bytes(client.ask(f"/timeline.trace?{urlencode(words)}").body)  # type: ignore[attr-defined]
    assert list(read_trace(trace).rank_names) == [f"rank {rank}" for rank in range(8)]


def test_traces_are_shown_without_a_model(paths, words, client) -> None:
    """Whatever else the address says of a run."""
    alone = {**words, "model": ""}
    found = client.json("/diagnose.json", alone)
    assert unlocated(found) == unlocated({"schema": 1, **lockstep.diagnose(paths).to_dict()})
    assert len(client.json("/data/timeline", alone)["data"]["form"]["timelines"]) == 1
    assert client.json("/data/compare", alone)["where"] == "model"


def test_a_number_is_compared_with_the_prediction(client) -> None:
    found = client.json("/diagnose.json", {**WORDS, "mfu": "10%"})
    expected = lockstep.diagnose(mfu="10%", **run()).to_dict()
    assert found["step_time_s"] == expected["step_time_s"]
    assert found["judged"]["verdict"] == expected["judged"]["verdict"]
    compared = client.json("/data/compare", {**WORDS, "mfu": "10%"})["data"]
    assert [len(one["parts"]) for one in compared["sides"]] == [1, 1]
    assert "a trace does" in compared["notes"][-1]


LINKS = "# all_reduce_perf\n#  Rank  0 on host0 device  0\n#  Rank  1 on host0 device  1\n" + (
    "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    "     1048576        262144     float     sum      -1    25.00    0.00    0.00      0\n"
    "    16777216       4194304     float     sum      -1    80.00    0.00    0.00      0\n"
    "   268435456      67108864     float     sum      -1    920.0    0.00    0.00      0\n"
)


def test_a_log_with_its_arguments_describes_the_run(client: Client, tmp_path: Path) -> None:
    """Model, layout and batch are the log's, as the command reads it; words of the form go before them."""
    file = tmp_path / "train.log"
    file.write_text(MEGATRON)
    read = drop(client, MEGATRON.encode(), file.name)[1]
    assert {"model", "batch", "batch_tokens", "tp", "pp", "zero"} <= set(read["states"])
    asked = {"file": read["word"], "cluster": "dgx-h100:2"}
    found, expected = client.json("/diagnose.json", asked), lockstep.diagnose(file, cluster="dgx-h100:2")
    assert expected.predicted is not None
    assert (expected.predicted.layout.tp, expected.predicted.layout.pp) == (2, 2)
    assert unlocated(found) == unlocated({"schema": 1, **expected.to_dict()})
    shown = client.json("/data/diagnose", asked)
    assert shown["shell"] == "lockstep diagnose train.log --cluster dgx-h100:2"
    assert "tp 2, pp 2" in shown["data"]["title"]
    wider = client.json("/diagnose.json", {**asked, "tp": "4"})
    assert wider["step_time_s"]["predicted"] != found["step_time_s"]["predicted"]
    assert drop(client, LINKS.encode(), "nccl.txt")[1]["states"] == []


def test_an_abandoned_diagnosis_is_cancelled() -> None:
    """Between its parts, and before each variant of the run that it prices."""

    class Counting(threading.Event):
        asked, most = 0, 10**6

        def is_set(self) -> bool:
            self.asked += 1
            return self.asked > self.most

    server, whole = Server(), Counting()
    Asked(WORDS, server).ask("plan")
    diagnosed(Asked({**WORDS, "measured": "20s"}, server, whole))
    assert whole.asked > PARTS + 8
    for most in range(whole.asked):
        stop = Counting()
        stop.most = most
        with pytest.raises(Superseded):
            diagnosed(Asked({**WORDS, "measured": "20.1s"}, server, stop))
        assert stop.asked == most + 1


def test_the_run_is_planned_again_on_dropped_links(client: Client, tmp_path: Path) -> None:
    """The files are read twice by the verb, and are still there."""
    word = drop(client, LINKS.encode(), "nccl.txt")[1]["word"]
    found = client.json("/diagnose.json", {**WORDS, "file": word, "measured": "3s", "replan": "yes"})
    file = tmp_path / "nccl.txt"
    file.write_text(LINKS)
    expected = lockstep.diagnose(file, measured="3s", replan=True, **run()).to_dict()
    assert found["recalibrated"]["factors"] == json.loads(json.dumps(expected["recalibrated"]["factors"]))
    assert found["links"] == json.loads(json.dumps(expected["links"]))


def test_two_measured_runs_are_compared(
    answer: Diagnosis, words: dict[str, str], tmp_path: Path, client: Client
) -> None:
    """What changed from another run's traces, as `--against` says it; the files of each stay apart."""
    found = lockstep.diagnose(write(tmp_path, factor=1.0), **run())
    other = dropped(client, sorted(tmp_path.iterdir()))["file"]
    shown = client.json("/diagnose.json", {**words, "before": other})
    paths = [one.path for one in answer.inputs]
    expected = lockstep.diagnose(paths, against=tmp_path, **run()).to_dict()
    assert shown["changes"] == json.loads(json.dumps(expected["changes"]))
    assert shown["changes"][0]["difference_s"] > 0
    assert found.measured_s < answer.measured_s
    said = client.json("/data/diagnose", {**words, "before": other})
    assert "--against another-run" in said["shell"]
    assert any(one.get("title") == "What changed" for one in said["data"]["blocks"])


@pytest.mark.parametrize("given", [{}, {"model": ""}])
def test_without_files_the_screen_explains_how_to_record_a_run(given: dict[str, str], client) -> None:
    """With the prediction it would be held against, where there is a run."""
    found = client.json("/data/diagnose", {**WORDS, **given})
    assert found["data"]["recording"]
    assert bool(found["data"]["figures"]) == (given == {})
    code = next(one["code"] for one in found["data"]["recording"] if "profiler" in one["code"])
    assert code in (Path(__file__).parents[2] / "docs" / "use" / "diagnose.md").read_text("utf-8")


class Evil:
    """A pickle that would run code."""

    def __reduce__(self) -> tuple[object, ...]:
        return (print, ("ran",))


EVENT = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 0, "dur": 1, "args": {}}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "is empty"),
        (b"hello", "of no kind known"),
        (b"\xff\xfe\x00" * 10, "of no kind known"),
        (gzip.compress(b'{"traceEvents": [' + b" " * 10_000, mtime=0)[:-20], "cut off or damaged"),
        (b'{"traceEvents": [', "at byte"),
        (json.dumps({"traceEvents": [EVENT | {"dur": float("nan")}]}).encode(), "not a number"),
        (b'{"traceEvents": [' + b"[" * 100_000, "at byte"),
        (pickle.dumps({"segments": [Evil()]}, 4), "could run code"),
        (b"rank,step,op,start_s,duration_s\n0,0,x,0,-1\n", ":2"),
    ],
)
def test_a_hostile_file_gets_a_message(body: bytes, said: str, client: Client) -> None:
    status, found = drop(client, body)
    assert status == 422, found
    assert said in found["error"] + found["where"]


def test_sizes_are_limited(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """As dropped, unpacked, and of all files together."""
    monkeypatch.setattr("lockstep.show.web.app.MOST_MEASURED_B", 100_000)
    monkeypatch.setattr(uploads, "MOST_MEASURED_B", 100_000)
    status, found = drop(client, b"x" * 200_000)
    assert (status, "is larger than the" in found["error"]) == (422, True)
    monkeypatch.setattr(uploads, "MOST_UNPACKED_B", 1_000_000)
    status, found = drop(client, gzip.compress(b"x" * 5_000_000))
    assert (status, "unpacked" in found["error"]) == (422, True)


def test_the_number_of_kept_files_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones are forgotten, by number and by size."""
    kept = uploads.Uploads()
    bodies = [table(rank) for rank in range(uploads.MOST_FILES + 1)]
    given = [kept.add_measured("t.csv", body, len(body))["word"] for body in bodies]
    assert len(set(given)) == len(given)
    assert len(kept.names) == uploads.MOST_FILES
    assert given[0] not in kept.names
    monkeypatch.setattr(uploads, "MOST_KEPT_B", 3 * 2 * len(bodies[-1]))
    kept.add_measured("t.csv", bodies[0], len(bodies[0]))
    assert len(kept.names) == 3
    assert given[0] in kept.names


def table(rank: int, op: str = "forward") -> bytes:
    rows = "".join(f"{rank},{step},{op},{step}.0,0.5\n" for step in range(10, 16))
    return f"rank,step,op,start_s,duration_s\n{rows}".encode()


def test_names_are_text(client: Client) -> None:
    """Those of files, of kernels and of what a table calls its operations."""
    name = quote("../../etc/passwd<script>.csv", safe="")
    status, found = drop(client, table(0, SCRIPT.replace('"', "").replace(",", "")), name)
    assert status == 200
    assert "/" not in found["word"]
    assert "<" not in found["word"]
    page = client.ask(f"/diagnose.html?file={found['word']}").body.decode()  # type: ignore[attr-defined]
    kinds = re.findall(r"<script([^>]*)>", page)
    assert [kind for kind in kinds if "application/json" not in kind] == [""]
    assert f"<script>{script()}</script>" in page
    assert "<img" not in page
    assert "&lt;/script&gt;" in page


def test_only_dropped_files_are_read(tmp_path: Path, client: Client) -> None:
    file = tmp_path / "secret.csv"
    file.write_bytes(table(0))
    for word in (str(file), "dropped:0-file", f"dropped:0-file {file}"):
        found = client.json("/data/diagnose", {"file": word})
        assert found["where"] == "file"
        assert "drop" in found["error"]
    found = client.json("/data/diagnose", {**WORDS, "measured": "5s", "out": str(tmp_path / "x.yaml"), "trace": "x"})
    assert "data" in found
    assert list(tmp_path.iterdir()) == [file]


def test_uploads_require_host_token_and_same_origin(client: Client) -> None:
    """The rules of the page hold: its host, its token, no page of another site."""
    body = table(0)
    assert Client(client.address).ask("/drop/measured?name=t", "POST", body).status == 403
    assert client.ask("/drop/measured?name=t", "POST", body, Host="evil.example").status == 421
    assert client.ask("/drop/measured?name=t", "POST", body, Origin="http://evil.example").status == 403
    answer = client.ask("/drop/measured?name=t", "POST", body, Origin=f"http://{client.host}")
    assert answer.status == 200
    assert answer.headers["content-security-policy"].startswith("default-src 'self';")
