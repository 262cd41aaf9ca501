"""Hub ids: of the local cache, else of the catalog's shape; names in any case; what is not there is said so."""

import json
from pathlib import Path

import pytest

from lockstep import workload
from lockstep.errors import UnknownName
from lockstep.workload.hub import hub_names

CONFIG = json.loads(Path(__file__).parent.joinpath("configs/llama3-8b.json").read_text())


def put(folder, revision, **changed):
    snapshot = folder / "models--My-Org--My-Model" / "snapshots" / revision
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps({**CONFIG, **changed}))
    return snapshot


def test_the_main_revision_of_the_cache_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    put(tmp_path, "aa11", num_hidden_layers=4)
    put(tmp_path, "bb22", num_hidden_layers=5)
    refs = tmp_path / "models--My-Org--My-Model" / "refs"
    refs.mkdir()
    (refs / "main").write_text("aa11\n")
    found = workload.model("my-org/my-model")
    assert (found.layers, found.name) == (4, "my-org/my-model")


def test_the_home_of_the_tools_holds_the_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    put(tmp_path / "hub", "aa11", num_hidden_layers=3)
    assert workload.model("My-Org/My-Model").layers == 3


def test_a_folder_stands_for_its_config(tmp_path):
    assert workload.model(put(tmp_path, "cc33")).layers == CONFIG["num_hidden_layers"]


def test_ids_and_names_in_any_case_are_the_catalogs(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert workload.model("Qwen/Qwen2.5-14B-Instruct") is workload.model("qwen2.5-14b")
    assert workload.model("LLAMA3-8B") is workload.model("llama3-8b")
    assert workload.model("Meta-Llama-3-8B") is workload.model("llama3-8b")
    assert set(hub_names().values()) <= set(workload.names())


def test_what_is_not_in_the_cache_is_said_so(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "absent"))
    with pytest.raises(
        UnknownName, match=r"not in the local cache; try `hf download some-org/some-model config\.json`"
    ):
        workload.model("some-org/some-model")
    with pytest.raises(UnknownName, match="state-space or linear-attention layers"):
        workload.model("RWKV/rwkv-6-world-7b")
