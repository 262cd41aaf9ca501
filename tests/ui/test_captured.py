"""Captured steps on the page: dropped, or what it was started with; what is shown is what `lockstep memory` says."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.base.units import format_frac, format_money, format_size, format_time
from lockstep.show.verbs.capture import CapturedMemory
from lockstep.show.web import uploads
from lockstep.show.web.asked import Kept
from lockstep.show.web.uploads import MOST_B, MOST_CAPTURED_B, Uploads
from ui.asking import Client
from ui.numbers import numbers, printed, texts

FILE = Path(__file__).parents[2] / "examples" / "pretrain.capture"
CLUSTER = "dgx-a100-40gb:4"
WORDS = {"cluster": CLUSTER, "at.layers": "6", "at.batch": "5", "steps": "10k"}
ASKED: dict[str, Any] = {"cluster": CLUSTER, "at": {"layers": 6, "batch": 5}, "steps": "10k"}
SHOWN = ("layout", "timeline")
Drawn = dict[str, Any]


def drop(client: Client, body: bytes, name: str = "pretrain.capture") -> tuple[int, Any]:
    found = client.ask(f"/drop?name={name}", "POST", body, Origin=f"http://{client.host}")
    return found.status, json.loads(found.body)  # type: ignore[attr-defined]


@pytest.fixture
def word(client: Client) -> str:
    """The capture, dropped anew: tests that drop many others may have run before."""
    status, found = drop(client, FILE.read_bytes())
    assert status == 200
    assert found["screens"] == [*SHOWN, "diagnose"]
    return str(found["word"])


@pytest.fixture(scope="module")
def expected() -> CapturedMemory:
    return lockstep.memory(FILE, **ASKED)  # type: ignore[call-overload,no-any-return]


def as_dropped(found: Any) -> Any:
    """The answer's plain form, with the name that the file has on the page."""
    return json.loads(json.dumps({"schema": 1, **found.to_dict(), "capture": FILE.name}))


@pytest.mark.parametrize("name", SHOWN)
def test_the_answer_is_that_of_the_printed_command(
    name: str, client: Client, word: str, expected: CapturedMemory
) -> None:
    said = client.json(f"/data/{name}", {"model": word, **WORDS})
    flags = f"--cluster {CLUSTER} --at layers=6 --at batch=5 --steps 10k"
    assert said["shell"] == f"lockstep memory {FILE.name} {flags}"
    call = said["python"].partition("\n")[2].replace(f"'{FILE.name}'", repr(str(FILE)))
    assert eval(call, {"lockstep": lockstep}).to_dict() == expected.to_dict()
    assert client.json(f"/{name}.json", {"model": word, **WORDS}) == as_dropped(expected)


def said_by(found: CapturedMemory) -> set[str]:
    """Every number that a screen may show of a step, by the library."""
    assert found.time is not None
    assert found.run is not None
    sizes = (float(getattr(found.memory, f"{name}_B")) for name in ("parameters", "gradients", "optimizer", "buffers"))
    shares = [seconds / found.time.step_time_s for seconds in found.parts_s.values()]
    written = [
        *map(format_time, found.parts_s.values()), *(format_frac(one, 2) for one in shares), *map(format_size, sizes),
        format_size(float(found.memory.activations_B)), format_money(found.run["cost_usd"]),
        format_frac(float(found.memory.used_frac)), f"{len(found.played[0].program):,}",
    ]  # fmt: skip
    return numbers(printed("memory", found), texts(written))


@pytest.mark.parametrize("name", SHOWN)
def test_every_number_is_one_of_the_library(name: str, client: Client, word: str, expected: CapturedMemory) -> None:
    drawn: Drawn = client.json(f"/data/{name}", {"model": word, **WORDS})["data"]
    later: Drawn = client.json(f"/later/{name}", {"model": word, **WORDS})["data"]
    kept = [drawn["title"], drawn["headline"], later["largest"], drawn.get("total", ""), drawn.get("operations", "")]
    kept += [one[key] for one in drawn["figures"] for key in ("value", "note")]
    kept += [one[key] for one in drawn.get("parts", ()) for key in ("text", "percent")]
    kept += [json.dumps(drawn.get("blocks", ()))]
    if "memory" in drawn:
        kept += [drawn["memory"][key] for key in ("text", "limit", "percent")]
        kept += [one["text"] for one in drawn["memory"]["parts"]]
    assert numbers(texts(kept)) - said_by(expected) == set()


PROFILE = FILE.parents[1] / "tests" / "diagnosis" / "h100" / "fused.json.gz"


def test_a_profile_is_held_against_the_capture(client: Client, word: str) -> None:
    """The Diagnose screen says what the command says, and asks for files until there are some."""
    words = {"model": word, "at.layers": "3", "at.batch": "2"}
    assert client.json("/data/diagnose", words)["data"]["recording"]
    names = [one["name"] for one in client.json("/screens", words)["screens"] if one["name"] == "diagnose"]
    assert names
    reply = client.ask(f"/drop/measured?name={PROFILE.name}", "POST", PROFILE.read_bytes())
    measured = {**words, "file": json.loads(reply.body)["word"]}
    said = client.json("/data/diagnose", measured)
    assert said["shell"] == f"lockstep diagnose {PROFILE.name} --capture {FILE.name} --at layers=3 --at batch=2"
    found = lockstep.diagnose(PROFILE, capture=FILE, at={"layers": 3, "batch": 2})
    assert found.captured is not None
    shown = {one["label"]: one["value"] for one in said["data"]["figures"]}
    assert shown["Captured step"] == format_time(found.captured.step.time.step_time_s)
    assert [
        one["title"] for one in said["data"]["blocks"] if one.get("title", "").startswith(("Operations", "Modules"))
    ]
    assert client.json("/diagnose.json", measured)["captured"]["apart"]


def test_parts_of_the_waterfall_are_the_step(client: Client, word: str, expected: CapturedMemory) -> None:
    parts = client.json("/data/layout", {"model": word, **WORDS})["data"]["parts"]
    assert sum(one["share"] for one in parts) == pytest.approx(1.0, abs=1e-3)
    for before, after in pairwise(parts):
        assert after["start"] == pytest.approx(before["start"] + before["share"])
    assert sum(expected.parts_s.values()) == pytest.approx(expected.time.step_time_s if expected.time else 0.0)


def test_the_timeline_is_the_played_step(client: Client, word: str, expected: CapturedMemory) -> None:
    form = client.json("/data/timeline", {"model": word, **WORDS})["data"]["form"]
    (timeline,) = form["timelines"]
    assert timeline["makespan_s"] == expected.played[0].makespan_s
    assert timeline["operations"] == len(expected.played[0].program)
    assert form["capacity_B"] == expected.memory.capacity_B
    assert {one["name"] for one in timeline["lanes"]} >= {"launches", "compute"}


@pytest.mark.parametrize("name", SHOWN)
def test_every_form_of_the_answer_is_there(name: str, client: Client, word: str) -> None:
    query = urlencode({"model": word, **WORDS})
    kinds = {"html": "text/html", "csv": "text/csv", "svg": "image/svg+xml", "trace": "application/gzip"}
    for form, kind in kinds.items():
        found = client.ask(f"/{name}.{form}?{query}")
        assert found.status == 200, found.body  # type: ignore[attr-defined]
        assert str(found.headers["content-type"]).startswith(kind)
    rows = client.ask(f"/{name}.csv?{query}").body.decode()  # type: ignore[attr-defined]
    assert list(csv.DictReader(io.StringIO(rows)))


def test_a_step_without_a_time_is_shown_with_the_reason(client: Client, word: str) -> None:
    words = {"model": word, "cluster": "rtx-4090:1"}
    drawn = client.json("/data/layout", words)["data"]
    assert "32 ranks" in drawn["figures"][1]["note"]
    assert drawn["parts"] == []
    shown = client.json("/data/timeline", words)["data"]
    assert "32 ranks" in shown["figures"][1]["note"]
    assert "Layout" in shown["note"]
    assert "form" not in shown
    assert "no time" in client.json("/timeline.trace", words)["error"]
    assert client.ask(f"/layout.svg?{urlencode(words)}").status == 200


def fields(client: Client, name: str, **words: str) -> list[str]:
    screens = client.json("/screens", words)["screens"]
    return [one["name"] for one in next(one for one in screens if one["name"] == name)["fields"]]


def test_the_controls_are_those_of_the_capture(client: Client, word: str) -> None:
    for name in SHOWN:
        assert fields(client, name, model=word) == ["model", "cluster", "at.layers", "at.batch", "steps"]
        for other in ("llama3-8b", "gone.capture", "dropped:0-gone.capture"):
            assert fields(client, name, model=other) == fields(client, name)
            assert "seq" in fields(client, name, model=other)
    assert fields(client, "ask", model=word) == fields(client, "ask")


@pytest.mark.parametrize(
    ("words", "where", "said"),
    [
        ({"at.layers": "2"}, "at.layers", "only 3 and every 1 above it"),
        ({"at.layers": "1000000"}, "at.layers", "calls, more than 1,000,000"),
        ({"at.batch": "x"}, "at.batch", "x"),
        ({"at.batch": "0"}, "at.batch", "at least 1"),
        ({"steps": "-1"}, "steps", "-1"),
        ({"cluster": "no-such-machine"}, "cluster", "no-such-machine"),
        ({"cluster": str(FILE)}, "cluster", "names a file"),
    ],
)
def test_wrong_words_are_refused_at_their_field(
    words: dict[str, str], where: str, said: str, client: Client, word: str
) -> None:
    for name in SHOWN:
        found = client.json(f"/data/{name}", {"model": word, **words})
        assert found["where"] == where
        assert said in found["error"]


@pytest.mark.parametrize("model", [str(FILE), "/no/such/file.capture", "step.capture"])
def test_no_address_opens_a_capture(model: str, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILE.parent)
    for name in SHOWN:
        found = client.json(f"/data/{name}", {"model": model})
        assert "names a file" in found["error"]
        assert found["where"] == "model"
    for words in ({"model": "llama3-8b", "b": str(FILE)}, {"model": "llama3-8b", "b": f"cluster={FILE}"}):
        assert "error" in client.json("/data/compare", {**words, "cluster": "dgx-h100:2", "batch": "64"})


def test_a_forgotten_capture_is_asked_for_again(client: Client) -> None:
    assert "drop it again" in client.json("/data/layout", {"model": "dropped:0-step.capture"})["error"]


@pytest.mark.parametrize("name", ["ask", "space", "whatif", "compare", "campaign", "trust"])
def test_other_screens_say_which_ones_show_it(name: str, client: Client, word: str) -> None:
    found = client.json(f"/data/{name}", {"model": word, "cluster": CLUSTER, "batch": "8", "b": "tp=2"})
    assert "Layout, Timeline and Diagnose" in found["error"]


def test_a_page_may_begin_with_a_capture(word: str) -> None:
    served = lockstep.ui(FILE, CLUSTER, open=False)
    try:
        client = Client(served.address).enter()
        found = client.ask("/")
        assert found.status == 303
        assert urlsplit(found.headers["location"]).path == "/layout"
        first = dict(parse_qsl(urlsplit(found.headers["location"]).query))
        assert first == {"model": str(FILE), "cluster": CLUSTER}
        plain = json.loads(json.dumps({"schema": 1, **lockstep.memory(FILE, CLUSTER).to_dict()}))
        assert client.json("/layout.json", first) == plain
        said = client.json("/data/layout", {"model": str(FILE)})
        assert said["shell"] == f"lockstep memory {FILE}"
        other = FILE.with_name("finetune_lora.capture")
        assert "names a file" in client.json("/data/layout", {"model": str(other)})["error"]
        assert "no longer there" in client.json("/data/layout", {"model": word})["error"]
    finally:
        served.stop()
    with pytest.raises(BadInput, match="there is no such file"):
        lockstep.ui(Path(__file__).with_name("no-such.capture"), open=False)


def repacked(change: Callable[[dict[str, bytes]], object], packed: int = zipfile.ZIP_STORED) -> bytes:
    """The example with parts changed."""
    with zipfile.ZipFile(FILE) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    change(parts)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packed) as file:
        for name, text in parts.items():
            file.writestr(name, text)
    return out.getvalue()


def program(**words: object) -> Callable[[dict[str, bytes]], object]:
    def change(parts: dict[str, bytes]) -> None:
        parts["program.json"] = json.dumps(json.loads(parts["program.json"]) | words).encode()

    return change


def varied(**words: object) -> Callable[[dict[str, bytes]], object]:
    return lambda parts: parts.update({"varied.json": json.dumps(words).encode()})


def bomb() -> bytes:
    return repacked(lambda parts: parts.update({"more": b"\0" * (MOST_CAPTURED_B + 1)}), zipfile.ZIP_LZMA)


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "large": (lambda: b" " * (MOST_B + 1), "is larger than the 4 MiB"),
    "text": (lambda: b"hello", "is not a capture"),
    "empty": (lambda: b"", "is not a capture"),
    "cut": (lambda: FILE.read_bytes()[:-200], "is not a capture"),
    "bomb": (bomb, "holds more than 128 MiB unpacked"),
    "older": (lambda: repacked(program(schema=1)), "another than"),
    "deep": (lambda: repacked(lambda parts: parts.update({"program.json": b"[" * 100_000})), "is not a capture"),
    "many": (lambda: repacked(varied(values={name: [*range(10**5)] for name in "ab"}, arguments=[])), "without steps"),
    "one value": (lambda: repacked(varied(values={"layers": [3]}, arguments=[])), "without steps"),
    "values": (lambda: repacked(program(values=[{"place": 1}])), "is not a capture"),
    "notes": (lambda: repacked(program(notes=[1])), "no text"),
    "groups": (lambda: repacked(program(groups=[{"name": [], "ranks": [0]}])), "without ranks"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_gets_a_message(name: str, client: Client) -> None:
    make, said = HOSTILE[name]
    status, found = drop(client, make(), "step.capture")
    assert status == 422
    assert said in found["error"]


ODD = ("", "-1", "x", "9" * 30, "1e400", "1:2", "4x4:float32;", "nan")


@pytest.mark.parametrize("table", ["operations.csv", "tensors.csv"])
def test_odd_numbers_are_read_or_refused(table: str, client: Client) -> None:
    """In every column of a row: never a bug, whatever the file holds."""

    def with_cell(column: int, odd: str) -> Callable[[dict[str, bytes]], object]:
        def change(parts: dict[str, bytes]) -> None:
            rows = list(csv.reader(io.StringIO(parts[table].decode())))
            rows[len(rows) // 2][column] = odd
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(rows)
            parts[table] = text.getvalue().encode()
            for name in [one for one in parts if one == "varied.json" or "/" in one]:
                del parts[name]

        return change

    with zipfile.ZipFile(FILE) as file:
        columns = len(file.read(table).decode().partition("\n")[0].split(","))
    outcomes = set()
    for column in range(columns):
        for odd in ODD:
            status, found = drop(client, repacked(with_cell(column, odd)), "odd.capture")
            if status == 200:
                answer = client.ask(f"/data/layout?{urlencode({'model': found['word'], 'cluster': 'dgx-h100:4'})}")
                status = answer.status
                assert status in (200, 422), (column, odd, answer.body)  # type: ignore[attr-defined]
            outcomes.add(status)
    assert outcomes == {200, 422}


def test_only_so_many_captures_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their bytes as they are unpacked, the first dropped are forgotten."""
    bodies = [repacked(program(arguments=[str(number)])) for number in range(3)]
    with zipfile.ZipFile(io.BytesIO(bodies[0])) as file:
        unpacked_B = sum(one.file_size for one in file.infolist())
    monkeypatch.setattr(uploads, "MOST_CAPTURED_B", int(2.5 * unpacked_B))
    kept = Uploads()
    words = [kept.add_capture("step.capture", body, len(body))["word"] for body in bodies]
    assert [word in kept.names for word in words] == [False, True, True]
    with pytest.raises(BadInput, match="drop it again"):
        kept.capture(words[0])


def test_only_the_last_steps_are_kept() -> None:
    made, kept = [], Kept(2)
    for key in (1, 2, 3, 2, 3, 1):
        kept.get(key, lambda key=key: made.append(key))  # type: ignore[misc]
    assert made == [1, 2, 3, 1]


@pytest.fixture(params=[390, 1400])
def opened(request: pytest.FixtureRequest, watched: Any) -> Iterator[Any]:
    """A page on which the example was dropped, at both widths."""
    page = watched(request.param)
    page.settle()
    if request.param < 860:
        page.page.locator("#question > summary").click()
    page.page.locator("#f-file").set_input_files(FILE)
    page.page.wait_for_selector(".screen.layout")
    page.settle()
    yield page
    page.quiet()


def test_a_dropped_capture_in_a_browser(opened: Any, expected: CapturedMemory) -> None:
    """From the first screen to Layout, whose controls are then those of the file; other values and another cluster."""
    page = opened.page
    assert "cluster=" not in page.url
    assert expected.varied is not None
    for name, some in expected.varied.values.items():
        assert page.get_by_label(name, exact=True).get_attribute("placeholder") == str(some[-1])
    for label, value in (("Cluster", CLUSTER), ("layers", "6"), ("batch", "5"), ("Steps of the run", "10k")):
        page.get_by_label(label, exact=True).fill(value)
        page.wait_for_function("(text) => document.location.search.includes(text)", arg=urlencode({"": value}))
        opened.settle()
    page.wait_for_function("() => document.querySelector('main').innerText.includes('Largest value that fits')")
    assert expected.time is not None
    text = page.locator("main").inner_text()
    for said in (
        expected.name,
        format_size(float(expected.memory.total_B)),
        format_time(expected.time.step_time_s),
        f"{expected.largest['layers']}",
    ):
        assert said in text
    assert numbers(page.locator("main .figures").inner_text()) - said_by(expected) == set()
    assert page.locator(".paper img").evaluate("(one) => one.complete && one.naturalWidth > 0")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_timeline_of_a_dropped_capture_in_a_browser(opened: Any) -> None:
    page = opened.page
    page.get_by_role("link", name="Timeline").click()
    page.wait_for_selector(".screen.timeline .ls-canvas")
    opened.settle()
    assert page.get_by_label("layers", exact=True).count() == 1
    assert page.get_by_text("Download for Perfetto").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_model_in_its_place_brings_its_controls_back(watched: Any) -> None:
    page = watched()
    page.settle()
    page.page.locator("#f-file").set_input_files(FILE)
    page.page.wait_for_selector(".screen.layout")
    page.settle()
    page.page.get_by_label("Cluster", exact=True).fill("dgx-h100:2")
    page.page.get_by_label("Model", exact=True).fill("llama3-8b")
    page.page.get_by_label("Tokens per sequence").wait_for()
    page.settle()
    assert page.page.get_by_label("layers", exact=True).count() == 0
    assert "llama3-8b on 16 x h100-sxm" in page.page.locator("main").inner_text()
    page.quiet()


DROP = """(bytes) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], "step.capture"));
  document.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));
}"""


def test_a_capture_that_is_dropped_on_the_timeline_is_no_measured_file(watched: Any) -> None:
    page = watched()
    page.go(f"/timeline?{urlencode({'model': 'llama3-8b', 'cluster': 'dgx-h100:2', 'batch': '64'})}")
    page.page.evaluate(DROP, list(FILE.read_bytes()))
    page.page.get_by_label("layers", exact=True).wait_for()
    page.settle()
    assert urlsplit(page.page.url).path == "/timeline"
    assert "pretrain.py" in page.page.locator("main").inner_text()
    page.quiet()
