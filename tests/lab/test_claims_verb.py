"""`claims`: the list, one id with the evidence of its experiment, exit codes, and evidence that does not come out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import lockstep
from cli_runner import run
from lockstep.lab import ALWAYS, Check, Findings
from lockstep.lab.claims import Claim, claims
from lockstep.verbs.claims import Claims, Decided
from lockstep.views.claims import render
from lockstep.views.parts.terminal import console

TRUE, FALSE = Claim(("X.1",), "so it is", True, "here", "it"), Claim(("X.2", "F0"), "so it is not", False, "here", "it")
RIGHT, WRONG = Check("it", 1.0, 1.0, holds=ALWAYS), Check("it", 1.0, 2.0, holds=ALWAYS)


def test_the_list_has_every_claim_and_runs_nothing() -> None:
    found = run("claims", "--json").json()
    assert found["asked"] is None
    assert [one["statement"] for one in found["claims"]] == [one.statement for one in claims()]
    assert {one["verdict"] for one in found["claims"]} == {"holds", "false"}
    assert all(one["evidence"] is None and one["id"] == one["ids"][0] for one in found["claims"])
    assert run("claims").out.startswith(f"{sum(one.holds for one in claims())} of {len(claims())} claims hold")


def test_an_id_is_decided_by_its_experiment_and_a_false_claim_is_a_no() -> None:
    true, false = run("claims", "A.1", "--json"), run("claims", "F86", "--json")
    assert (true.code, false.code) == (0, 1)
    (claim,) = false.json()["claims"]
    assert (claim["verdict"], claim["experiment"]) == ("false", "gradient-variance")
    assert claim["evidence"]
    for one in claim["evidence"]:
        assert one["ok"]
        assert one["false_law"]
        assert one["expected"] != one["got"]
    shown = run("claims", "F86").out
    assert claim["statement"] in " ".join(shown.split())
    assert lockstep.claims("F86").to_dict() == false.json()


def test_unknown_ids_are_bad_input() -> None:
    assert run("claims", "A.99").refusal().startswith("ID: unknown claim 'A.99'; did you mean A.9")


@pytest.mark.parametrize(
    ("claim", "evidence", "verdict", "of_id", "of_all"),
    [
        (TRUE, (RIGHT,), "holds", True, True),
        (TRUE, (RIGHT, WRONG), "undecided", False, False),
        (TRUE, (), "undecided", False, False),
        (FALSE, (Check("it", 1.0, 2.0, false_law=True, holds=ALWAYS),), "false", False, True),
        (FALSE, (Check("it", 1.0, 1.0, false_law=True, holds=ALWAYS),), "undecided", False, False),
    ],
)
def test_verdicts_are_those_of_the_evidence(
    claim: Claim, evidence: tuple[Check, ...], verdict: str, of_id: bool, of_all: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    decided = Decided(claim, evidence)
    assert decided.verdict == verdict
    assert Claims((decided,), claim.ids[0]).ok == of_id
    assert Claims((decided,), "all").ok == of_all
    render(Claims((decided,), "all"), console())
    assert ("undecided: so it is" in capsys.readouterr().out) == (verdict == "undecided")


@pytest.mark.parametrize(("decided", "more"), [(6, ""), (8, "2 more with --json")])
def test_of_many_claims_with_one_id_the_first_are_shown(
    decided: int, more: str, capsys: pytest.CaptureFixture[str]
) -> None:
    render(Claims((Decided(TRUE, (RIGHT,)),) * decided, "X.1"), console())
    shown = capsys.readouterr().out
    assert ("more with --json" in shown) == bool(more)
    assert more in shown


@pytest.mark.parametrize(("seed", "used"), [(None, 0), (0, 0), (3, 3)])
def test_experiments_run_with_the_seed_that_is_given_or_with_0(
    seed: int | None, used: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []

    def answer(settings: dict[str, object], seed: int) -> Findings:
        seeds.append(seed)
        return Findings((RIGHT,))

    monkeypatch.setattr("lockstep.lab.find_experiment", lambda name: SimpleNamespace(answer=answer))
    lockstep.claims("A.5", seed=seed)
    assert set(seeds) == {used}
