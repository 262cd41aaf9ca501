"""The step as a program, over all kinds of parallelism and overlap at once: what it takes is what is priced.

`pipelines` here replays a pipeline of the same pass times, which knows nothing of traffic inside passes: so that every
schedule is held to 1e-9, those too whose closed form is only a bound.
"""

import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import lockstep
from effort import drawn
from lockstep.base.errors import BadInput
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import RECOMPUTE, model
from lockstep.price.layout import Job, Layout, broken_by, memory
from lockstep.price.layout.recipe import TP_OVERLAPS
from lockstep.price.step import PARTS, compose, hiding, hidings, price_step, step_timeline
from lockstep.price.step.reading import breakdown_s, busiest
from lockstep.simulate.parallel import pipeline as pipelines
from lockstep.simulate.parallel.context import KINDS
from lockstep.simulate.parallel.data.sharing import SOFTWARE, SYNCS
from lockstep.simulate.play import simulate
from lockstep.simulate.program import Timeline, read_trace
from lockstep.simulate.program.trace import write_trace
from recipes import recipe_by

CLUSTERS = tuple(cluster(name) for name in ("dgx-h100:4", "dgx-a100-40gb:8"))
MODELS = tuple(model(name) for name in ("llama3-8b", "mixtral-8x7b", "deepseek-v3", "falcon-7b", "resnet50"))
EXACT = ("1f1b", "gpipe", "naive", "eager-1f1b")
TRAINED = ("full", "full", "lora:r=16", "lora:r=64,targets=all-linear,dropout=0.1")
ORDERS = (("tp", "cp", "ep", "dp", "pp"), ("cp", "tp", "ep", "dp", "pp"), ("tp", "pp", "cp", "ep", "dp"))
Question = tuple[Job, lockstep.hardware.Cluster, Layout]


@st.composite
def placed(draw: st.DrawFn, job: Job, chunks: int) -> dict[str, object]:
    """Layers placed by hand, the first and the last stage perhaps without any."""
    chances = draw(st.lists(st.integers(1, 4), min_size=chunks, max_size=chunks))
    fewest = [int(0 < at < chunks - 1) for at in range(chunks)]
    left, stages = job.layers - sum(fewest), list(fewest)
    for at, one in enumerate(chances):
        more = left if at == chunks - 1 else min(left, one * (job.layers - sum(fewest)) // sum(chances))
        stages[at], left = stages[at] + more, left - more
    if stages[-1] > 1 and draw(st.booleans()):
        stages[0], stages[-1] = stages[0] + stages[-1], 0
    modules = job.transformer is not None and job.transformer.mtp_layers > 0
    behind = [None, chunks - 1] + [chunks - 2] * (stages[-1] == 0 and chunks > 2)
    return {"stages": tuple(stages), "mtp_stage": draw(st.sampled_from(behind)) if modules else None}


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """A layout that keeps the rules, with any overlap, of any model on any cluster."""
    hardware, known = draw(st.sampled_from(CLUSTERS)), draw(st.sampled_from(MODELS))
    degree = st.sampled_from([1, 2, 4, 8])
    tp, pp, cp = draw(degree), draw(degree), draw(st.sampled_from([1, 2, 4]))
    if known.name == "resnet50" or tp * pp * cp > hardware.num_devices:
        tp, pp, cp = 1, 1, 1
    dp = hardware.num_devices // (tp * pp * cp)
    schedule = draw(st.sampled_from(pipelines.names())) if pp > 1 else "1f1b"
    many, chunks = draw(st.sampled_from([1, 2, 4])), pipelines.get(schedule).num_chunks or 2
    zero, micro_batch = draw(st.integers(0, 3)), draw(st.sampled_from([1, 2]))
    layout = Layout(
        tp=tp, pp=pp, cp=cp, dp=dp, micro_batch=micro_batch, zero=zero, schedule=schedule,
        vpp=chunks if pp > 1 else 1, ep=draw(st.sampled_from([1, 2, 8])), etp=draw(st.sampled_from([0, 1, 2])),
        recompute=draw(st.sampled_from(["none", "selective", "full"])),
        sequence_parallel=tp > 1 and draw(st.booleans()),
        offload=draw(st.sampled_from(["none", "optimizer", "parameters"])) if zero else "none",
        shard=draw(st.sampled_from([0, 2])), order=draw(st.sampled_from(ORDERS)),
    )  # fmt: skip
    train = "full" if known.name == "resnet50" else draw(st.sampled_from(TRAINED))
    recipe = recipe_by(
        seq=1 if known.name == "resnet50" else draw(st.sampled_from([1024, 8192])), batch=dp * micro_batch * many * pp,
        overlap_dp=draw(st.booleans()), overlap_pp=draw(st.booleans()), launch_blocking=draw(st.booleans()),
        overlap_tp=draw(st.sampled_from(TP_OVERLAPS[: 4 if layout.sequence_parallel else 3])),
        overlap_ep=draw(st.sampled_from(["none", "cells", "shared", "passes"])),
        exchange=draw(st.sampled_from([None, "copy", "node"])),
        routing=draw(st.sampled_from(["balanced", "natural", "skew:0.7"])), flash_attention=draw(st.booleans()),
        jitter=draw(st.sampled_from([None, "lognormal:mean=1,cv=0.05"])),
        rank_jitter=draw(st.sampled_from([None, "normal:mean=1,cv=0.01"])),
        sharding=draw(st.sampled_from(SOFTWARE)), gradient_sync=draw(st.sampled_from((None, *SYNCS))),
        gather_limits=draw(st.sampled_from(["", "", "max_live_parameters=0,prefetch_bucket_size=0"])),
        reshard=draw(st.booleans()), cp_kind=draw(st.sampled_from(KINDS)),
        local_steps=draw(st.sampled_from([1, 1, 50])) if train == "full" else 1,
        offload_layers=draw(st.sampled_from([0, 0, 1, 3, "all"])),
        vocab_parallel=draw(st.sampled_from(["none", "none", "interlaced", "vocab-1", "vocab-2"])),
        overlap_device_frac=draw(st.sampled_from([None, 0.0, 0.2])),
        recompute_modules=draw(st.sampled_from([("core_attn",), ("layernorm", "mlp")])),
        train=train,
    )  # fmt: skip
    job = Job(known, recipe, hardware.num_devices)
    if pp > 1 and draw(st.booleans()):
        layout = replace(layout, **draw(placed(job, layout.pp * layout.vpp)))
    if any(rule.flag == "--sharding" for rule in broken_by(layout, job)):
        job = replace(job, recipe=recipe.having(sharding="any"))
    if any(rule.flag == "--local-steps" for rule in broken_by(layout, job)):
        job = replace(job, recipe=job.recipe.having(local_steps=1))
    if any(rule.flag == "--offload-layers" for rule in broken_by(layout, job)):
        job = replace(job, recipe=job.recipe.having(offload_layers=0))
    if any(rule.flag == "--vocab-parallel" for rule in broken_by(layout, job)):
        job = replace(job, recipe=job.recipe.having(vocab_parallel="none"))
    if any(rule.flag == "--train" for rule in broken_by(layout, job)):
        job = replace(job, recipe=job.recipe.having(train="full"))
    even = {"stages": (), "mtp_stage": None}
    kept = ({}, {"etp": 0}, {"ep": 1}, {"offload": "none"}, {"shard": 0}, even, {"schedule": "1f1b", "vpp": 1})
    for change in kept:
        layout = replace(layout, **change)
        if not broken_by(layout, job):
            return job, hardware, layout
    reject()


def simulated(question: Question, by_layer: bool = False) -> Timeline:
    return step_timeline(*question, by_layer)


def replayed_s(question: Question) -> float:
    """The same passes, each as long as it is priced, by the pipeline's own program; and what comes once per step."""
    job, hardware, layout = question
    parts, schedule = compose(job, hardware, layout.grid()), pipelines.get(layout.schedule)
    asked = layout.pp, int(parts.microbatches), layout.vpp
    cells = schedule.cells(*asked) if schedule.cells else None
    order = schedule.order_for(*asked, parts.times())
    built = pipelines.program_of(schedule, order, layout.vpp, parts.times(), cells=cells)
    late_s = price_step(job, hardware, layout.grid()).waiting_s
    once_s = parts.waits.once_s + parts.around.host.once_s + parts.update_s + parts.fixed_s + late_s
    return simulate(built).makespan_s + float(np.asarray(once_s))


@settings(max_examples=drawn(150))
@given(questions())
def test_a_simulated_step_takes_the_price_of_its_passes(question: Question) -> None:
    found_s = simulated(question).makespan_s
    if not question[2].stages:
        assert found_s == pytest.approx(replayed_s(question), rel=1e-9)
    if question[2].schedule in EXACT or question[2].stages:
        job, hardware, layout = question
        assert found_s == pytest.approx(float(price_step(job, hardware, layout.grid()).step_time_s), rel=1e-9)


@settings(max_examples=drawn(100))
@given(questions())
def test_parts_of_the_step_can_be_read_from_the_timeline(question: Question) -> None:
    job, hardware, layout = question
    timeline, priced = simulated(question), price_step(job, hardware, layout.grid()).breakdown_s()
    read = breakdown_s(timeline, busiest(compose(job, hardware, layout.grid()), layout.placement))
    assert sum(read.values()) == pytest.approx(timeline.makespan_s, rel=1e-9)
    idle = () if layout.schedule in EXACT else ("bubble",)
    for part in PARTS:
        if part not in idle:
            assert read[part] == pytest.approx(priced[part], abs=1e-9 * timeline.makespan_s), part


@settings(max_examples=drawn(60))
@given(questions())
def test_the_memory_of_the_timeline_peaks_at_the_memory_answer(question: Question) -> None:
    job, hardware, layout = question
    peak_B = simulated(question).peak_memory_B().max()
    assert peak_B == pytest.approx(float(memory(job, hardware, layout.grid()).total_B), rel=1e-9)


LORA = "lora:r=16,targets=all-linear"
PEAKS: tuple[tuple[str, dict[str, object]], ...] = (
    ("orders searched for passes whose weights are frozen", {"schedule": "zb-2p", "micro_batch": 1, "train": LORA}),
    ("copies that stay beside chunks placed by hand", {"stages": "16,16", "sharding": "fsdp2", "train": LORA}),
    ("the same of all weights", {"stages": "16,16", "sharding": "fsdp2", "schedule": "eager-1f1b"}),
)


@pytest.mark.parametrize("words", [words for _, words in PEAKS], ids=[name for name, _ in PEAKS])
def test_the_timeline_peaks_at_the_memory_answer_with_adapters_and_placed_layers(words: dict[str, object]) -> None:
    asked: dict[str, object] = {"batch": 64, "seq": 2048, "pp": 2, "zero": 2, **words}
    found = lockstep.estimate("llama3-8b", "dgx-h100:1", **asked)  # type: ignore[arg-type]
    assert found.timeline().peak_memory_B().max() == pytest.approx(float(found.memory.total_B), rel=1e-9)


@settings(max_examples=drawn(40))
@given(questions())
def test_a_layerwise_timeline_takes_as_long(question: Question) -> None:
    assert simulated(question, by_layer=True).makespan_s == pytest.approx(simulated(question).makespan_s, rel=1e-9)


@settings(max_examples=drawn(60))
@given(questions())
def test_a_timeline_of_messages_takes_as_long_and_has_the_same_parts(question: Question) -> None:
    """Collectives are opened up to a few thousand operations; a step with none is refused."""
    job, hardware, layout = question
    with patch("lockstep.simulate.parallel.messages.MOST_OPERATIONS", 5_000):
        try:
            opened = step_timeline(*question, by_layer=True, opened=("tp", "cp", "ep", "dp"))
        except BadInput:
            return
    whole, stage = simulated(question, by_layer=True), busiest(compose(job, hardware, layout.grid()), layout.placement)
    assert opened.makespan_s == pytest.approx(whole.makespan_s, rel=1e-9)
    assert opened.peak_memory_B()[: layout.pp].tolist() == whole.peak_memory_B().tolist()
    read, expected = breakdown_s(opened, stage), breakdown_s(whole, stage)
    for part in PARTS:
        assert read[part] == pytest.approx(expected[part], abs=1e-9 * whole.makespan_s), part


@settings(max_examples=drawn(60))
@given(questions())
def test_hidden_time_is_traffic_minus_exposed_time(question: Question) -> None:
    """Without overlap the same traffic is all exposed."""
    job, hardware, layout = question
    none = {"overlap_dp": False, "overlap_tp": "none", "overlap_ep": "none"}
    bare = price_step(replace(job, recipe=job.recipe.having(**none)), hardware, layout.grid()).breakdown_s()
    exposed, found = price_step(job, hardware, layout.grid()).breakdown_s(), hiding(*question)
    assert all(one.hidden_s >= 0 and one.slack_s >= 0 for one in found.values())
    for part in ("tp_comm", "ep_comm"):
        hidden_s = found[part].hidden_s if part in found else 0.0
        if layout.placement is pipelines.Placement.LOOPED:
            assert exposed[part] + hidden_s == pytest.approx(bare[part], rel=1e-9, abs=1e-12)


@settings(max_examples=drawn(30))
@given(questions(), st.data())
def test_hidden_time_of_a_grid_equals_that_of_each_layout(question: Question, data: st.DataObject) -> None:
    """Layouts of one grid that differ in all that passes depend on."""
    job, hardware, layout = question
    axes = {"recompute": RECOMPUTE, "zero": range(4), "offload": ("none", "optimizer"), "micro_batch": (1, 2)}
    drawn_axes = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in axes.items()})
    others = [replace(layout, **some) for some in data.draw(st.lists(drawn_axes, min_size=1, max_size=4))]
    layouts = [layout, *(one for one in others if not broken_by(one, job))]
    for together, one in zip(hidings(job, hardware, layouts), layouts, strict=True):
        alone = hiding(job, hardware, one)
        assert list(together) == list(alone)
        for part, found in alone.items():
            assert together[part].hidden_s == pytest.approx(found.hidden_s, rel=1e-12, abs=1e-15), part
            assert together[part].slack_s == pytest.approx(found.slack_s, rel=1e-12, abs=1e-15), part


def test_every_part_in_the_verdict_has_spans(tmp_path: Path) -> None:
    """The trace of a tensor-parallel step shows its collectives, with bytes, and the memory of every device."""
    found = lockstep.estimate(
        "llama3-70b", "dgx-h100:8", batch=128, tp=8, pp=4, zero=1, sequence_parallel=True
    )  # fmt: skip
    timeline, path = found.timeline(), tmp_path / "step.json"
    write_trace(timeline, path)
    events = json.loads(path.read_text("utf-8"))["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    moved = {event["name"] for event in spans if event["args"].get("size_B")}
    for part, group in (("tp_comm", "tp "), ("dp_comm", "dp ")):
        assert found.step.breakdown_s()[part] > 0
        assert any(name.startswith(group) for name in moved)
    peak_B = max(sum(event["args"].values()) for event in events if event["ph"] == "C")
    assert peak_B == pytest.approx(float(found.memory.total_B), rel=1e-9)
    again = read_trace(path)
    assert again.makespan_s == timeline.makespan_s
    assert again.peak_memory_B().tolist() == timeline.peak_memory_B().tolist()
