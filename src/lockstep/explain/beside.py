"""`beside`: a measured step and the predicted one: parts, the replay, causes of the gap, measured rates."""

from __future__ import annotations

from dataclasses import replace

from lockstep.decide.planner.estimate import Estimate
from lockstep.explain.answer import REPLAYED_FRAC, Beside, Part, Rates
from lockstep.explain.bubble import split_bubble
from lockstep.explain.causes import Facts, causes
from lockstep.explain.evidence import evidence, with_predicted
from lockstep.explain.factors import factors, predicted_seen
from lockstep.explain.gap import Share, attribute
from lockstep.explain.late_host import lateness
from lockstep.explain.layer_operations import layer_operations
from lockstep.explain.measure import collectives, mean_parts, stragglers
from lockstep.explain.ranks import AllRanks, all_ranks
from lockstep.explain.refit import Refit, refit
from lockstep.explain.replay import Factors, Replay, as_predicted, same
from lockstep.explain.same_run import is_another, of_another, products_times, which_model
from lockstep.explain.seen import Seen

PART_OF = {
    "matmul": "compute.matmul", "attention": "compute.attention", "elementwise": "compute.stream",
    "optimizer": "optimizer", "host": "idle.host", "stages": "bubble.imbalance",
}  # fmt: skip
LATE = "other_comm.waiting"
REPLAYED_WELL_FRAC = 0.05


def beside(estimate: Estimate, seen: Seen) -> Beside:
    """The comparison. Raises BadInput for ranks that the layout does not have."""
    ranks = [0 if trace.rank is None else trace.rank for trace in seen.traces]
    one = all_ranks(estimate, ranks)
    predicted = predicted_seen(one, as_predicted(one))
    found = factors(one, seen, predicted)
    replay = Replay(one, found)
    shares = attribute(replay.step_s, found.names)
    late_s = max(0.0, estimate.step_time_s - replay.step_s(()))
    slow = stragglers(seen)
    facts = Facts(estimate, seen, found, shares, slow, late_s)
    replayed_s = replay.step_s(found.names)
    measured_s = facts.measured_s
    notes = list(seen.not_known)
    off_frac, times = replayed_s / measured_s - 1.0, products_times(seen, estimate)
    elsewhere = abs(off_frac) > REPLAYED_FRAC or is_another(times)
    if times is not None and is_another(times):
        notes.append(of_another(times, estimate))
    elif elsewhere:
        notes.append(
            f"the replay of the measured operations differs from the step by {off_frac:+.0%}, so no cause is named: "
            "check that model, batch, length and layout are those of the run"
        )
    elif abs(off_frac) > REPLAYED_WELL_FRAC:
        notes.append(
            f"the replay of the measured operations differs from the step by {off_frac:+.1%}: "
            "take the parts with as much doubt"
        )
    if len(seen.traces) > 1 and len(seen.traces) < estimate.layout.world:
        notes.append(f"{len(seen.traces)} of {estimate.layout.world} ranks were seen; the slowest may be another one")
    if max(one.stages) and not any(len(set(each)) > 1 for each in _by_stage(one.stages, one.ranks, ranks).values()):
        notes.append("with one rank per stage, a slow rank and a long stage cannot be told apart")
    moved, moves = collectives(seen), collectives(predicted)
    if not elsewhere and (note := which_model(moved, moves, estimate.job.model.name)):
        notes.append(note)
    told = () if elsewhere else causes(facts)
    again = replace(refit(estimate, found), late=lateness(one, seen, predicted, found))
    both, moved = _parts_of(seen, predicted, one, found), with_predicted(moved, moves)
    both[1][LATE] = both[1].get(LATE, 0.0) + late_s
    shown = evidence(seen, moved, slow)
    rows = tuple(replace(row, evidence=shown.get(row.part, "")) for row in parts(seen, both, shares, estimate))
    return Beside(
        replayed_s, rows, told, rates(found, again), tuple(notes),
        predicted_s=estimate.step_time_s, measured_s=measured_s,
        as_predicted=facts.inside and not told and not elsewhere, refit=again, collectives=moved,
        products_times=times, of_another_run=elsewhere,
        layer_operations=() if elsewhere else layer_operations(estimate, seen),
    )  # fmt: skip


def _by_stage(stages: tuple[int, ...], ranks: tuple[int, ...], seen: list[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for stage, rank in zip(stages, ranks, strict=True):
        if rank in seen:
            found.setdefault(stage, []).append(rank)
    return found


def _parts_of(seen: Seen, predicted: Seen, one: AllRanks, found: Factors) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds by part of the measured step, and of the predicted one on the ranks that were measured."""
    ranks = {trace.rank for trace in seen.traces}
    chosen = [
        of
        for trace, of in zip(predicted.traces, predicted.parts(), strict=True)
        if trace.rank in ranks or None in ranks
    ]
    mine = mean_parts([of for each in seen.parts() for of in each])
    theirs = mean_parts([of for each in chosen for of in each])
    for name in {one.split(".")[0] for one in mine if "." not in one and one.endswith("_comm")}:
        # Of one rank, waiting and transfer are one number: the prediction's too.
        theirs[name] = theirs.pop(f"{name}.transfer", 0.0) + theirs.pop(f"{name}.waiting", 0.0)
    alike = same(one.program.ranks, max(one.stages) + 1)
    return split_bubble(mine, one, found), split_bubble(theirs, one, alike)


def parts(
    seen: Seen, both: tuple[dict[str, float], dict[str, float]], shares: tuple[Share, ...], estimate: Estimate
) -> tuple[Part, ...]:
    """Parts of both steps; of each, what its factor adds to the gap."""
    mine, theirs = both
    gap_s = float(seen.step_s.mean()) - estimate.step_time_s
    of_part: dict[str, Share] = {}
    for share in shares:
        name = _part_of(share.factor, mine)
        if name and (before := of_part.get(name)):
            share = Share(name, *(a + b for a, b in zip(_numbers(before), _numbers(share), strict=True)))
        if name:
            of_part[name] = share
    rows = []
    for name in sorted(set(mine) | set(theirs), key=lambda one: -max(mine.get(one, 0.0), theirs.get(one, 0.0))):
        row = Part(name, mine.get(name, 0.0), theirs.get(name, 0.0))
        if (of := of_part.get(name)) is not None:
            row = replace(
                row, gap_share_frac=of.seconds / gap_s if gap_s else None, first_s=of.first_s, last_s=of.last_s
            )
        rows.append(row)
    return tuple(rows)


def _numbers(share: Share) -> tuple[float, float, float]:
    return share.seconds, share.first_s, share.last_s


def _part_of(factor: str, mine: dict[str, float]) -> str:
    """The part of the step that a factor shows in."""
    if factor.endswith(" link"):
        kind = f"{factor.split()[0]}_comm"
        return kind if kind in mine else f"{kind}.transfer"
    if factor in ("ranks", "experts"):
        waiting = [name for name in mine if name.endswith(".waiting") and not name.startswith("pp")]
        return max(waiting, key=lambda name: mine[name], default="")
    if factor == "overlap":
        return "dp_comm" if "dp_comm" in mine else "dp_comm.transfer"
    return PART_OF.get(factor, "")


def rates(found: Factors, again: Refit) -> Rates:
    """How fast kernels and links were, relative to what the cluster's file says."""
    attention, matmul = found.classes.get("attention"), found.classes.get("matmul")
    return Rates(
        matmul_scale=1.0 / matmul if matmul else None,
        attention_scale=1.0 / attention if attention else None,
        links={level: again.reached_Bps[level] for level in again.links},
    )
