"""The verbs as functions: the same answers as the command line, from names, objects and quantities."""

import json
import subprocess
import sys
from math import gcd
from pathlib import Path
from typing import Any

import pytest
from test_cli_contract import COMMANDS

import lockstep
from cli_runner import run, shell
from lockstep import hardware, workload
from lockstep.base.errors import BadInput
from lockstep.base.types.plain import plain
from lockstep.price.layout import Layout
from lockstep.show.verbs import VERBS
from lockstep.show.verbs.words.question import read_question
from lockstep.show.views.parts.output import finite

EXAMPLES = Path(__file__).parents[2] / "examples"
WORDS: dict[str, Any] = {"batch": 64}
QUESTION = ("llama3-8b", "dgx-h100:2")
CALLS = {
    "plan": lambda: lockstep.plan(*QUESTION, tokens="1T", **WORDS),
    "estimate": lambda: lockstep.estimate(
        *QUESTION, tp=2, zero=1, sequence_parallel=True, recompute="selective", **WORDS
    ),
    "memory": lambda: lockstep.memory(*QUESTION, tp=2, pp=2, zero=1, **WORDS),
    "roofline": lambda: lockstep.roofline(*QUESTION, tp=2, zero=1, **WORDS),
    "sensitivity": lambda: lockstep.sensitivity("gpt2", "dgx-h100", batch=64),
    "catalog": lambda: lockstep.catalog(),
    "support": lambda: lockstep.support(),
    "validate": lambda: lockstep.validate("korthikanti_2022"),
    "export": lambda: lockstep.export(*QUESTION, to="megatron", tp=2, zero=1, **WORDS),
    "cite": lambda: lockstep.cite(*QUESTION, tp=2, zero=1, **WORDS),
}


@pytest.mark.parametrize("verb", CALLS)
def test_python_and_the_command_line_agree(verb: str) -> None:
    from_python = json.loads(json.dumps(finite(plain(CALLS[verb]().to_dict()))))
    from_shell = run(*COMMANDS[verb], "--json").json()
    assert from_python == from_shell


def test_objects_are_accepted_in_place_of_names() -> None:
    by_name = lockstep.estimate(*QUESTION, tp=2, zero=1, micro_batch=1, batch="64")
    model, cluster = workload.model("llama3-8b"), hardware.cluster("dgx-h100:2")
    by_object = lockstep.estimate(model, cluster, Layout(tp=2, dp=8, zero=1), batch=64)
    assert by_name.to_dict() == by_object.to_dict()
    assert (
        lockstep.export(by_object, to="megatron").text
        == lockstep.export(*QUESTION, to="megatron", tp=2, zero=1, micro_batch=1, batch=64).text
    )
    with pytest.raises(BadInput, match="not both"):
        lockstep.estimate(model, cluster, Layout(tp=2, dp=8), tp=2, batch=64)


def test_path_objects_are_accepted_in_place_of_text() -> None:
    model, machine = EXAMPLES / "my-model.yaml", EXAMPLES / "my-cluster.yaml"
    found = lockstep.estimate(model, machine, batch=256, tp=2, zero=1)
    assert found.to_dict() == lockstep.estimate(str(model), str(machine), batch=256, tp=2, zero=1).to_dict()


def test_a_plan_can_be_cited_and_exported() -> None:
    plan = lockstep.plan(*QUESTION, **WORDS)
    assert lockstep.cite(plan).citations == lockstep.cite(plan.best).citations
    assert lockstep.export(plan, to="megatron").text == lockstep.export(*QUESTION, to="megatron", **WORDS).text


def test_a_verb_is_a_plain_function_before_and_after_its_modules_are_loaded() -> None:
    script = """
import inspect, lockstep
from lockstep.show.verbs import VERBS
before = {verb: inspect.signature(getattr(lockstep, verb)) for verb in VERBS}
documented = [verb for verb in VERBS if getattr(lockstep, verb).__doc__]
lockstep.plan("gpt2", "dgx-h100", batch=64), lockstep.messages(4, 100), lockstep.guide("gpt2", "dgx-h100", batch=64)
assert all(inspect.isfunction(getattr(lockstep, verb)) for verb in VERBS)
assert before == {verb: inspect.signature(getattr(lockstep, verb)) for verb in VERBS}
assert documented == list(VERBS)
assert not [name for name in dir(lockstep) if name.startswith("_") and name != "__version__"]
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_no_package_has_the_name_of_a_verb() -> None:
    rooms = {path.stem for path in Path(lockstep.__file__).parent.iterdir()}
    assert not rooms & set(VERBS)


def test_unknown_attributes_are_refused() -> None:
    with pytest.raises(AttributeError, match="attribute plam"):
        lockstep.plam  # type: ignore[attr-defined]  # noqa: B018
    assert set(VERBS) <= set(dir(lockstep))


@pytest.mark.parametrize(
    ("tokens", "devices", "sequences"),
    [
        (4_000_000, 512, 512),
        (4_194_304, 512, 512),
        (2_000_000, 64, 256),
        (16_384, 512, 2),
        (100_000, 8, 12),
        (8_192 * 7, 8, 7),
        (10_000, 8, 1),
        (8_192 * 509, 512, 512),
        (128_000_000, 16_384, 16_384),
        (4_000_000, 504, 504),
    ],
)
def test_a_batch_of_tokens_becomes_whole_sequences(tokens: int, devices: int, sequences: int) -> None:
    found = read_question("llama3-8b", "dgx-h100", gpus=devices, batch_tokens=tokens)
    assert found.recipe.batch == sequences
    said = any("can share out" in note for note in found.recipe.notes)
    assert said == (tokens != sequences * 8192)


def test_a_rounded_batch_is_near_the_request_and_divides_evenly() -> None:
    """No divisor of the devices that is larger has a multiple as near."""
    from lockstep.show.verbs.words.question import even_batch

    for devices in (1, 6, 8, 24, 61 * 8, 63 * 8, 4096):
        for wanted in (1.0, 3.4, 17.9, 250.0, 488.28, 1999.0):
            found = even_batch(wanted, devices)
            assert found >= 1
            assert abs(found - wanted) <= max(0.5, wanted / 16)
            larger = (unit for unit in range(gcd(found, devices) + 1, devices + 1) if devices % unit == 0)
            assert all(abs(max(1, round(wanted / unit)) * unit - wanted) > wanted / 16 for unit in larger)


def test_long_models_are_trained_on_usual_sequences() -> None:
    layout = ("--ep", "8", "--zero", "3", "--micro-batch", "1")
    answer = run("estimate", "deepseek-v2-lite", "-c", "dgx-h100:8", "--batch", "64", *layout, "--json").json()
    assert "sequences of 8,192 tokens" in answer["assumptions"][0]
    assert "163,840" in answer["assumptions"][0]


@pytest.mark.parametrize("verb", ["plan", "estimate", "sensitivity", "cite"])
def test_output_does_not_depend_on_the_hash_seed(verb: str) -> None:
    """Elapsed time goes to stderr."""
    here, there = run(*COMMANDS[verb], "--json"), shell(*COMMANDS[verb], "--json", env={"PYTHONHASHSEED": "31415"})
    assert here.out == there.out
    assert here.code == there.code == 0


@pytest.mark.parametrize("words", ["catalog models", "plan --help"])
def test_a_closed_pipe_is_not_an_error(words: str) -> None:
    import subprocess
    import sys

    lockstep_command = f"{sys.executable} -c 'from lockstep.show.cli import main; main()'"
    command = f"set -o pipefail; {lockstep_command} {words} | head -1"
    made = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert made.returncode == 0
    assert made.stderr == ""
