"""Published tables within their tolerance, better than a constant efficiency, and a report that can say no."""

import re
import tomllib
from dataclasses import replace
from importlib import resources
from itertools import combinations, pairwise

import numpy as np
import pytest

from console_blocks import ROOT, blocks, compared, printed, session
from effort import ALL, share
from fit_scripts import fit_script
from lockstep.base.errors import UnknownName
from lockstep.check.validation import (
    TABLES,
    Report,
    TableReport,
    bigscience_sweep,
    calibrated,
    collectives,
    nemo,
    validate,
    vocabulary,
)
from lockstep.check.validation.case import SEQ, VOCAB, gpt, read_rows
from lockstep.check.validation.dgxc import left_out
from lockstep.check.validation.document import TABLES_HEAD, page
from lockstep.check.validation.typical_errors import typical_errors
from lockstep.describe.hardware.device import curves
from lockstep.describe.workload import parameters
from lockstep.price.layout import check, memory


def table(name: str) -> TableReport:
    """One table's report; rows of a table are predicted once."""
    return validate([name]).tables[0]


@pytest.mark.parametrize("name", list(TABLES))
def test_a_table_is_within_its_tolerance(name: str) -> None:
    found = table(name)
    assert found.ok, found.to_dict()


@pytest.mark.parametrize("name", ["narayanan_sc21", "korthikanti_2022", "llm_foundry_mpt", "korthikanti_2022_memory"])
def test_median_errors_are_within_ten_percent(name: str) -> None:
    found = table(name)
    assert found.table.tolerance_frac <= 0.10
    assert found.median_abs_frac <= 0.10


def test_an_exchange_that_is_bound_by_one_link_is_within_five_percent() -> None:
    """DeepEP over four and eight nodes, where the fabric takes longer than NVLink by half and more."""
    found = table("deepep_all_to_all")
    far = [error.error_frac for error in found.errors if "ep32" in error.row or "ep64" in error.row]
    assert len(far) == 4
    assert max(map(abs, far)) < 0.05


def test_a_layer_of_experts_in_bf16_is_within_fourteen_percent_in_the_median() -> None:
    found = table("moe_layer_perf")
    half = [error.error_frac for error in found.errors if "H100 bf16" in error.row]
    assert len(half) == 6
    assert np.median(np.abs(half)) < 0.14


# Of these one software, one model or showcases are published: a constant that knows their utilisation meets them by
# construction. On prime_rl attention kernels decide.
SHOWCASES = (
    "nvidia_nemo", "nvidia_nemo_experts", "bigscience_a100_sweep", "llama3_405b", "internlm_7b", "dgxc_nemo",
    "dgxc_nemo_experts", "dgxc_tuning", "nvidia_nemo_tuning", "dgxc_maxtext", "prime_rl",
    "fms_acceleration", "fms_adapters", "pythia_a100", "maxtext_tpu", "tpu_recipes",
    "fine_tuning_open", "bert", "bigscience_v100",
)  # fmt: skip
STEPS = [name for name, table in TABLES.items() if table.quantity == "step_time_s"]
SWEEPS = [name for name, table in TABLES.items() if table.quantity == "step_time_s" and name not in SHOWCASES]


# A constant errs by 6 and 11 % on these.
LESS_AHEAD = {"llm_foundry_mpt_2023": 0.7, "megatron_2020": 0.62}


@pytest.mark.parametrize("name", SWEEPS)
def test_the_model_beats_one_constant_mfu(name: str) -> None:
    found = table(name)
    assert found.constant_mfu_frac is not None
    assert found.median_abs_frac < LESS_AHEAD.get(name, 0.6) * found.constant_mfu_frac


def test_software_that_was_not_seen_is_within_eight_percent_in_the_median() -> None:
    """Over 21 programs; each keeps its switches, and nothing else of it is known."""
    report = validate(STEPS)
    assert len(report.stacks) == 21
    assert report.left_out_median_frac is not None
    assert report.left_out_median_frac < 0.08


def test_intervals_cover_nine_of_ten_steps_of_software_left_out() -> None:
    report = validate(STEPS)
    assert report.coverage_frac is not None
    asked = [error.covered for table in report.tables for error in table.errors if error.covered is not None]
    assert 0.85 <= np.mean(asked) <= 0.95
    for one in report.stacks:
        assert one.coverage_frac is not None
        if len(one.fracs) >= 20:
            assert one.coverage_frac >= 0.75, one.stack


@pytest.mark.parametrize("name", list(TABLES))
def test_every_case_is_a_layout_that_keeps_the_rules(name: str) -> None:
    for case in TABLES[name].cases():
        check(case.layout, case.job)
        assert case.measured > 0
        assert case.cluster.num_devices == case.job.devices


def test_published_llama_3_rows_are_within_ten_percent() -> None:
    """Each 8k row within 10 %, with the traffic of its own software."""
    found = table("llama3_405b")
    rows = [error for error in found.errors if "seq 8192" in error.row]
    assert len(rows) == 2
    assert all(abs(error.error_frac) < 0.10 for error in rows)


def test_every_row_is_described_or_excluded_with_a_reason() -> None:
    described = {name: len(table.cases()) for name, table in TABLES.items()}
    assert described["internlm_7b"] == len(read_rows("internlm_7b_a100.csv"))
    assert described["llama3_405b"] == len(read_rows("llama3_405b.csv"))
    assert left_out() == {"sharding not printed": 13}
    here = sum(described[name] for name in ("dgxc_nemo", "dgxc_nemo_experts", "dgxc_maxtext", "dgxc_tuning"))
    assert here + sum(left_out().values()) == len(read_rows("dgxc_benchmarking.csv"))
    spread = described["vocab_parallelism"] + len(vocabulary.out_of_memory())
    assert spread == len(read_rows("vocab_parallelism.csv"))


def test_every_expert_row_is_predicted() -> None:
    """Of known models, devices and formats all but one, whose ranks of experts are more than a stage has."""
    rows = [row for row in read_rows("nvidia_nemo_megatron_bridge.csv") if "pre" in row["task"].lower()]
    known = {
        row["row_id"]
        for row in rows
        if row["model"] in nemo.EXPERT_MODELS and row["gpu"] in nemo.CLUSTERS and row["precision"] in nemo.DTYPES
    }
    assert known - {case.row.split()[0] for case in nemo.expert_cases()} == {"mb271"}


def test_grok_1_in_bf16_with_cut_experts_is_within_seventeen_percent() -> None:
    """As published from November 2024 to February 2025, on 8 to 2,048 GPUs; nothing was fitted to it.

    It was within 7 % on an H100 curve whose products were too slow (decision 3).
    """
    found = table("dgxc_nemo_experts")
    cut = {case.row for case in TABLES["dgxc_nemo_experts"].cases() if not case.layout.etp}
    rows = [error.error_frac for error in found.errors if error.row in cut and error.row.endswith("BF16")]
    assert len(rows) == 18
    assert max(map(abs, rows)) < 0.17


def test_spread_vocabulary_layers_gain_what_was_measured() -> None:
    """Step time against whole layers of the same model, vocabulary and sequence: within 13 points of it, most in 10.

    Not of rows that the authors' own repetition contradicts (`vocabulary.repeated`)."""
    timed = {
        tuple(case.row.split()[1:]): case for case in TABLES["vocab_parallelism"].cases() if vocabulary.repeated(case)
    }
    found = table("vocab_parallelism")
    errors = {error.row: error.predicted for error in found.errors}
    differences = []
    for (schedule, method, *rest), case in timed.items():
        whole = timed.get((schedule, "Baseline", *rest))
        if method in vocabulary.SPREAD and whole is not None:
            differences.append(errors[case.row] / errors[whole.row] - case.measured / whole.measured)
    assert len(differences) == 78
    assert max(map(abs, differences)) < 0.13
    assert sum(abs(one) >= 0.10 for one in differences) <= 10


def test_out_of_memory_runs_fill_the_memory_within_tolerance() -> None:
    cases = vocabulary.out_of_memory()
    used = [float(memory(case.job, case.cluster, case.layout.grid()).used_frac) for case in cases]
    assert len(used) == 6
    assert min(used) > 1 - vocabulary.MEMORY.tolerance_frac
    assert sum(one > 1 for one in used) == 2


def test_collectives_are_predicted_or_excluded_with_a_reason() -> None:
    assert collectives.left_out() == {"source of the catalog": 61, "below 1 MB": 40, "cluster not in the catalog": 2}
    assert collectives.micro_left_out() == {"below 1 MB": 30, "cluster not in the catalog": 12}
    for name, left in {
        "nccl_collectives": collectives.left_out(),
        "collectives_micro": collectives.micro_left_out(),
    }.items():
        assert len(TABLES[name].cases()) + sum(left.values()) == len(read_rows(f"{name}.csv"))


def test_all_reduces_in_a_switch_are_within_twelve_percent() -> None:
    """Above 1 MB on H100, H200, B200 and GB200, several nodes and racks too; within one switch 5 %."""
    rows = [error for name, one in TABLES.items() if one.quantity == "collective_s" for error in table(name).errors]
    reduced = [error for error in rows if "all-reduce" in error.row and "by ring" not in error.row]
    switched = [error for error in reduced if any(name in error.row for name in ("H100", "H200", "B200"))]
    assert len(switched) >= 70
    assert np.median([abs(error.error_frac) for error in switched]) < 0.12
    several = ("nccl07", "nccl09", "nccl11", "nccl12")
    assert np.median([abs(error.error_frac) for error in switched if not error.row.startswith(several)]) < 0.05


@pytest.mark.parametrize("name", list(TABLES))
def test_worst_rows_come_first_and_errors_are_signed(name: str) -> None:
    errors = table(name).errors
    sizes = [abs(error.error_frac) for error in errors]
    assert sizes == sorted(sizes, reverse=True)
    for error in errors:
        assert error.error_frac == pytest.approx((error.predicted - error.measured) / error.measured)


def test_a_table_out_of_tolerance_fails_the_report() -> None:
    one, other = table("korthikanti_2022"), table("deepep_all_to_all")
    strict = replace(one, table=replace(one.table, tolerance_frac=1e-6))
    assert Report((one, other)).ok
    assert not strict.ok
    assert not Report((strict, other)).ok


def test_unknown_table_is_named() -> None:
    with pytest.raises(UnknownName, match="narayanan_sc21"):
        validate(["narayanan"])


def test_the_mpt_models_have_the_printed_parameters() -> None:
    rows = {row["row_id"]: row for row in read_rows("llm_foundry_mpt.csv")}
    for case in TABLES["llm_foundry_mpt"].cases():
        assert parameters(case.job.model).total == int(rows[case.row.split()[0]]["n_params"])


def test_rows_of_the_release_before_are_predicted_as_well_as_those_that_were_fitted() -> None:
    """llm-foundry's of July 2023: all 84, none of them in the fit."""
    older = table("llm_foundry_mpt_2023")
    assert len(older.errors) == len(read_rows("llm_foundry_mpt_2023.csv")) == 84
    assert older.median_abs_frac < 0.045


def calibrations_as_written(written: str) -> str:
    """The page's section on calibrations, a share of whose programs are calibrated and come out as it says."""
    section = written[written.index(calibrated.HEAD.splitlines()[1]) - 1 : written.index(TABLES_HEAD.strip()) - 1]
    head = re.sub(r"\\{\w+\\}", r"\\d+(\\.\\d)? %", re.escape(calibrated.HEAD))
    found = re.match(head, section)
    assert found
    rows, programs = section[found.end() :].splitlines(), list(calibrated._both())
    for row, program in share(list(zip(rows, programs, strict=True)), 4, begin=1):
        assert row == calibrated._followed(*program).row()
    return section


def test_the_pages_show_the_current_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change that moves an error: python tools/pages.py --write. Tables are predicted once for both pages."""
    written = (ROOT / "docs" / "validation.md").read_text(encoding="utf-8")
    if not ALL:
        section = calibrations_as_written(written)
        monkeypatch.setattr(calibrated, "section", lambda: section)
    assert written.strip() == page(validate()).strip()
    found = (session(language, body) for _, language, body in blocks())
    shown = [one for one in found if one is not None and one.command == "validate"]
    assert shown
    for one in shown:
        assert compared(one, printed(one)) == compared(one, one.output)
    # README shows programs that nothing was fitted to.
    text, report = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split()), validate().to_dict()
    assert sum(f"`{software['stack']}`" in text for software in report["stacks"]) == 5
    for software in report["stacks"]:
        figures = f"{100 * software['left_out_median_abs_frac']:.2g} % | {100 * software['coverage_frac']:.0f} %"
        name = f"`{software['stack']}`"
        assert name not in text or re.search(rf"{name}\)? \| {software['rows']} \| {figures} \|", text), name
    whole = (
        f"a median error of {100 * report['left_out_median_frac']:.2g} %; {100 * report['coverage_frac']:.0f} % of its"
    )
    assert whole in text
    assert f"Five of {len(report['stacks'])} programs" in text


def test_the_support_matrix_matches_the_tables() -> None:
    """After a change that moves an error: python tools/fit/support.py > src/lockstep/decide/planner/support.toml."""
    text = resources.files("lockstep.decide.planner").joinpath("support.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text)["published"] == fit_script("support").published()


def test_typical_errors_of_curves_match_the_tables() -> None:
    """After such a change: python tools/fit/support.py --curves > .../catalog/typical_errors.toml."""
    found = typical_errors()
    assert set(found) == {"a100", "h100"}
    assert found == {name: curves()[name].typical_error_frac for name in found}


def test_deepspeed_habits_explain_half_of_the_error_on_its_sweep() -> None:
    """Copies before gradients are added, sends that take turns, launches that block: without them it is Megatron."""
    errors: dict[bool, list[float]] = {True: [], False: []}
    for case in TABLES["bigscience_a100_sweep"].cases():
        plain = case.job.recipe.having(converted_gradients=False, paired_sends=True, launch_blocking=False)
        for told, recipe in ((True, case.job.recipe), (False, plain)):
            known = replace(case, job=replace(case.job, recipe=recipe))
            errors[told].append(abs(case.predict(known) / case.measured - 1))
    assert float(np.median(errors[True])) < 0.6 * float(np.median(errors[False]))


@pytest.mark.parametrize(
    ("layers", "stages", "printed"),
    [(72, 12, ()), (70, 12, (5, *(6,) * 10, 5)), (78, 12, (*(7,) * 11, 1)), (100, 6, (16, 17, 17, 17, 17, 16))],
)
def test_bigscience_stages_match_the_published_placement(layers: int, stages: int, printed: tuple[int, ...]) -> None:
    """README.md: "[embed | 5 transformer blocks]", ten times 6, "[5 transformer blocks | embed]"; prequel: "78/12=6.5 -
    so the last stage has 1 block, while the rest have 7"; two layers less where embedding and head have their slots."""
    assert bigscience_sweep.stages_of(layers, stages) == printed


@pytest.mark.parametrize(
    ("layers", "hidden", "heads", "billions"), [(24, 2304, 24, 1.7), (96, 12288, 96, 174.6), (128, 25600, 160, 1008.0)]
)
def test_a_gpt_of_the_megatron_papers_has_their_parameters(
    layers: int, hidden: int, heads: int, billions: float
) -> None:
    """arXiv 2104.04473, equation 2, P = 12 l h^2 (1 + 13/12h + (V + s)/12lh), and table 1; a last norm of 2h."""
    exact = 12 * layers * hidden**2 * (1 + 13 / (12 * hidden) + (VOCAB + SEQ) / (12 * layers * hidden))
    total = parameters(gpt("gpt", layers, hidden, heads)).total
    assert total == pytest.approx(exact + 2 * hidden, rel=1e-12)
    assert total / 1e9 == pytest.approx(billions, abs=0.05)


@pytest.mark.parametrize(("layers", "pp", "vocab"), [(8, 4, 32_768), (12, 4, 262_144), (9, 3, 131_072)])
def test_layers_make_room_for_the_head_as_in_the_paper_on_vocabularies(layers: int, pp: int, vocab: int) -> None:
    """Of all splits the one whose heaviest stage has fewest FLOPs: 72 s h^2 + 12 s^2 h a layer, 6 s h V the head."""
    hidden, seq = 2048, 2048
    layer, head = 72 * seq * hidden**2 + 12 * seq**2 * hidden, 6 * seq * hidden * vocab
    cuts = combinations(range(1, layers + pp), pp - 1)
    splits = [tuple(b - a - 1 for a, b in pairwise((0, *places, layers + pp))) for places in cuts]

    def heaviest(sizes: tuple[int, ...]) -> int:
        return max(*(size * layer for size in sizes[:-1]), sizes[-1] * layer + head)

    found = vocabulary._redistributed(layers, pp, hidden, seq, vocab)
    assert sum(found) == layers
    assert heaviest(found) == min(map(heaviest, splits))
