"""What the page's server answers is what the verbs answer, and an address can ask nothing else."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, cast
from urllib.parse import urlencode

import pytest
from rich.console import Console
from starlette.requests import Request
from starlette.responses import Response

import lockstep
from cli_runner import run
from lockstep.base.errors import BadInput
from lockstep.show.verbs.words.option import words_of
from lockstep.show.views.memory import render_rank
from lockstep.show.views.parts.card import HEIGHT_PX, WIDTH_PX
from lockstep.show.views.parts.options import verb_function
from lockstep.show.web.app import worked
from lockstep.show.web.asked import Asked, Server, Superseded, allowed
from lockstep.show.web.parts import memory_bar
from lockstep.show.web.screen import Screen
from lockstep.show.web.screens import ORDER, screen
from ui.asking import SCREENS, WORDS, Client


@pytest.mark.parametrize("name", SCREENS)
def test_json_equals_that_of_the_printed_command(name: str, client: Client) -> None:
    said = client.json(f"/data/{name}", WORDS)
    scope: dict[str, object] = {}
    call = said["python"].partition("\n")[2]
    answer = eval(call, {"lockstep": lockstep}, scope)
    found = client.json(f"/{name}.json", WORDS)
    expected = json.loads(json.dumps({"schema": 1, **answer.to_dict()}))
    assert found.keys() == expected.keys()
    assert found.get("step_time_s") == expected.get("step_time_s")
    assert found.get("plans", found.get("parts", 0)) == expected.get("plans", expected.get("parts", 0))
    assert found.get("days") == expected.get("days")
    assert found.get("elasticity") == expected.get("elasticity")


def test_a_nearly_full_device_is_reported() -> None:
    found = lockstep.estimate("llama3-8b", "dgx-h100:1", batch=64, dp=8, zero=1).memory
    full = replace(found, capacity_B=1.02 * float(found.total_B))
    assert not memory_bar(found)["tight"]
    assert "barely fits" in memory_bar(full)["tight"]
    shown = io.StringIO()
    render_rank(full, Console(file=shown, width=200))
    assert "barely fits" in shown.getvalue()


@pytest.mark.parametrize("name", ORDER)
def test_every_screen_can_be_saved_as_a_file(name: str, client: Client) -> None:
    page = client.ask(f"/{name}.html?{urlencode(WORDS)}")
    text = page.body.decode()  # type: ignore[attr-defined]
    assert page.status == 200, text
    assert page.headers["content-disposition"].startswith("attachment")
    assert "<h1>" in text
    assert "In Python" in text
    assert len(text) < 1_000_000
    rows = client.ask(f"/{name}.csv?{urlencode(WORDS)}").body.decode()  # type: ignore[attr-defined]
    assert len(rows.splitlines()) > 1


@pytest.mark.parametrize("name", ORDER)
def test_every_screen_has_a_card(name: str, client: Client) -> None:
    made = client.ask(f"/{name}.card.png?{urlencode(WORDS)}")
    data = made.body  # type: ignore[attr-defined]
    assert made.status == 200, data
    assert made.headers["content-type"] == "image/png"
    assert struct.unpack(">II", data[16:24]) == (WIDTH_PX, HEIGHT_PX)


def test_the_card_of_a_screen_is_that_of_its_command(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "card.svg"
    asked = ("plan", "llama3-8b", "-c", "dgx-h100:2", "--batch", "64", "--tokens", "1T")
    told = run(*asked, "--card", str(file))
    assert told.code == 0, told.err
    assert client.ask(f"/ask.card.svg?{urlencode(WORDS)}").body == file.read_bytes()  # type: ignore[attr-defined]


def test_rows_are_those_of_table(client: Client) -> None:
    text = client.ask("/ask.csv?model=llama3-8b&cluster=dgx-h100:2&batch=64").body.decode()  # type: ignore[attr-defined]
    rows = list(csv.DictReader(text.splitlines()))
    expected = lockstep.plan("llama3-8b", "dgx-h100:2", batch=64).table()
    assert len(rows) == len(expected)
    assert [float(row["step_time_s"]) for row in rows] == [one["step_time_s"] for one in expected]


def test_unchanged_answers_are_not_sent_again(client: Client) -> None:
    first = client.ask("/screens")
    tag = first.headers["etag"]
    assert client.ask("/screens", If_None_Match=tag).status == 304
    assert client.ask("/screens", If_None_Match='"other"').status == 200


def test_an_infeasible_answer_says_what_would_help(client: Client) -> None:
    found = client.json("/data/ask", {"model": "llama3-405b", "cluster": "dgx-h100", "batch": "8"})
    assert "does not fit" in found["no"]
    assert "What would help" in found["levers"]


@pytest.mark.parametrize(
    ("words", "where", "said"),
    [
        ({}, "model", "must be given"),
        ({"model": "llama3-8b"}, "cluster", "give the cluster"),
        ({"model": "lama3-8b"}, "model", "did you mean"),
        ({**WORDS, "batch": "x"}, "batch", "'x'"),
        ({**WORDS, "seq": "1k,2k"}, "seq", "one value"),
        ({**WORDS, "cluster": "all:4"}, "cluster", "one value"),
        ({**WORDS, "sequence_parallel": "maybe"}, "sequence_parallel", "yes or no"),
        ({**WORDS, "dtype": "x" * 500}, "dtype", "longer than"),
        ({**WORDS, "model": "dropped:0-config.json"}, "model", "drop it again"),
    ],
)
def test_invalid_values_are_refused_at_their_field(
    words: dict[str, str], where: str, said: str, client: Client
) -> None:
    found = client.json("/data/ask", words)
    assert found["where"] == where
    assert said in found["error"]


@pytest.mark.parametrize("form", ["{}", "llama3-8b@{}"])
def test_no_parameter_opens_a_file(form: str, tmp_path: Path, client: Client) -> None:
    file = tmp_path / "secret.json"
    file.write_text('{"model_type": "secret"}')
    named = {"model": str(file), "cluster": str(file), "stack": str(file), "rank_jitter": f"trace:{file}"}
    for name, value in named.items():
        found = client.json("/data/ask", {**WORDS, name: form.format(value)})
        assert "names a file" in found["error"], name
        assert "model_type" not in found["error"]
    for b in (f"tp=2 cluster={file}", f"tp=2 stack={file}", str(file), f"case:{file}", f"rank_jitter=trace:{file}"):
        found = client.json("/data/compare", {**WORDS, "b": b})
        assert "names a file" in found["error"], b
    for against in (str(file), f"case:{file}"):
        found = client.json("/data/diagnose", {**WORDS, "measured": "5s", "against": against})
        assert "names a file" in found["error"], against
    assert "dropped" in client.json("/data/diagnose", {**WORDS, "file": str(file)})["error"]


def test_files_named_like_values_do_not_interfere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("2", "64", "1T", "robust", "llama3-8b", "dgx-h100", "torchtitan", "yes"):
        (tmp_path / name).mkdir()
    found = client.json("/data/compare", {**WORDS, "b": "tp=2 sequence_parallel=yes"})
    assert "data" in found, found
    assert "data" in client.json("/data/ask", {**WORDS, "objective": "robust", "stack": "torchtitan"})


def test_no_parameter_writes_a_file(tmp_path: Path, client: Client) -> None:
    out = tmp_path / "plan.yaml"
    found = client.json("/data/ask", {**WORDS, "out": str(out), "export": str(out), "plot": str(out)})
    assert "data" in found
    assert not out.exists()


@pytest.mark.parametrize(
    "more", [{}, {"objective": "cost"}, {"software": "torchtitan"}, {"objective": "time", "seq": "4096"}]
)
def test_the_layout_screen_shows_the_layout_of_the_plan(more: dict[str, str], client: Client) -> None:
    """Also where the plan took fewer devices, or timed another software than the default."""
    words = {"model": "llama3-8b", "cluster": "dgx-h100:4", "batch_tokens": "1M", "tokens": "1T", **more}
    found = client.json("/ask.json", words)
    shown = client.json("/layout.json", words)
    assert shown["step_time_s"] == found["plans"][0]["step_time_s"]
    link = client.json("/data/ask", words)["data"]["blocks"][0]["links"][1]["words"]
    second = client.json("/layout.json", {**words, **link})
    assert second["step_time_s"] == found["plans"][1]["step_time_s"]


SAFE = {
    "", "A", "B", "C", "D", "E", "F", "FRAC", "G", "ID", "K", "KIND", "KIND=NAME,...", "L", "LAW", "LEVEL", "M",
    "MODEL", "N", "N,N,...", "N-N", "N=FILE,...", "NAME", "NAME=VALUE", "O", "P", "R", "S",
    "SLOT=WAY,...", "SOFTWARE", "T", "TEXT", "THEIRS=OURS", "TIME", "V", "W", "W=N,...", "WHAT", "WORD,...", "X", "Z",
}  # fmt: skip
"""What a word of an address may stand for: no file that is opened, no folder, no other machine. Edit it on purpose.

The FILE in N=FILE,... is the name of one that was dropped.
"""


@pytest.mark.parametrize("verb", sorted({screen(name).verb for name in ORDER} | {"memory"}))
def test_address_parameters_cannot_name_files(verb: str) -> None:
    every = {one.name: getattr(one.declared, "metavar", "") for one in words_of(verb_function(verb))}
    taken = allowed(verb, dict.fromkeys([*every, "progress", "engine", "store", "out"], "x"))
    assert {every[name] for name in taken} <= SAFE
    assert not {"progress", "engine", "store", "out"} & set(taken)


def test_superseded_work_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search looks after every stage count whether somebody still waits."""

    class Counting(threading.Event):
        asked = 0

        def is_set(self) -> bool:
            self.asked += 1
            return self.asked > 2

    stop = Counting()
    with pytest.raises(Superseded):
        Asked(WORDS, Server(), stop).ask("plan")
    assert stop.asked == 3


def test_abandoned_work_is_cancelled() -> None:
    """A browser that has gone on is noticed while the answer is worked on."""
    begun = threading.Event()

    class Gone:
        query_params: ClassVar[dict[str, str]] = {}

        async def is_disconnected(self) -> bool:
            return begun.is_set()

    def endless(asked: Asked) -> Response:
        begun.set()
        while True:
            asked.check()

    # A browser of another test may have a loop in this thread.
    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1) as loop:
        found = loop.submit(asyncio.run, worked(pool, cast(Request, Gone()), Server(), endless)).result()
    assert found.status_code == 499


def test_a_finished_iterator_is_an_error_and_not_an_endless_wait(capsys: pytest.CaptureFixture[str]) -> None:
    class Watching:
        query_params: ClassVar[dict[str, str]] = {}

        async def is_disconnected(self) -> bool:
            return False

    def ended(asked: Asked) -> Response:
        return next(iter(()))

    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1) as loop:
        asking = asyncio.wait_for(worked(pool, cast(Request, Watching()), Server(), ended), 30)
        assert loop.submit(asyncio.run, asking).result().status_code == 500
    assert "StopIteration" in capsys.readouterr().err


def test_answers_are_cached() -> None:
    server = Server()
    first = Asked(WORDS, server).ask("plan")
    assert Asked({**WORDS, "claim": "T5", "seq": ""}, server).ask("plan") is first
    assert Asked({**WORDS, "seq": "4096"}, server).ask("plan") is not first
    for number in range(100):
        server.kept.get(number, lambda: 0)
    assert Asked(WORDS, server).ask("plan") is not first


def test_every_choice_list_states_its_default(client: Client) -> None:
    fields = [(one["name"], field) for one in client.json("/screens")["screens"] for field in one["fields"]]
    assert [(name, field["name"]) for name, field in fields if field["choices"] and not field["example"]] == []


def test_every_screen_has_its_two_files_and_its_verb() -> None:
    page = Path(lockstep.__file__).parent / "show" / "web" / "page" / "screens"
    assert {file.stem for file in page.glob("*.js")} == set(ORDER)
    for name in ORDER:
        one = screen(name)
        assert isinstance(one, Screen)
        assert hasattr(lockstep, one.verb)
        assert len({field.name for field in one.fields}) == len(one.fields)


def test_unknown_addresses_give_404(client: Client) -> None:
    for path in ("/nowhere", "/data/nowhere", "/other/ask", "/ask.exe", "/nowhere.json"):
        assert client.ask(path).status == 404, path


def test_a_missing_ui_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockstep.show.verbs.ui.NEEDED", ("starlette", "no_such_package"))
    with pytest.raises(BadInput, match="no_such_package: pip install"):
        lockstep.ui(open=False)


def test_a_step_too_long_to_be_drawn_is_refused_with_its_length(client: Client) -> None:
    words = {"model": "gpt2", "cluster": "dgx-h100:1", "batch": "262144", "seq": "1024", "tp": "4", "micro_batch": "1"}
    assert "131,072 forward passes" in client.json("/data/timeline", words)["error"]
