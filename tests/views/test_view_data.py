"""The data of the interactive views: nothing of a timeline or a search is lost or changed on the way to a browser."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

import lockstep
from lockstep.base.types.plain import Json
from lockstep.base.units import SIZE_STEPS, TIME_STEPS, format_size, format_time
from lockstep.decide.planner.candidates import WORLD
from lockstep.decide.planner.points import FITS, REFUSED, points
from lockstep.decide.planner.result import Plan
from lockstep.show.verbs.words.question import read_layout
from lockstep.show.views.page import inline
from lockstep.show.views.page.columns import packed, unpacked
from lockstep.show.views.page.shown import as_shown
from lockstep.show.views.page.space import MOST_B, space_form, space_messages
from lockstep.show.views.page.timeline import MOST_IN_FILE, MOST_RANKS, timeline_form
from lockstep.simulate.program import Kind, ProgramBuilder, Timeline
from lockstep.simulate.program.timeline import COMPUTES

PLANS: dict[str, dict[str, Any]] = {
    "dense": {"model": "llama3-8b", "cluster": "dgx-h100:2", "batch": 64},
    "experts": {"model": "mixtral-8x7b", "cluster": "dgx-h100:4", "batch": 64},
    "pinned": {"model": "llama3-8b", "cluster": "dgx-h100:2", "batch": 64, "tp": 2, "pp": 4},
}


@pytest.fixture(scope="module", params=PLANS)
def plan(request: pytest.FixtureRequest) -> Plan:
    return lockstep.plan(**PLANS[request.param])


@pytest.mark.parametrize(
    "values",
    [
        np.array([]), np.array([0.0]), np.linspace(-1, 1, 999), np.repeat([1.5, -2.25], 400), np.arange(300),
        np.array([0, 70_000]), np.zeros(5, dtype=np.int64), np.arange(255), np.array([0, 255]), np.array([256]),
    ],
)  # fmt: skip
def test_encoded_columns_round_trip(values: np.ndarray) -> None:
    read = unpacked(json.loads(json.dumps(packed(values))))
    assert read.tolist() == values.tolist()


@pytest.mark.parametrize(("steps", "write"), [(TIME_STEPS, format_time), (SIZE_STEPS, format_size)])
@pytest.mark.parametrize("digits", [3, 4])
def test_rounded_numbers_display_identically(steps: Any, write: Any, digits: int) -> None:
    values = np.exp(np.random.default_rng(digits).uniform(np.log(2e-9), np.log(1e15), 2000))
    values = np.concatenate((values, [1.0, 59.99, 119.94, 119.95, 1023.4, 1024.0, 1e-3, 86400.0, 172800.0]))
    shown = as_shown(values, steps, digits)
    assert [write(one, digits) for one in shown] == [write(one, digits) for one in values]


def test_the_points_are_those_of_the_search(plan: Plan) -> None:
    found = list(points(plan.job, plan.cluster, plan.findings.space))
    seconds = np.concatenate([one.step_time_s for one in found])
    memory_B = np.concatenate([one.memory_B for one in found])
    fits = np.concatenate([one.why == 0 for one in found])
    assert len(seconds) == plan.findings.evaluated
    assert np.count_nonzero(fits) == plan.findings.feasible
    assert seconds[fits].min() == plan.findings.best[0].step_time_s
    # The front by its definition: no layout that fits is as good in both and better in one.
    front = {(one.step_time_s, one.memory_B) for one in plan.findings.front}
    pairs = sorted(set(zip(seconds[fits].tolist(), memory_B[fits].tolist(), strict=True)))
    least, expected = np.inf, set()
    for second, size in pairs:
        if size < least:
            expected.add((second, size))
            least = size
    assert front == expected
    some = found[len(found) // 2]
    for place in range(0, len(some), max(1, len(some) // 7)):
        alone = lockstep.estimate(plan.job.model, plan.cluster, some.layouts()[place], batch=plan.job.recipe.batch)
        assert alone.step_time_s == pytest.approx(some.step_time_s[place], rel=1e-9)
        assert float(alone.memory.total_B) == pytest.approx(some.memory_B[place], rel=1e-12)
        assert bool(alone.memory.fits) == (some.why[place] == 0)


def named(form: Json, chunk: Json) -> list[str]:
    """Layouts of a chunk as space.js puts their texts together."""
    columns = [unpacked(one) for one in chunk["columns"]]
    texts = [[some[i] for i in column] for some, column in zip(chunk["texts"], columns, strict=True)]
    return [" ".join(filter(None, parts)) for parts in zip(*texts, strict=True)]


def test_encoded_layouts_have_the_names_of_the_library(plan: Plan) -> None:
    form = json.loads(json.dumps(space_form(plan), allow_nan=False))
    for chunk, some in zip(form["chunks"], points(plan.job, plan.cluster, plan.findings.space), strict=True):
        layouts = some.layouts()
        assert named(form, chunk) == [str(one) for one in layouts]
        shown = unpacked(chunk["step_time_s"])
        assert [format_time(one, 4) for one in shown] == [format_time(one, 4) for one in some.step_time_s]
        assert [format_size(one, 4) for one in unpacked(chunk["memory_B"])] == [
            format_size(one, 4) for one in some.memory_B
        ]
        for place in range(0, len(some), max(1, len(some) // 5)):
            words = [one[unpacked(column)[place]] for one, column in zip(chunk["words"], chunk["columns"], strict=True)]
            said = {key: value for one in words for key, value in one.items()}
            layout = layouts[place]
            assert said.items() <= layout.to_dict().items()
            assert read_layout(plan.job, said, plan.cluster) == layout
    rejected = {one["why"]: one["count"] for one in form["found"]["rejected"]}
    assert WORLD not in rejected
    assert form["found"]["best"]["layout"] == str(plan.best.layout)
    streamed = list(space_messages(plan.job, plan.cluster, plan.findings.space))
    assert streamed == [
        *({"chunk": one} for one in space_form(plan)["chunks"]),
        {"counts": {"left_out": 0, "run": None}},
    ]


def test_a_large_space_keeps_the_best_layouts_and_counts_the_others(plan: Plan) -> None:
    """Of both forms: what fits before what does not, the fastest of either, as one by one."""
    every = [
        (some.why[place] > 0, some.step_time_s[place], str(layout))
        for some in points(plan.job, plan.cluster, plan.findings.space)
        for place, layout in enumerate(some.layouts())
    ]
    most = len(every) // 3
    wanted = sorted(every, key=lambda one: one[:2])[:most]
    assert not wanted[0][0]
    form = space_form(plan, most)
    names = {name for chunk in form["chunks"] for name in named(form, chunk)}
    slowest = wanted[-1][:2]
    assert sum(chunk["points"] for chunk in form["chunks"]) == most
    assert {name for *score, name in every if tuple(score) < slowest} <= names
    assert form["found"]["left_out"] == len(every) - most
    before, after = list[Json](), list[Json]()
    for message in space_messages(plan.job, plan.cluster, plan.findings.space, most=most):
        if "again" in message:
            before, after = after, []
        after.append(message)
    assert sum(one["chunk"]["points"] for one in before if "chunk" in one) <= most
    assert before[-1]["counted"] == len(every)
    assert [one["chunk"] for one in after if "chunk" in one] == form["chunks"]
    assert after[-1] == {"counts": {"left_out": len(every) - most, "run": None}}


@pytest.mark.parametrize("name", ["torchtitan", "megatron", "deepspeed", "hf"])
def test_unsupported_layouts_are_marked_and_excluded_from_the_front(name: str) -> None:
    """The plan asks the exporter about what it would choose; here every layout is asked."""
    plan = lockstep.plan("llama3-8b", "dgx-h100:2", batch=64, software=name, objective="time")
    software = plan.software
    assert software is not None
    run, refused = [], 0
    for some in points(plan.job, plan.cluster, plan.findings.space, software.refuses(plan.job)):
        for place, layout in enumerate(some.layouts()):
            error = software.why_not(plan.job, layout) if some.why[place] in (FITS, *range(REFUSED, 99)) else None
            assert (some.why[place] >= REFUSED) == (error is not None)
            if error is not None:
                reasons = some.refusals[some.why[place] - REFUSED]
                assert reasons == "; ".join(one.why for one in error.violations)
                refused += 1
            elif some.why[place] == FITS:
                run.append((float(some.step_time_s[place]), float(some.memory_B[place])))
    assert min(run)[0] == pytest.approx(plan.best.step_time_s, rel=1e-12)
    front = [one for one in run if not any(a <= one[0] and b <= one[1] and (a, b) != one for a, b in run)]
    assert {round(time_s, 9) for time_s, _ in front} == {round(one.step_time_s, 9) for one in plan.findings.front}
    form = space_form(plan)
    assert form["found"]["run"] == len(run)
    assert len(run) + refused == plan.findings.feasible
    assert form["head"]["software"] == name


def exposed(form: Json, name: str) -> np.ndarray:
    return np.asarray(unpacked(form["exposed"][name]))


@pytest.mark.parametrize("words", [{}, {"pp": 4}, {"pp": 2, "tp": 8}, {"zero": 3, "recompute": "full"}])
def test_the_exposed_pieces_add_up(words: Json) -> None:
    timeline = lockstep.estimate("llama3-8b", "dgx-h100:2", batch=64, **words).timeline(True)
    (form,) = timeline_form(timeline)["timelines"]
    spans = {name: unpacked(column) for name, column in form["spans"].items()}
    program, lasts = timeline.program, timeline.end_s > timeline.start_s
    assert len(spans["lane"]) == np.count_nonzero(lasts)
    assert spans["duration_s"].sum() == pytest.approx((timeline.end_s - timeline.start_s).sum())
    assert (np.diff(spans["lane"].astype(int)) >= 0).all()
    pieces = {name: exposed(form, name) for name in form["exposed"]}
    assert np.bincount(spans["lane"], spans["exposed_s"], len(form["lanes"])).tolist() == pytest.approx(
        np.bincount(pieces["lane"].astype(int), pieces["duration_s"], len(form["lanes"])).tolist()
    )
    for rank in form["ranks"]:
        mine = np.array(
            [form["lanes"][lane]["rank"] == rank["rank"] for lane in pieces["lane"].astype(int)], dtype=bool
        )
        covered, reached = 0.0, 0.0
        for start, length in sorted(zip(pieces["start_s"][mine], pieces["duration_s"][mine], strict=True)):
            covered += max(0.0, start + length - max(start, reached))
            reached = max(reached, start + length)
        assert covered == pytest.approx(float(timeline.exposed_s[rank["rank"]]), abs=1e-9 * timeline.makespan_s)
        assert unpacked(rank["used_B"]).max() == pytest.approx(timeline.peak_memory_B()[rank["rank"]], rel=1e-12)
    # Hidden is what a computation of the same rank covers: on a span of its own, the whole or nothing.
    alone = spans["exposed_s"] > spans["duration_s"] * (1 + 1e-9)
    assert not alone.any()
    moves = ~np.isin(program.kind[lasts], COMPUTES)
    assert np.count_nonzero(spans["exposed_s"]) <= np.count_nonzero(moves)


def test_a_timeline_of_many_ranks_states_what_is_omitted() -> None:
    ranks = MOST_RANKS + 3
    builder = ProgramBuilder(ranks, ("compute",))
    builder.extend(Kind.COMPUTE, np.arange(ranks), duration_s=1.0, label="F0")
    (form,) = timeline_form(Timeline(builder.build(), np.zeros(ranks), np.ones(ranks)))["timelines"]
    assert len(form["ranks"]) == MOST_RANKS
    assert form["left_out"] == 3


def test_embedded_data_cannot_close_its_script_element() -> None:
    hostile = "</script><script>alert(1)</script><!--<script>\u2028\u2029&amp;"
    text = inline.block("space", {"name": hostile})
    inside = re.fullmatch(r'<div id="space-view" hidden></div><script [^>]*>(.*)</script>', text)
    assert inside is not None
    assert not set("<>&\u2028\u2029") & set(inside[1])
    assert json.loads(inside[1]) == {"name": hostile}


def test_the_bundled_script_contains_every_module_once() -> None:
    whole = inline.script()
    assert not re.search(r"^(import|export) ", whole, re.MULTILINE)
    for name in ("column", "formatter", "Viewport", "Cloud", "paintRows", "space", "timeline", "make"):
        assert len(re.findall(rf"^(?:async )?(?:function|class) {name}\b", whole, re.MULTILINE)) == 1, name
    assert "</script" not in whole


@pytest.mark.parametrize(("most", "ranks"), [(0, 1), (3, 1), (4, 2), (5, 2), (100, 4)])
def test_a_file_limits_the_number_of_operations(most: int, ranks: int) -> None:
    builder = ProgramBuilder(4, ("compute",))
    builder.extend(Kind.COMPUTE, np.repeat(np.arange(4), 2), duration_s=1.0, label="F0")
    timeline = Timeline(builder.build(), np.tile([0.0, 1.0], 4), np.tile([1.0, 2.0], 4))
    form = timeline_form(timeline, most=most)["timelines"][0]
    assert len(form["ranks"]) == ranks
    assert form["left_out"] == 4 - ranks


def test_a_long_rank_keeps_its_earliest_operations() -> None:
    """Each with its exposed seconds, as in the whole: what is left out still hides what it covers."""
    builder = ProgramBuilder(1, ("compute", "dp"))
    for _ in range(50):
        builder.compute(0, 1.0, label="F0")
        builder.collective([0], "all-reduce", 1e6, duration_s=1.5, stream="dp")
    start_s = np.repeat(np.arange(50) * 2.0, 2)
    timeline = Timeline(builder.build(), start_s, start_s + np.tile([1.0, 1.5], 50))
    whole, part = (timeline_form(timeline, most=most)["timelines"][0] for most in (None, 40))
    assert (whole["left_out_spans"], part["left_out_spans"]) == (0, 60)
    for form in (whole, part):
        spans = {name: unpacked(column) for name, column in form["spans"].items()}
        early = spans["start_s"] < 40.0
        assert np.count_nonzero(early) == 40
        assert spans["exposed_s"][early & (spans["lane"] == 1)].tolist() == pytest.approx([0.5] * 20)
    assert len(unpacked(part["spans"]["lane"])) == 40
    assert exposed(part, "duration_s").sum() == pytest.approx(0.5 * 20)


def test_the_parts_of_a_file_stay_within_its_size() -> None:
    """Of the operations that compress worst, a step and a space, or a step and its measurement, leave 150 kB."""
    count, rng = 40_000, np.random.default_rng(0)
    builder = ProgramBuilder(1, ("compute", "dp"))
    for _ in range(count // 2):
        builder.compute(0, 1.0, label="F0")
        builder.collective([0], "all-reduce", float(rng.integers(1, 10**9)), duration_s=1.0, stream="dp")
    start_s = np.cumsum(rng.lognormal(size=count))
    timeline = Timeline(builder.build(), start_s, start_s + rng.lognormal(size=count))
    step_B = len(json.dumps(timeline_form(timeline, most=MOST_IN_FILE)))
    assert max(step_B + MOST_B, len(json.dumps(timeline_form(timeline, timeline, most=MOST_IN_FILE)))) < (
        850_000 - len(inline.script())
    )


@pytest.mark.parametrize("share", [0.7, 0.2, 0.02])
def test_a_file_limits_the_bytes_of_layouts(plan: Plan, share: float) -> None:
    """First a digit is left out, then the layouts that one would choose last."""
    whole = space_form(plan)
    fixed_B = len(json.dumps(space_form(plan, most=1)["chunks"]))
    most_B = fixed_B + int(share * (len(json.dumps(whole["chunks"])) - fixed_B))
    form = space_form(plan, most_B=most_B)
    assert len(json.dumps(form["chunks"])) <= most_B
    assert form["head"]["digits"] == whole["head"]["digits"] - 1
    count = sum(chunk["points"] for chunk in form["chunks"])
    assert count + form["found"]["left_out"] == plan.findings.evaluated
    if count < plan.findings.evaluated:
        best = space_form(plan, count)
        assert [named(form, one) for one in form["chunks"]] == [named(best, one) for one in best["chunks"]]
