"""A package whose offer cannot be used is named with its error, and everything else goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from installing import EXAMPLE, Ask, commands, install, install_example, path_with

from cli_runner import run

BROKEN = {
    "lockstep.devices": {
        "gone": "a_module_that_is_not_there:CARD",
        "h100-sxm": "lockstep_example.hardware:CARD",
        "another-card": "lockstep_example.hardware:CARD",
        "wire": "lockstep_example.hardware:LINK",
        "example-card": "lockstep_example.hardware:CARD",
    },
    "lockstep.collectives": {"all-redoce.star": "odd_collective:STAR"},
    "lockstep.schedules": {"gone": "lockstep_example.last_first:NOTHING"},
}
ODD = """
from lockstep_example.half_tree import HALF_TREE
from dataclasses import replace
STAR = replace(HALF_TREE, op="all-redoce", name="star")
"""
OF = "of the package broken-package"
WHY = {
    "gone": (
        f"the device 'gone' {OF} cannot be imported: ModuleNotFoundError: No module named 'a_module_that_is_not_there'"
    ),
    "another-card": f"the device 'another-card' {OF} calls itself 'example-card'; its entry point must have that name",
    "wire": f"the device 'wire' {OF} must be a Device, got Link",
    "example-card": (
        "the device 'example-card' of the packages broken-package and lockstep-example is ambiguous; "
        "uninstall all of them but one"
    ),
}


@pytest.fixture(scope="module")
def visible(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment with the example package and a broken one."""
    folder = tmp_path_factory.mktemp("installed")
    install_example(folder)
    install(folder, "broken-package", BROKEN)
    (folder / "odd_collective.py").write_text(ODD, "utf-8")
    return path_with(folder, EXAMPLE)


@pytest.fixture(scope="module")
def ask(visible: dict[str, str]) -> Iterator[Ask]:
    with commands(visible) as found:
        yield found


@pytest.mark.parametrize("name", WHY)
def test_a_broken_plugin_name_is_refused_with_the_reason(ask: Ask, name: str) -> None:
    refused = ask("estimate", "gpt2", "-c", f"{name}:1", "--batch", "8").refusal()
    assert refused.endswith(WHY[name])


def test_lists_contain_working_plugins_and_one_line_for_each_broken_one(ask: Ask) -> None:
    found = ask("catalog", "devices", "--json")
    assert found.out == run("catalog", "devices", "--json").out
    own = "the package broken-package offers the device 'h100-sxm', which Lockstep has itself"
    assert sorted(found.err.splitlines()) == sorted(f"warning: {why}; left out" for why in (own, *WHY.values()))


def test_a_broken_plugin_does_not_affect_other_kinds_and_names(ask: Ask) -> None:
    device = ("estimate", "gpt2", "-c", "h100-sxm:1", "--batch", "8", "--json")
    assert ask(*device) == run(*device)
    link = ("--latency", "5us", "--bandwidth", "10GB/s", "--json")
    listed = ask("collective", "all-reduce", "--ranks", "4", "--size", "1MB", *link)
    assert "half-tree" in listed.out
    assert listed.err == (
        f"warning: the algorithm 'all-redoce.star' {OF} cannot be imported: "
        "UnknownName: unknown collective 'all-redoce'; did you mean all-reduce?; left out\n"
    )
    refused = ask("pipeline", "--stages", "2", "--microbatches", "4", "--schedule", "gone").refusal()
    assert f"the pipeline schedule 'gone' {OF} cannot be imported: AttributeError" in refused
