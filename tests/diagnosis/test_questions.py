"""Six public questions, answered as their threads answered them."""

import tomllib
from pathlib import Path

import pytest

import lockstep

QUESTIONS = tomllib.loads((Path(__file__).parent / "questions.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", QUESTIONS)
def test_public_questions_get_the_answer_of_their_thread(name, tmp_path):
    """Verdict, reading, mismatch and candidates are those of the thread."""
    asked = QUESTIONS[name]
    files = []
    if "file" in asked:
        files = [tmp_path / "run.yaml"]
        files[0].write_text(asked["file"], encoding="utf-8")
    found = lockstep.diagnose(files, **asked["words"])
    judged = found.judged
    assert judged.verdict == asked["verdict"]
    assert (judged.adopted.name if judged.adopted else None) == asked.get("adopted")
    if "reading" in asked:
        (contradiction,) = judged.contradictions
        assert contradiction.readings[0].name == asked["reading"]
        assert contradiction.true == pytest.approx(asked["true_mfu"], rel=0.03)
    else:
        assert judged.contradictions == ()
    assert [asked["mismatch"] in one for one in found.mismatches] == [True] * ("mismatch" in asked)
    assert [one.name for one in judged.candidates[:2]] == asked.get("candidates", [])[:2] or "mismatch" in asked
    if "expected_by" in asked:
        assert judged.expected.candidates[0].name == asked["expected_by"]
        assert judged.expected.candidates[0].value == pytest.approx(420.5e12, rel=0.07)
    if "possible_by" in asked:
        assert judged.readings[0].name == asked["possible_by"]


def test_a_sparse_peak_is_named():
    """The peak itself is recognised, without any prediction."""
    found = lockstep.diagnose(**QUESTIONS["megatron-1565"]["words"])
    assert any("2:4 sparsity" in one for one in found.judged.remarks)
