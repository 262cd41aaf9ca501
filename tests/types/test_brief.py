"""Records in a prompt: short, without defaults, and able to tell two apart."""

from dataclasses import dataclass, field, replace

import pytest

import lockstep
from lockstep.base.types.brief import LONGEST, Brief


@dataclass(frozen=True, repr=False)
class Record(Brief):
    name: str
    size: float = 1.0
    words: list[str] = field(default_factory=list)


def test_brief_omits_defaults() -> None:
    assert repr(Record("a")) == "Record(name='a')"
    assert repr(Record("a", 2.0, ["b"])) == "Record(name='a', size=2.0, words=['b'])"
    assert repr(Record("a", 1)) == "Record(name='a', size=1)", "equal, but another type"


@pytest.mark.parametrize("length", [10, 1000, 5000])
def test_brief_is_never_longer_than_the_limit(length: int) -> None:
    text = repr(Record("a" * length))
    assert len(text) <= LONGEST
    assert text.endswith("')" if length == 10 else " ...)")


def test_objects_inside_answers_are_brief_too() -> None:
    found = lockstep.estimate("llama3-8b", "dgx-h100:2", batch=64)
    compared = lockstep.compare(found, {"tp": 2})
    searched = lockstep.plan("gpt2", "dgx-h100", batch=64).findings
    for one in (
        found.job,
        found.job.model,
        found.job.recipe,
        found.cluster,
        found.cluster.device,
        compared.a,
        searched,
    ):
        assert 0 < len(repr(one)) <= LONGEST
    assert repr(found.job.model) != repr(replace(found.job.model, layers=31))
