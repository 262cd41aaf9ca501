"""Hints of refusals: they name the fault once, what is allowed, and nothing that would not help."""

import pytest

from cli_runner import LLAMA, run
from lockstep.base.errors import BadInput
from lockstep.base.units import parse_count
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe, broken_by
from lockstep.simulate.play import parse_law

LINK = ("--latency", "1us", "--bandwidth", "1GB/s")


def test_ranks_that_do_not_divide_the_heads_are_named_once() -> None:
    message = run("estimate", *LLAMA, "--tp", "6").refusal()
    assert message == "--tp: tp=6 does not divide 32 attention heads; try 4 or 8"


@pytest.mark.parametrize("name", ["llama3-8b", "llama3-70b", "falcon-40b", "qwen2.5-7b", "gpt2", "gemma3-1b"])
@pytest.mark.parametrize("tp", [3, 5, 6, 7, 9, 12, 24, 48])
def test_suggested_numbers_of_ranks_divide_the_heads(name: str, tp: int) -> None:
    job = Job(model(name), Recipe(seq=1024, batch=tp * 8), tp)
    broken = [rule for rule in broken_by(Layout(tp=tp), job) if "heads" in rule.key]
    assert len(broken) <= 1
    for rule in broken:
        tried = [int(word) for word in rule.teach(Layout(tp=tp), job).rpartition("try ")[2].split(" or ")]
        for other in tried:
            again = Job(job.model, job.recipe, other)
            assert not [one for one in broken_by(Layout(tp=other), again) if "heads" in one.key]


@pytest.mark.parametrize(
    ("offload", "said", "never"),
    [
        ("none", "or --offload optimizer", "--offload parameters"),
        ("optimizer", "or --offload parameters", "--offload optimizer"),
        ("parameters", "does not fit on 8 x h100-sxm", "--offload"),
    ],
)
def test_active_options_are_not_suggested(offload: str, said: str, never: str) -> None:
    found = run("plan", "llama3-405b", "-c", "dgx-h100", "--batch", "8", "--offload", offload)
    assert found.code == 1
    hint, _, changes = found.err.partition("What would help")
    assert said in hint
    assert never not in hint
    assert "More devices" in changes
    assert f"--offload {offload} " not in changes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("rig", "all-reduce", "--ranks", "4,8"), "--ranks: takes one number such as 8, 4M or 95%, not a list"),
        (("tensor", "--ranks", "2", "--hidden-size", "64"), "--hidden-size: no such flag; use --hidden"),
        (("tensor", "--num-attention-heads", "64"), "--num-attention-heads: no such flag; use --heads"),
        (("tensor", "--ffn-hidden-size", "64"), "--ffn-hidden-size: no such flag; use --ffn"),
        (("tensor", "--tp-size", "8"), "--tp-size: no such flag; use --ranks"),
        (("tensor-parallel", "8"), "tensor is about one layer, estimate --tp about a model"),
        (
            ("pipeline", "--schedule", "all", "--stages", "4", "--microbatches", ",8,16,32"),
            "--microbatches: a value is missing before, after or between commas in ',8,16,32'",
        ),
        (
            ("balance", "--speeds", "1,,2", "--batch", "4"),
            "--speeds: a value is missing before, after or between commas",
        ),
        (
            ("checkpoint", "--size", "3GB", "--mtbf", "3h"),
            "--storage-bandwidth: give the rate of a write: this, --rank-bandwidth or both",
        ),
        (
            ("experts", "--experts", "8", "--tokens", "99", "--ranks", "8", "--skew", "-1", *LINK),
            "--skew: must not be negative, got -1",
        ),
        (("stragglers", "--workers", "4", "--law", "lognormal:mean=1ms,cv=-1"), "--law: cv: must not be negative"),
        (("stragglers", "--workers", "4", "--law", "pareto:shape=2"), "pareto:shape=...,minimum=..."),
        (("stragglers", "--workers", "4", "--law", "pareto:shape=2,men=1s"), "pareto:shape=...,minimum=..."),
    ],
)
def test_refusals_name_the_invalid_value(words: tuple[str, ...], said: str) -> None:
    assert said in run(*words).refusal()


def test_plain_numbers_have_no_unit() -> None:
    from lockstep.base.units import list_parts, parse_number

    assert parse_number("0.5") == parse_number(0.5) == 0.5
    for text in ("4M", "1 s", "-1", "nan", "50%", "1,5"):
        with pytest.raises(BadInput):
            parse_number(text)
    with pytest.raises(BadInput, match="takes one count, such as 2048, 4M or 15T, not a list; got '1,000'"):
        parse_count("1,000")
    with pytest.raises(BadInput, match="a value is missing"):
        list_parts("1, ,2")
    assert list_parts(" 1, 2 ") == ["1", "2"]


@pytest.mark.parametrize("law", ["normal", "lognormal", "pareto", "uniform", "exponential", "constant"])
def test_a_law_without_parameters_lists_every_syntax(law: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_law(f"{law}:")
    for example in str(caught.value).rpartition("write ")[2].split(" or "):
        assert parse_law(example.replace("high=...", "high=3").replace("shape=...", "shape=2").replace("...", "1"))
