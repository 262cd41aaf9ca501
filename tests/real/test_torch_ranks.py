"""Real ranks over gloo run drawn exchanges: torch.profiler, execution traces and the flight recorder look on.

`diagnose` says which exchanges there were, with how many bytes, who was slow, and who did not come.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import drawn_exchanges
import pytest
from agreement import Asker
from drawn_exchanges import WORLD, Program, Waiting, hanging, profiled, programs, sizes

import lockstep
from effort import share
from lockstep.explain.read import find
from lockstep.explain.read.flight_recorder import hangs
from lockstep.run.launch import launch

SOFTWARE = "torch"
SCATTERED = "gloo adds everything up and keeps a part of it, and its record says all-reduce"

UNKNOWN = "gloo does not list the ranks of a group, so that one that never called it is not known to be missing"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Program]]:
    """Where profiles of programs lie, as NUMBER.RANK.json and with execution traces as NUMBER.RANK.et.json."""
    folder, chosen = tmp_path_factory.mktemp("ranks"), share(programs(55), 9)
    launch(profiled, WORLD, (str(folder), chosen), timeout_s=900)
    return folder, chosen


def said(folder: Path, one: Program, shapes: bool) -> lockstep.Diagnosis:
    """What `diagnose` says of a program."""
    ends = (".json", ".et.json") if shapes else (".json",)
    return lockstep.diagnose([folder / f"{one.number}.{rank}{end}" for rank in range(WORLD) for end in ends])


@pytest.mark.parametrize("shapes", [False, True], ids=["profiles", "with execution traces"])
def test_exchanges_have_their_bytes(shapes: bool, ran: tuple[Path, list[Program]], asked: Asker) -> None:
    folder, chosen = ran
    with asked(SOFTWARE, "exchanges of a step over gloo, and their bytes") as answers:
        for one in chosen:
            found = said(folder, one, shapes).to_dict()["collectives"]
            ours = {(row["op"], row["size_B"]): round(WORLD * row["count"], 6) for row in found}
            wanted = Counter(sizes(one, shapes))
            answers.compare(
                f"{one} {shapes}", dict(sorted(ours.items(), key=str)), dict(sorted(wanted.items(), key=str))
            )


def test_reduce_scatter_over_gloo_is_what_gloo_does(ran: tuple[Path, list[Program]], asked: Asker) -> None:
    folder, chosen = ran
    with asked(SOFTWARE, "reduce-scatter over gloo") as answers:
        for one in chosen:
            if any(each.op == "reduce_scatter_tensor" for each in one.exchanges):
                ours = {row["op"] for row in said(folder, one, False).to_dict()["collectives"]}
                answers.compare(f"{one}", "reduce-scatter" in ours, True, why=SCATTERED)


def test_the_rank_that_sleeps_is_named(ran: tuple[Path, list[Program]], asked: Asker) -> None:
    folder, chosen = ran
    with asked(SOFTWARE, "which rank is slow") as answers:
        for one in chosen:
            if one.sleeps is not None and held_up(one):
                found = said(folder, one, False).to_dict()["stragglers"]
                answers.compare(f"{one}", found[0]["rank"] if found else None, one.sleeps)


def held_up(one: Program) -> bool:
    """Whether the others wait for the rank that sleeps: for all of them in a call of all."""
    return any(not each.pair and each.op in ("all_reduce", "barrier", "all_to_all_single") for each in one.exchanges)


def test_missing_ranks_are_named(asked: Asker, tmp_path: Path) -> None:
    """By dumps of all ranks, as pickle and as JSON; collectives of other groups are through."""
    chosen: list[Waiting] = share(drawn_exchanges.hangs(60), 6)
    launch(hanging, WORLD, (str(tmp_path), chosen), timeout_s=900, environment={"TORCH_FR_BUFFER_SIZE": "2000"})
    with asked(SOFTWARE, "collectives that ranks do not come to, by the flight recorder") as answers:
        for one in chosen:
            waiting = tuple(rank for rank in one.members if rank not in one.missing)
            wanted = [(one.op, ((one.elements,),), one.through + 1, one.missing, waiting)]
            for name in ("pickle", "json"):
                found = hangs([known.read() for known in find([tmp_path / f"{one.number}.{name}"])])
                ours = [(each.op, each.sizes, each.number, each.missing, each.waiting) for each in found]
                unknown = UNKNOWN if one.number and not one.through else ""
                answers.compare(f"{one} {name}", ours, wanted, why=unknown)
                assert name == "json" or drawn_exchanges.__file__ in found[0].frame
