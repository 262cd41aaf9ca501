"""The catalog: totals as published, every entry with source and date, listings and names."""

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from lockstep import workload
from lockstep.base.errors import BadInput, UnknownName
from lockstep.describe.workload import ConvNet, Transformer

CONFIGS = sorted(Path(__file__).parent.joinpath("configs").glob("*.json"))

# Typed from the model cards' safetensors totals and papers, independently of the catalog files.
EXACT = {
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
    "deepseek-v3": 671_026_419_200,
    "gpt2": 124_439_808,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "resnet50": 25_557_032,
}

# MosaicML's benchmark table prints the total for every sequence length: (model, seq, n_params).
MPT_ROWS = [
    ("mpt-125m", 512, 124_131_840), ("mpt-125m", 32768, 148_904_448), ("mpt-350m", 4096, 358_082_560),
    ("mpt-760m", 65536, 857_988_096), ("mpt-1b", 8192, 1_328_533_504), ("mpt-3b", 65536, 2_814_366_720),
    ("mpt-7b", 1024, 6_654_664_704), ("mpt-13b", 16384, 12_927_354_880), ("mpt-30b", 8192, 30_019_254_272),
    ("mpt-70b", 2048, 64_862_437_376),
]  # fmt: skip

# Biderman et al. 2023 with the unpadded vocabulary of 50,304.
PYTHIA_UNPADDED = {"pythia-6.9b": 6_856_253_440, "pythia-12b": 11_842_140_160}


def total(model):
    return workload.parameters(model).total


@pytest.mark.parametrize("entry", workload.entries(), ids=lambda entry: entry.model.name)
def test_parameter_totals_match_the_published_ones(entry):
    published = entry.published
    counted = total(entry.model)
    if published.exact:
        assert counted == int(published.text)
        return
    digits, unit = re.fullmatch(r"([\d.]+)([BM])", published.text).groups()
    scale = {"B": 1e9, "M": 1e6}[unit]
    # One unit of the last printed digit; a bare "175B" or "180B" is a name, good to 1.5 %.
    decimals = len(digits.partition(".")[2])
    tolerance = 10**-decimals * scale if decimals else max(0.5 * scale, 0.015 * float(digits) * scale)
    assert abs(counted - float(digits) * scale) <= tolerance


@pytest.mark.parametrize(("name", "expected"), EXACT.items())
def test_well_known_models_have_their_known_totals(name, expected):
    assert total(workload.model(name)) == expected


@pytest.mark.parametrize(("name", "seq", "expected"), MPT_ROWS)
def test_mpt_totals_grow_with_the_sequence(name, seq, expected):
    assert total(replace(workload.model(name), max_positions=seq)) == expected


@pytest.mark.parametrize(("name", "expected"), PYTHIA_UNPADDED.items())
def test_pythia_totals_match_with_the_padded_vocabulary(name, expected):
    assert total(replace(workload.model(name), vocab=50304)) == expected


@pytest.mark.parametrize("name", [name for name in workload.names() if re.fullmatch(r"megatron-[\d.]+[bt]", name)])
def test_narayanan_formula_is_the_count_but_for_the_final_norm(name):
    model = workload.model(name)
    assert workload.narayanan_parameters(model) == pytest.approx(total(model) - 2 * model.hidden, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "active_B", "digits"),
    [
        ("deepseek-v3", 37.6, 1),  # arXiv 2412.19437: "37B activated"; 37.55 with embedding and head
        ("deepseek-v2", 21.4, 1),  # arXiv 2405.04434: "21B activated"
        ("mixtral-8x7b", 12.9, 1),  # arXiv 2401.04088: "13B active"
        ("mixtral-8x22b", 39.2, 1),  # Mistral AI, 2024-04-17: "39B active"
        ("qwen3-235b-a22b", 22.2, 1),
    ],
)
def test_active_parameters_match_the_published_ones(name, active_B, digits):
    assert round(workload.parameters(workload.model(name)).active / 1e9, digits) == active_B


def test_the_prediction_module_of_deepseek_v3_is_counted_separately():
    counted = workload.parameters(workload.model("deepseek-v3"))
    assert counted.untrained == 58 * 256
    # arXiv 2412.19437 and README: 14B of MTP weights, of which embedding and head (1.85B) are shared copies.
    shared = 2 * 129280 * 7168
    assert round((counted.mtp + shared) / 1e9) in (13, 14)


def test_every_entry_has_source_and_date():
    for entry in workload.entries():
        assert entry.model.source, entry.model.name
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", entry.model.date), entry.model.name


def test_rows_list_every_name_once_with_plain_values():
    rows = workload.models()
    assert [row["name"] for row in rows] == list(workload.names())
    assert len(set(workload.names())) == len(workload.names())
    assert all(isinstance(value, (str, int)) for row in rows for value in row.values())


def test_the_required_models_exist():
    promised = "gpt3-175b llama3-8b llama3-70b llama3-405b mixtral-8x7b deepseek-v2 deepseek-v3 bert-large resnet50"
    assert set(promised.split()) <= set(workload.names())


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_file_gives_the_catalog_model(path):
    """Two descriptions of one model, typed apart: the catalog's and the publisher's own config.json."""
    read, listed = workload.model(path), workload.model(path.stem)
    if read.mlm_head:
        # Published weights of BERT are counted as the encoder with its pooler, which other heads replace.
        read = replace(read, mlm_head=False, head_bias=False, tied_embeddings=listed.tied_embeddings, pooler=True)
    assert replace(read, name=listed.name) == listed


def test_the_catalog_covers_many_model_types():
    assert len(CONFIGS) >= 30


def test_unknown_name_suggests():
    with pytest.raises(UnknownName, match="did you mean llama3-70b"):
        workload.model("llama3-70")
    with pytest.raises(BadInput, match=r"ends in \.json"):
        workload.model("./somewhere/model")


def test_model_lookups_are_cached():
    assert workload.model("llama3-8b") is workload.model("llama3-8b")
    assert isinstance(workload.model("resnet50"), ConvNet)
    assert isinstance(workload.model("bert-base"), Transformer)


@pytest.mark.parametrize("entry", workload.entries(), ids=lambda entry: entry.model.name)
def test_every_table_of_an_entry_becomes_a_record(entry):
    """One without keys, which stands for the defaults, included."""
    made = entry.model
    assert not [field.name for field in fields(made) if isinstance(getattr(made, field.name), dict)]
