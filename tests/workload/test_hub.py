"""Hub ids: of the local cache, else of the catalog's shape; names in any case; what is not there is said so."""

import json
from pathlib import Path

import pytest

from lockstep import workload
from lockstep.base.errors import BadInput, UnknownName
from lockstep.describe.workload.hub import hub_names

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


def test_hf_home_locates_the_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    put(tmp_path / "hub", "aa11", num_hidden_layers=3)
    assert workload.model("My-Org/My-Model").layers == 3


def test_a_folder_is_read_as_its_config(tmp_path):
    assert workload.model(put(tmp_path, "cc33")).layers == CONFIG["num_hidden_layers"]


def test_the_transformer_of_a_diffusers_pipeline_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    pipeline = tmp_path / "models--My-Org--Painter" / "snapshots" / "aa11"
    (pipeline / "transformer").mkdir(parents=True)
    described = {"_class_name": "DiTTransformer2DModel", "num_layers": 3}
    (pipeline / "transformer" / "config.json").write_text(json.dumps(described))
    assert (workload.model(pipeline).layers, workload.model(pipeline).name) == (3, "aa11")
    assert (workload.model("My-Org/Painter").layers, workload.model("My-Org/Painter").name) == (3, "My-Org/Painter")


@pytest.mark.parametrize(
    ("described", "said"),
    [
        ({"_class_name": "FluxTransformer2DModel"}, "diffusers class 'FluxTransformer2DModel'"),
        ({"_class_name": "Transformer2DModel", "norm_type": "layer_norm"}, "ada_norm_zero"),
        ({"_class_name": "DiTTransformer2DModel", "activation_fn": "geglu"}, "blocks of a DiT have gelu"),
        ({"_class_name": "DiTTransformer2DModel", "norm_elementwise_affine": True}, "no weights of their own"),
        ({"_class_name": "DiTTransformer2DModel", "sample_size": 33}, "patch=2 does not divide"),
    ],
)
def test_unsupported_diffusion_models_are_refused(tmp_path, described, said):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(described))
    with pytest.raises(BadInput, match=said):
        workload.model(path)


def test_ids_and_names_match_the_catalog_in_any_case(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert workload.model("Qwen/Qwen2.5-14B-Instruct") is workload.model("qwen2.5-14b")
    assert workload.model("LLAMA3-8B") is workload.model("llama3-8b")
    assert workload.model("Meta-Llama-3-8B") is workload.model("llama3-8b")
    assert set(hub_names().values()) <= set(workload.names())


def test_models_missing_in_the_cache_are_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "absent"))
    with pytest.raises(
        UnknownName, match=r"not in the local cache; try `hf download some-org/some-model config\.json`"
    ):
        workload.model("some-org/some-model")
    with pytest.raises(UnknownName, match="state-space or linear-attention layers"):
        workload.model("RWKV/rwkv-6-world-7b")


def test_every_hub_id_that_a_source_of_the_catalog_names_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "absent"))
    assert workload.model("meta-llama/Llama-3.1-8B") is workload.model("llama3.1-8b")
    assert workload.model("openai-community/gpt2") is workload.model("gpt2")
    assert workload.model("google-bert/bert-base-uncased") is workload.model("bert-base")
    named = [row for row in workload.models() if "huggingface.co/" in row["source"] and "*" not in row["source"]]
    assert len(named) > 30
    for row in named:
        (hub_id, *_) = [part.split()[0].rstrip(",;") for part in row["source"].split("huggingface.co/")[1:]]
        found = workload.model(hub_id)
        assert workload.parameters(found).total == row["parameters"], hub_id
