"""Published runs: every miss is explained, no explanation outlives its miss, and the arithmetic holds."""

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from lockstep.base.errors import BadInput, UnknownName
from lockstep.check.validation.cases import (
    TOLERANCE_FRAC,
    Comparison,
    Study,
    Survey,
    compare,
    names,
    predict,
    study,
    survey,
)
from lockstep.check.validation.cases.document import page
from lockstep.check.validation.cases.predict import pace_factor
from lockstep.check.validation.cases.schema import read_study
from lockstep.check.validation.cases.study import DURATIONS, PLANNED, PUBLIC
from lockstep.decide.planner.estimate import estimate
from lockstep.describe.hardware import cluster
from lockstep.price.layout import Job, Layout

NEAR_MISS_FRAC = 0.10
"""An explanation may stand beside an error that is nearly a miss."""


@cache
def every() -> Survey:
    """Made when the first test asks."""
    return survey()


def compared(name: str) -> Comparison:
    return survey([name]).comparisons[0]


@pytest.mark.parametrize("name", names())
def test_every_miss_is_explained(name: str) -> None:
    assert compared(name).ok, compared(name).to_dict()["rows"]


@pytest.mark.parametrize("name", names())
def test_every_explanation_belongs_to_a_current_miss(name: str) -> None:
    """Of the rows about one thing (the whole run, or a rate), the worst deserves the explanation."""
    for row in compared(name).rows:
        if row.published.why:
            assert row.error_frac is not None
            assert abs(row.error_frac) > NEAR_MISS_FRAC, (row.published.quantity, row.error_frac)


@pytest.mark.parametrize("name", names())
def test_every_number_has_a_source(name: str) -> None:
    one = compared(name)
    assert one.rows
    assert len(one.study.source) > 10
    assert all(len(row.published.source) > 10 for row in one.rows)
    if one.study.configuration != PUBLIC:
        assert one.study.unknown


def test_the_required_published_runs_exist() -> None:
    models = {one.study.model.name for one in every().comparisons}
    assert models >= {
        "gpt3-175b", "llama-7b", "llama-13b", "llama-33b", "llama-65b", "llama2-7b", "llama2-13b", "llama2-34b",
        "llama2-70b", "llama3-8b", "llama3-70b", "llama3-405b", "palm-540b", "mt-nlg-530b", "bloom-176b",
        "mixtral-8x7b", "deepseek-v2", "deepseek-v3", "resnet50", "bert-large",
    }  # fmt: skip


def test_public_durations_are_within_tolerance_or_explained() -> None:
    rows = every().durations(PUBLIC)
    assert len(rows) >= 6
    for row in rows:
        assert row.error_frac is not None
        assert abs(row.error_frac) <= TOLERANCE_FRAC or row.published.why


def test_the_planners_best_is_not_slower_than_a_real_run() -> None:
    """Where no layout is known the prediction is the fastest layout there is."""
    planned = [one for one in every().comparisons if one.study.configuration == PLANNED]
    assert len(planned) >= 8
    for one in planned:
        for row in one.rows:
            assert row.error_frac is not None
            slower = row.error_frac if row.duration else -row.error_frac
            assert slower <= 0.02, (one.study.name, row.published.quantity)


def row_of(one: Comparison, quantity: str) -> float:
    found = next(row.predicted for row in one.rows if row.published.quantity == quantity)
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["bloom-176b", "llama-65b", "deepseek-v3", "gpt3-175b"])
def test_hours_are_days_times_devices(name: str) -> None:
    one = compared(name)
    devices = one.study.stretches[0].devices
    assert row_of(one, "gpu_hours") == pytest.approx(24 * devices * row_of(one, "days"))


def test_days_are_steps_times_step_time() -> None:
    one = compared("gpt3-175b-megatron")
    steps = 300e9 / (1536 * 2048)
    assert row_of(one, "days") == pytest.approx(steps * row_of(one, "step_time_s") / 86400)


def test_bert_case_includes_both_phases() -> None:
    first, second = compared("bert-large-nvidia").prediction.stretches
    seconds = 7038 * first.step_time_s + 1563 * second.step_time_s
    assert row_of(compared("bert-large-nvidia"), "days") == pytest.approx(seconds / 86400)


def test_rates_follow_the_step_time() -> None:
    for one in every().comparisons:
        for stretch in one.prediction.stretches:
            rate = stretch.quantity("tokens_per_s")
            assert rate * stretch.step_time_s == pytest.approx(stretch.stretch.recipe.batch_tokens)
            assert 0 < stretch.estimate.utilisation.causal_mfu_frac <= stretch.quantity("hfu_frac") < 1


def test_downtime_only_adds() -> None:
    for one in every().comparisons:
        for row in one.study.published:
            if row.quantity in DURATIONS:
                net = one.prediction.value(replace(row, downtime=False))
                gross = one.prediction.value(replace(row, downtime=True))
                assert (net is None) == (gross is None)
                assert net is None or gross is None or net <= gross < 2 * net


def test_a_pace_reproduces_its_own_run() -> None:
    """Nothing but kernels takes time on eight GPUs, where all but the last bucket hides: the error is left over."""
    other = study("resnet50-goyal-8")
    paced = predict(replace(other, name="again", pace="resnet50-goyal-8"))
    days = paced.value(other.published[0])
    assert days == pytest.approx(other.published[0].value, rel=0.01)


def test_a_pace_slows_kernels_and_nothing_else() -> None:
    whole = study("resnet50-goyal")
    plain, paced = (predict(one).stretches[0].estimate.step for one in (replace(whole, pace=""), whole))
    factor = pace_factor(whole)
    assert factor > 1.0
    assert float(paced.compute_s) == pytest.approx(factor * float(plain.compute_s))
    assert float(paced.dp_comm_s) <= float(plain.dp_comm_s)
    (said,) = (text for text in compared("resnet50-goyal").assumptions() if "resnet50-goyal-8" in text)
    assert f"{factor:.3g} times" in said


@pytest.mark.parametrize("pace", ["resnet50-goyal", "mt-nlg-530b"])
def test_a_pace_must_be_measured(pace: str) -> None:
    with pytest.raises(BadInput, match="no pace of its own"):
        predict(replace(study("resnet50-goyal"), pace=pace))


def test_an_unknown_pace_is_named() -> None:
    with pytest.raises(UnknownName, match="resnet50-goyal-8"):
        predict(replace(study("resnet50-goyal"), pace="resnet50-goyal-9"))


def without_ramp(whole: Study) -> Study:
    return replace(whole, stretches=tuple(replace(stretch, ramp=None) for stretch in whole.stretches))


def test_a_ramp_costs_what_its_batches_cost() -> None:
    """An independent sum: steps of each batch times the step time of that batch."""
    whole = study("deepseek-v2")
    ramp = whole.stretches[0]
    machine = cluster(whole.cluster, gpus=ramp.devices)
    batches = list(range(2304, 9216, 768))
    seconds = 0.0
    for batch in batches:
        job = Job(whole.model, replace(ramp.recipe, batch=batch), ramp.devices)
        steps = (ramp.tokens or math.nan) / len(batches) / (batch * ramp.recipe.seq)
        seconds += steps * estimate(job, machine, Layout(**ramp.layout)).step_time_s
    assert predict(whole).stretches[0].work_s == pytest.approx(seconds)
    flat = predict(without_ramp(whole)).stretches[0].work_s
    assert flat is not None
    assert flat < seconds


def test_an_unknown_micro_batch_divides_every_batch_of_a_ramp() -> None:
    whole = study("deepseek-v2")
    (ramp, *_) = whole.stretches
    unknown = replace(ramp, chosen=("micro_batch",))
    found = predict(replace(whole, stretches=(unknown, *whole.stretches[1:]))).stretches[0]
    layout = found.estimate.layout
    assert all(batch % (layout.dp * layout.micro_batch) == 0 for batch in (*range(2304, 9216, 768), 9216))


def test_deepseek_v3_fits_as_published() -> None:
    assert all(one.estimate.memory.fits for one in compared("deepseek-v3").prediction.stretches)


def test_the_exchange_of_deepseek_v3_hides_in_cells() -> None:
    for one in compared("deepseek-v3").prediction.stretches:
        found = one.estimate
        job = replace(found.job, recipe=replace(found.job.recipe, overlap_ep="none"))
        bare = estimate(job, found.cluster, found.layout).step
        assert one.hidden_s + float(found.step.ep_comm_s) == pytest.approx(float(bare.ep_comm_s), rel=1e-9)
        assert 0 < one.hidden_s < float(bare.step_time_s) - one.step_time_s + float(found.step.ep_comm_s)


def test_unknown_options_take_the_best_remaining_layout() -> None:
    """Brute force over the two unknown words, the known ones held."""
    whole = study("gpt3-175b-megatron")
    (known,) = whole.stretches
    words = {name: value for name, value in known.layout.items() if name not in ("micro_batch", "recompute")}
    asked = replace(whole, stretches=(replace(known, layout=words, chosen=("micro_batch", "recompute")),))
    best = predict(asked).stretches[0].estimate
    assert (best.layout.tp, best.layout.pp, best.layout.dp, best.layout.zero) == (8, 16, 8, 0)
    job, machine = Job(whole.model, known.recipe, known.devices), cluster(whole.cluster, gpus=known.devices)
    tried = [
        estimate(job, machine, Layout(**words, micro_batch=micro_batch, recompute=recompute))
        for micro_batch in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
        for recompute in ("none", "selective", "full")
    ]
    assert best.step_time_s == min(one.step_time_s for one in tried if one.memory.fits)


def test_two_published_numbers_of_one_run_agree() -> None:
    """380 tokens/s on 2,048 GPUs make 1.4T tokens in the published days and hours: the table was typed in right."""
    rows = {row.quantity: row.value for row in study("llama-65b").published}
    days = 1.4e12 / (rows["tokens_per_s_per_gpu"] * 2048) / 86400
    assert days == pytest.approx(rows["days"], rel=0.01)
    assert days * 24 * 2048 == pytest.approx(rows["gpu_hours"], rel=0.01)


GOOD = """\
title: A run
model: gpt2
cluster: dgx-h100
devices: 8
layout: {dp: 8, zero: 1}
stretches:
  - {name: all, seq: 1024, batch: 64, steps: 10}
published:
  - {quantity: step_time_s, value: 1, source: made up for this test}
source: made up for this test
"""


def test_a_custom_case_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    found = compare(study(str(path)))
    assert found.study.name == "mine"
    assert found.study.configuration == PUBLIC
    assert not found.ok
    assert found.prediction.stretches[0].work_s == pytest.approx(10 * found.prediction.stretches[0].step_time_s)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seq: 1024", "sequence: 1024", "unknown key"),
        ("steps: 10", "steps: 10, tokens: 1M", "not both"),
        ("dp: 8", "dpp: 8", "unknown key"),
        ("zero: 1", "zero: 7", "zero must be"),
        ("zero: 1", "dp: unknown", "given twice"),
        ("{dp: 8, zero: 1}", "{dp: unknown}", "dp"),
        ("{dp: 8, zero: 1}", "8", "options or unknown"),
        ("dp: 8", "dp: 0", "dp must be"),
        ("devices: 8", "devices: 8\nrecipe: {parameter_B: two}", "parameter_B"),
        ("devices: 8\n", "", "devices"),
        ("value: 1,", "value: 1, stretch: some,", "unknown stretch"),
        ("value: 1,", "value: 1, downtime: true,", "downtime"),
        ("value: 1,", "value: 0,", "value"),
        ("step_time_s", "step_time", "quantity"),
        ("title: A run", "title: A run\nrecipe: {dtyp: bf16}", "unknown key"),
    ],
)
def test_an_invalid_case_file_is_refused_at_its_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(BadInput, match=message) as caught:
        read_study(path)
    assert str(caught.value.where).startswith(f"{path}:")


def test_an_unknown_case_is_named() -> None:
    with pytest.raises(UnknownName, match="bloom-176b"):
        study("bloom")


def test_the_page_shows_the_current_errors() -> None:
    """After a change that moves an error: python tools/pages.py --write docs/case-studies.md."""
    written = (Path(__file__).parents[3] / "docs" / "case-studies.md").read_text(encoding="utf-8")
    assert written.strip() == page(every()).strip()
