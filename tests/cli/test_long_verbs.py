"""Verbs that take long refuse a picture that cannot be written before they begin."""

from functools import wraps
from importlib import import_module

import pytest

from cli_runner import run

LONG = {
    "train": ("synchronous", "--steps", "1000000"),
    "bench": ("all-reduce", "--repeats", "1000000"),
    "execute": ("all-reduce", "--algorithm", "ring", "--ranks", "2", "--size", "1GB"),
    "campaign": ("llama3-70b", "--cluster", "dgx-h100:64", "--batch-tokens", "4M", "--tokens", "15T"),
    "scaling": ("llama3-70b", "--cluster", "dgx-h100:64", "--batch-tokens", "4M", "--tokens", "15T"),
    "converge": ("delay-stability",),
    "collective": ("all-to-all", "--ranks", "1024", "--size", "1GB", "--cluster", "dgx-h100:128"),
    "checkpoint": ("--mtbf", "6h", "--write", "1s", "--simulate", "--campaigns", "100000", "--work", "10y"),
    "case": (),
    "rig": (),
}


@pytest.mark.parametrize("verb", LONG)
def test_an_invalid_plot_path_is_refused_before_anything_runs(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module(f"lockstep.show.verbs.{verb}")
    monkeypatch.setattr(module, verb, wraps(getattr(module, verb))(lambda *_, **__: pytest.fail("began")))
    message = run(verb, *LONG[verb], "--plot", "no/such/folder/x.png").refusal()
    assert message == "--plot: the folder 'no/such/folder' does not exist"
