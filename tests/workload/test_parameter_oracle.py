"""Parameters of configurations as the classes of the `transformers` package make them (tools/count_parameters.py)."""

import json
from pathlib import Path

import pytest

from lockstep import workload
from lockstep.describe.workload import LayerKind
from lockstep.describe.workload.huggingface import FAMILIES
from lockstep.describe.workload.huggingface_numbers import EPSILON

FOUND = json.loads(Path(__file__).parent.joinpath("oracle/parameters.json").read_text())
ROWS = {row["name"]: row for row in FOUND["rows"]}
ONCE_REFUSED = {
    "gpt_oss", "llama4_text", "glm4_moe", "qwen3_next", "qwen3_5_text", "olmo3", "smollm3", "granitemoehybrid",
    "nemotron_h", "jamba", "granitemoe", "olmoe", "cohere2", "bamba",
}  # fmt: skip


def kind_of(config):
    """The model type; files of the diffusers package name a class."""
    return config.get("model_type") or {"DiTTransformer2DModel": "dit"}[config["_class_name"]]


def read(folder, config):
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return workload.model(path)


@pytest.mark.parametrize("name", ROWS)
def test_parameters_match_the_transformers_class(tmp_path, name):
    row = ROWS[name]
    counted = workload.parameters(read(tmp_path, row["config"]))
    assert counted.total == row["count"]
    if kind_of(row["config"]) == "resnet":
        return
    edges = sum(weight.elems for ends in (workload.embedding_weights, workload.head_weights)
                for weight in ends(read(tmp_path, row["config"])))  # fmt: skip
    assert sum(counted.per_layer) + edges == row["count"]


def test_the_oracle_covers_sixty_configurations_and_every_refused_family():
    kinds = {kind_of(row["config"]) for row in ROWS.values()}
    assert len(ROWS) >= 60
    assert kinds >= ONCE_REFUSED
    assert set(FAMILIES) | {"resnet"} >= kinds


@pytest.mark.parametrize(
    ("wrapper", "inner"),
    [("gemma3", "gemma3_text 27b"), ("llama4", "llama4_text default"), ("mistral3", "mistral default"),
     ("qwen2_5_vl", "qwen2 default"), ("qwen3_vl", "qwen3 default"), ("qwen3_5_moe", "qwen3_5_moe_text default")],
)  # fmt: skip
def test_the_language_model_of_a_multimodal_file_is_read(tmp_path, wrapper, inner):
    row = ROWS[inner]
    model = read(tmp_path, {"model_type": wrapper, "text_config": row["config"], "vision_config": {"depth": 2}})
    assert workload.parameters(model).total == row["count"]
    assert any("vision tower" in note for note in model.notes)


NUMBERS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "rope_theta", "partial_rotary_factor",
           "rope_parameters")  # fmt: skip


OTHER_BASE = ("cohere default", "gemma3_text default")
"""Other angles than in release 4.57, which test_left_out.py holds."""
DEFAULTS = [name for name in ROWS if name.endswith("default") and name not in OTHER_BASE]


@pytest.mark.parametrize("name", DEFAULTS)
def test_omitted_numbers_take_the_defaults_of_the_class(tmp_path, name):
    config = ROWS[name]["config"]
    whole = read(tmp_path, config)
    bare = read(tmp_path, {key: value for key, value in config.items() if key not in NUMBERS})
    given = next((config[key] for key in NUMBERS[:4] if key in config), None)
    assert given is None or whole.norm_epsilon == given
    if name.split()[0] in EPSILON:
        assert bare.norm_epsilon == whole.norm_epsilon
    if whole.positions == "rotary":
        assert (bare.rotary.base, bare.rotary.share_frac) == (whole.rotary.base, whole.rotary.share_frac)


def test_layers_of_hybrid_models_are_read(tmp_path):
    """Counts of layers as their configurations list them."""
    jamba = read(tmp_path, ROWS["jamba default"]["config"])
    assert [at for at, kind in enumerate(jamba.kinds) if kind.attends] == [4, 12, 20, 28]
    assert [at for at, kind in enumerate(jamba.kinds) if kind.experts] == list(range(1, 32, 2))
    oss = read(tmp_path, ROWS["gpt_oss default"]["config"])
    assert oss.kinds[:2] == (LayerKind("experts", 128), LayerKind("experts"))
    scout = read(tmp_path, ROWS["llama4_text default"]["config"])
    assert [kind.mixer for kind in scout.kinds[:4]] == ["attention"] * 3 + ["nope"]
    hybrid = read(tmp_path, ROWS["nemotron_h dense"]["config"])
    assert [(kind.mixer, kind.block) for kind in hybrid.kinds[:2]] == [("recurrent", "none"), ("none", "dense")]
