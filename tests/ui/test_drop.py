"""Files that are dropped on the page: read strictly, kept in memory, and shown as text whatever they hold."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep.show.views.page.inline import script
from lockstep.show.web.uploads import MOST_B, MOST_FILES, Uploads
from ui.asking import WORDS, Client

CONFIG = (Path(__file__).parents[1] / "workload" / "configs" / "phi3-mini.json").read_bytes()
SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


def drop(client: Client, body: bytes, name: str = "config.json") -> tuple[int, Any]:
    found = client.ask(f"/drop?name={name}", "POST", body, Origin=f"http://{client.host}")
    return found.status, json.loads(found.body)  # type: ignore[attr-defined]


def test_a_dropped_config_becomes_the_model(client: Client, tmp_path: Path) -> None:
    status, found = drop(client, CONFIG)
    assert status == 200
    answer = client.json("/data/ask", {**WORDS, "model": found["word"]})
    file = tmp_path / "config.json"
    file.write_bytes(CONFIG)
    expected = lockstep.plan(file, "dgx-h100:2", batch=64, tokens="1T")
    shown = client.json("/ask.json", {**WORDS, "model": found["word"]})
    assert shown["plans"][0]["step_time_s"] == expected.best.step_time_s
    assert answer["shell"].startswith("lockstep plan config.json --cluster dgx-h100:2")
    compared = client.json("/data/compare", {**WORDS, "model": found["word"], "b": "micro_batch=2"})
    assert "data" in compared


def test_a_dropped_config_is_called_by_itself(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name in it, that of the file, or its kind, wherever the server was started."""
    monkeypatch.chdir(tmp_path)
    plain = {name: value for name, value in json.loads(CONFIG).items() if not name.endswith("name_or_path")}
    named = {**plain, "_name_or_path": "someone/their-model"}
    for config, name, called in (
        (plain, "config.json", "phi3"), (plain, "ours.json", "ours"), (named, "config.json", "someone/their-model")
    ):  # fmt: skip
        _, found = drop(client, json.dumps(config).encode(), name)
        assert found["name"] == called


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b" " * (MOST_B + 1), "is larger than the 4 MiB"),
        (b" " * 10 * 1024 * 1024, "is larger than the 4 MiB"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "nested deeper"),
        (b'{"model_type": "llama", "hidden_size": NaN}', "NaN is not a JSON number"),
        (b'{"model_type": "llama", "hidden_size": 1e400}', "too large"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"", "not valid JSON"),
        (b"[]", "does not hold a mapping"),
        (b"{}", "model_type is missing"),
        (json.dumps({"model_type": SCRIPT}).encode(), "is not supported"),
    ],
)
def test_a_hostile_file_gets_a_message(body: bytes, said: str, client: Client) -> None:
    status, found = drop(client, body)
    assert status == 422
    assert said in found["error"]


def test_a_name_is_text(client: Client) -> None:
    body = json.dumps({**json.loads(CONFIG), "_name_or_path": SCRIPT}).encode()
    status, found = drop(client, body, "..%2F..%2Fetc%2Fpasswd%3Cscript%3E.json")
    assert status == 200
    assert "/" not in found["word"]
    assert "<" not in found["word"]
    page = client.ask(f"/ask.html?model={found['word']}&cluster=dgx-h100:2&batch=64").body.decode()  # type: ignore[attr-defined]
    kinds = re.findall(r"<script([^>]*)>", page)
    assert [kind for kind in kinds if "application/json" not in kind] == [""]
    assert f"<script>{script()}</script>" in page
    assert "<img" not in page
    assert "&lt;/script&gt;" in page


def test_the_number_of_kept_files_is_limited() -> None:
    kept = Uploads()
    bodies = [json.dumps({**json.loads(CONFIG), "number": one}).encode() for one in range(MOST_FILES + 1)]
    words = [kept.add("config.json", body, len(body))["word"] for body in bodies]
    assert len(set(words)) == len(words)
    assert len(kept.names) == MOST_FILES
    assert kept.get(words[-1]) is not None
    assert words[0] not in kept.names
