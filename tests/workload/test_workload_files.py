"""Files from outside: mutated Hugging Face configs and own YAML give a model or one located message."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_runner import run
from lockstep import workload
from lockstep.base.errors import BadInput
from lockstep.describe.workload.huggingface import FAMILIES, WRAPPERS

CONFIGS = sorted(Path(__file__).parent.joinpath("configs").glob("*.json"))
ROWS = json.loads(Path(__file__).parent.joinpath("oracle/parameters.json").read_text())["rows"]
ORACLE = [row["config"] for row in ROWS]
SWEPT = json.loads(gzip.decompress(Path(__file__).parent.joinpath("oracle/sweep.json.gz").read_bytes()))["families"]
LLAMA = json.loads(Path(__file__).parent.joinpath("configs/llama3-8b.json").read_text())
SETTINGS = settings(max_examples=150, derandomize=True, deadline=None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def read(folder, data, name="config.json"):
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data, indent=2))
    return workload.model(path)


def test_every_supported_type_has_a_file_or_an_oracle():
    """Published ones stand in configs/, those of the library's classes in oracle/; the rest wrap one of these."""
    there = {json.loads(path.read_text())["model_type"] for path in CONFIGS}
    there |= {config.get("model_type", "dit") for config in ORACLE} | {*SWEPT}
    wrappers = {kind for kind in FAMILIES if kind.removesuffix("_text") in WRAPPERS}
    assert set(FAMILIES) - there - wrappers == {"kimi_k2"}


# Changes to Llama 3 8B's config.json, the line of the file that the message names, and what it says.
REFUSED = [
    ({"hidden_size": None}, None, "key hidden_size .* is missing"),
    ({"num_hidden_layers": -32}, "num_hidden_layers", "num_hidden_layers must be from 1"),
    ({"num_hidden_layers": 0}, "num_hidden_layers", "num_hidden_layers must be from 1"),
    ({"hidden_size": "4096"}, "hidden_size", "must be a whole number, got '4096'"),
    ({"hidden_size": 4096.5}, "hidden_size", "must be a whole number"),
    ({"hidden_size": [4096]}, "hidden_size", "must be a whole number"),
    ({"hidden_size": 10**40}, "hidden_size", "must be from 1 to 1,000,000"),
    ({"hidden_size": 4097}, "num_attention_heads", "32 attention heads do not divide the hidden size 4097; try"),
    ({"num_key_value_heads": 7}, "num_key_value_heads", "7 key-value heads do not divide 32"),
    ({"vocab_size": True}, "vocab_size", "must be a whole number"),
    ({"tie_word_embeddings": "false"}, "tie_word_embeddings", "must be true or false"),
    ({"hidden_act": "sillu"}, "hidden_act", "did you mean silu"),
    ({"hidden_act": 7}, "hidden_act", "unknown activation"),
    ({"model_type": "lama"}, "model_type", "the architecture 'lama' .* is not supported: .*; supported: "),
    ({"model_type": "whisper"}, "model_type", "of those of sound none"),
    ({"model_type": "rwkv"}, "model_type", "state-space or linear-attention layers"),
    ({"model_type": "gemma3n"}, "model_type", "the architecture 'gemma3n' .* is not supported: no file of its kind"),
    ({"model_type": None}, None, "model_type is missing"),
    ({"model_type": ["llama"]}, None, "model_type must be text"),
]


@pytest.mark.parametrize(("change", "key", "message"), REFUSED)
def test_config_mistakes_are_refused_at_their_line(folder, change, key, message):
    data = {**LLAMA, **change}
    lines = json.dumps(data, indent=2).splitlines()
    line = 1 if key is None else 1 + next(at for at, text in enumerate(lines) if text.startswith(f'  "{key}"'))
    with pytest.raises(BadInput, match=rf"config\.json:{line}: .*{message}"):
        read(folder, data)


@pytest.mark.parametrize(
    ("source", "change", "message"),
    [
        ("mixtral-8x7b", {"num_experts_per_tok": 9}, "cannot visit 9 of 8 experts"),
        ("qwen3-235b-a22b", {"mlp_only_layers": ["0"]}, "must list layer numbers"),
        ("qwen3-235b-a22b", {"mlp_only_layers": 3}, "must be a list"),
        ("deepseek-v3", {"n_shared_experts": 99999}, "too wide"),
        ("deepseek-v3", {"num_nextn_predict_layers": 101}, "too many"),
        ("dbrx", {"ffn_config": 4}, "must be a table"),
        ("opt-6b7", {"word_embed_proj_dim": 512}, "not supported"),
        ("opt-6b7", {"do_layer_norm_before": False}, "not supported"),
        ("phi-2", {"qk_layernorm": True}, "not supported"),
        ("mpt-7b-released", {"attn_config": {"qk_ln": True}}, "not supported"),
        ("bert-large", {"is_decoder": True}, "not supported"),
        ("roberta-large", {"pad_token_id": 900}, "leaves no positions"),
        ("falcon-40b", {"num_ln_in_parallel_attn": 5}, "parallel_norms"),
    ],
)
def test_family_specific_mistakes_are_refused(folder, source, change, message):
    data = json.loads(Path(__file__).parent.joinpath(f"configs/{source}.json").read_text())
    with pytest.raises(BadInput, match=rf"config\.json.*{message}"):
        read(folder, {**data, **change})


def test_text_that_is_not_a_config_is_refused(folder):
    for text in ("", "[]", "{", "null", "\x00", '{"a": NaN}', '{"a": 1, "a": 2}', "[" * 5000):
        with pytest.raises(BadInput, match=r"config\.json"):
            read(folder, text)
    with pytest.raises(BadInput, match="no such file"):
        workload.model(folder / "absent.json")


values = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.lists(st.integers(), max_size=2)
)
odd_numbers = st.sampled_from([0, -1, 1, 2, 3, 7, 2**31, 2**53 + 1, 2**63, 10**25, 1e308, 0.5])


@SETTINGS
@given(st.sampled_from([json.loads(path.read_text()) for path in CONFIGS] + ORACLE), st.data())
def test_mutated_configs_give_a_model_or_a_located_message(folder, source, data):
    config = dict(source)
    for _ in range(data.draw(st.integers(1, 3))):
        key = data.draw(st.sampled_from(sorted(config)))
        if data.draw(st.booleans()):
            config.pop(key)
            config = config or {"model_type": "llama"}
        else:
            config[key] = data.draw(odd_numbers | values)
    model, message = None, ""
    try:
        model = read(folder, config)
    except BadInput as error:
        message = str(error)
    if model is None:
        assert message.startswith(str(folder / "config.json"))
    else:
        counted = workload.parameters(model)
        assert 0 < counted.active <= counted.total
        assert isinstance(model, workload.ConvNet) or workload.forward_flops(model, 128).total > 0


def test_gemma_3_text_values_take_the_defaults_of_the_library(folder):
    """google/gemma-3-4b-pt: vocabulary, heads and head width are left to the defaults of the library."""
    text = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}
    model = read(folder, {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", **text}})
    assert (model.vocab, model.attention.heads, model.attention.kv_heads) == (262208, 8, 4)
    # Without the 64 rows that pad the vocabulary of 262,144.
    assert workload.parameters(model).total - 64 * 2560 == 3_880_099_328


def test_starcoder_has_one_key_value_head(folder):
    """bigcode/starcoder config.json; safetensors total 15,517,456,384."""
    data = {"model_type": "gpt_bigcode", "n_embd": 6144, "n_head": 48, "n_layer": 40, "n_positions": 8192}
    data |= {"n_inner": 24576, "vocab_size": 49152, "multi_query": True, "activation_function": "gelu_pytorch_tanh"}
    model = read(folder, data)
    assert model.attention.kv_heads == 1
    assert workload.parameters(model).total == 15_517_456_384


OWN = """\
layers: 32
hidden: 4096
vocab: 128256
max_positions: 8192
attention: {heads: 32, kv_heads: 8, head_dim: 128}
mlp: {ffn: 14336}
"""


def test_a_custom_model_file_uses_the_fields_of_the_dataclass(folder):
    model = read(folder, OWN, "mine.yaml")
    assert model.name == "mine"
    assert workload.parameters(model).total == 8_030_261_248
    mixture = OWN + "experts: {experts: 8, top_k: 2, ffn: 512, dense_layers: [0, 1]}\nname: other\n"
    assert read(folder, mixture, "mine.yaml").num_expert_layers == 30
    net = read(folder, "kind: convnet\nblocks: [3, 4, 6, 3]\n", "net.yml")
    assert workload.parameters(net).total == 25_557_032
    latent = OWN.replace(
        "kv_heads: 8, head_dim: 128", "head_dim: 48, latent: {kv_rank: 64, nope_dim: 32, rope_dim: 16, value_dim: 32}"
    )
    assert read(folder, latent, "mine.yaml").attention.kv_heads == 32


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("kv_heads: 8", "kv_heads: 7", 5, "does not divide 32 heads; try"),
        ("ffn: 14336", "ffn: -1", 6, "ffn must be from 1"),
        ("layers: 32", "layers: many", 1, "valid integer"),
        ("hidden: 4096", "hidden: 4096.5", 2, "valid integer"),
        ("hidden: 4096", "hidden: '4096'", 2, "valid integer"),
        ("mlp:", "mpl:", 6, "did you mean mlp"),
        ("head_dim: 128", "head_dims: 128", 5, "did you mean head_dim"),
        ("vocab: 128256\n", "", 1, "'vocab' is missing"),
        ("attention: {heads: 32, kv_heads: 8, head_dim: 128}", "attention: 32", 5, "attention"),
        ("layers: 32", "kind: convent\nlayers: 32", 1, "did you mean convnet"),
        ("layers: 32", "layers: 32\nnorm: rms", 2, "did you mean rmsnorm"),
        ("mlp: {ffn: 14336}", "", 1, "mlp is missing"),
        ("layers: 32", "layers: 32\npositions: null", 2, "positions"),
    ],
)
def test_mistakes_in_a_custom_model_file_are_refused_at_their_line(folder, old, new, line, message):
    with pytest.raises(BadInput, match=rf"mine\.yaml:\d+: .*{message}") as caught:
        read(folder, OWN.replace(old, new), "mine.yaml")
    assert f"mine.yaml:{line}:" in str(caught.value)


@pytest.mark.parametrize(
    "kind", ["mamba3", "umt5", "dinov2", "llama5", "gpt_neo2", "lama", "qwen4", "gemma3n", "bertt"]
)
def test_an_unknown_architecture_is_not_mistaken_for_another(folder: Path, kind: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(folder, {**LLAMA, "model_type": kind})
    assert "did you mean" not in str(caught.value)
    assert repr(kind) in str(caught.value)


def test_a_config_is_named_after_its_name_or_folder(tmp_path, monkeypatch):
    named = {**LLAMA, "_name_or_path": "meta-llama/Meta-Llama-3-8B"}
    bare = {key: value for key, value in LLAMA.items() if "name_or_path" not in key}
    folder = tmp_path / "my-llama"
    folder.mkdir()
    assert read(folder, named).name == "meta-llama/Meta-Llama-3-8B"
    assert read(folder, {**bare, "_name_or_path": "./"}).name == "my-llama"
    assert read(folder, bare).name == "my-llama"
    assert read(folder, bare, "llama-small.json").name == "llama-small"
    monkeypatch.chdir(folder)
    assert workload.model("config.json").name == "my-llama"


def test_an_uncounted_vision_tower_is_noted(tmp_path):
    """The wrapped text model is the same as alone, and answers about the whole say that it is all they are about."""
    text = json.loads(Path(__file__).parent.joinpath("configs/gemma3-1b.json").read_text())
    whole = {"model_type": "gemma3", "text_config": text, "vision_config": {"num_hidden_layers": 27}}
    found, alone = read(tmp_path, whole), read(tmp_path, text, "text.json")
    assert workload.parameters(found).total == workload.parameters(alone).total
    assert alone.notes == ()
    (note,) = found.notes
    assert "the vision tower (vision_config) is not counted" in note
    answer = run("estimate", str(tmp_path / "config.json"), "-c", "dgx-h100", "--batch", "8", "--json").json()
    assert note in answer["assumptions"][:5]
    assert (
        note
        in run("memory", str(tmp_path / "config.json"), "-c", "dgx-h100", "--batch", "8", "--json").json()[
            "assumptions"
        ]
    )


@pytest.mark.parametrize("name", ["llama3-8b", "llama3-405b", "mistral-7b", "mixtral-8x7b", "deepseek-v3", "qwen3-8b"])
def test_rope_values_of_a_config_match_the_catalog(name):
    """No shape depends on them, so equality of models does not ask for them."""
    found = workload.model(Path(__file__).parent / "configs" / f"{name}.json")
    listed = workload.model(name)
    assert found.rotary.base == listed.rotary.base
    assert (found.rotary.scaling, found.rotary.factor) == (listed.rotary.scaling, listed.rotary.factor)
    assert found.rotary.original_positions == listed.rotary.original_positions


def test_omitted_numbers_of_files_take_the_defaults_of_the_library(tmp_path):
    bare = {key: value for key, value in LLAMA.items() if key not in ("rms_norm_eps", "rope_theta", "rope_scaling")}
    found = read(tmp_path, bare)
    assert (found.norm_epsilon, found.rotary) == (1e-6, workload.Rotary(base=10_000.0))
    newer = {**bare, "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}}
    assert read(tmp_path, newer).rotary == workload.Rotary(base=500_000.0)
    for changes in (
        {"rope_theta": "x"},
        {"rms_norm_eps": 0},
        {"rope_scaling": {"factor": True}},
        {"rope_theta": -5},
    ):
        with pytest.raises(BadInput, match=r"config\.json:\d+: "):
            read(tmp_path, {**LLAMA, **changes})


def test_granite_multipliers_are_noted(tmp_path):
    granite = json.loads(Path(__file__).parent.joinpath("configs/granite3.0-8b.json").read_text())
    ones = {key: 1.0 for key in granite if key.endswith("_multiplier")} | {"logits_scaling": 1.0}
    assert read(tmp_path, granite).scaled_stream
    assert not read(tmp_path, {**granite, **ones}).scaled_stream


@pytest.mark.parametrize(("version", "scale", "normalized"), [("v2", 1.0, False), ("v3", 2.5, True)])
def test_omitted_deepseek_routing_takes_the_defaults_of_the_library(tmp_path, version, scale, normalized):
    """Defaults of DeepseekV2Config and DeepseekV3Config of transformers."""
    config = json.loads(Path(__file__).parent.joinpath(f"configs/deepseek-{version}.json").read_text())
    bare = {key: value for key, value in config.items() if key not in ("routed_scaling_factor", "norm_topk_prob")}
    found = read(tmp_path, bare).experts
    assert (found.router_scale, found.router_normalized) == (scale, normalized)
    assert found.correction_bias == (version == "v3")
    said = read(tmp_path, {**bare, "routed_scaling_factor": 7.5, "norm_topk_prob": not normalized}).experts
    assert (said.router_scale, said.router_normalized) == (7.5, not normalized)
