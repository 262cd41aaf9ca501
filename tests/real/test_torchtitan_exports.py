"""torchtitan reads what Lockstep exports for it, and Lockstep what it says of the configurations that come with it.

Plans are drawn; torchtitan parses the options, and makes the mesh of ranks and a pipeline's schedule. Of each of its
own configurations, Lockstep reads the command that starts it, and torchtitan the function behind it.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import pkgutil
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import absent_triton  # noqa: F401
import pytest
import torchtitan.models
from agreement import Asker
from exports import drawn, fake_ranks, stages_of, words_of
from torchtitan.config.manager import ConfigManager
from torchtitan.distributed import ParallelDims
from torchtitan.distributed.pipeline_parallel import _build_pipeline_schedule

from lockstep.decide.planner.imports import read_run

NUMBER = 60
BESIDE = ["--module", "llama3", "--config", "llama3_8b"]
"""A model for exports that leave it to the user."""
UNREAD = "a configuration that Lockstep's reading says it does not describe"
DEVICES = 8


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def sizes(config: Any) -> dict[str, Any]:
    """What a configuration says of a layout."""
    axes, training = config.parallelism, config.training
    return {
        "tp": axes.tensor_parallel_degree, "pp": axes.pipeline_parallel_degree, "cp": axes.context_parallel_degree,
        "ep": axes.expert_parallel_degree, "micro": training.local_batch_size, "seq": training.seq_len,
    }  # fmt: skip


def read(text: str, layout: Any, layers: int) -> dict[str, Any]:
    """What torchtitan reads of an export: sizes and data-parallel ranks; a pipeline's schedule is made too."""
    words = words_of(text)
    config = ConfigManager().parse_args([*([] if "--module" in words else BESIDE), *words])
    mesh = ParallelDims.from_config(config.parallelism, layout.world)
    if layout.pp > 1:
        chunks = layers // (config.parallelism.pipeline_parallel_layers_per_stage * layout.pp)
        with fake_ranks(layout.pp):
            _build_pipeline_schedule(
                parallelism=config.parallelism, local_batch_size=config.training.local_batch_size,
                stages=stages_of(layout.pp, chunks), loss_fn=lambda *_: (None, None),
            )  # fmt: skip
    return sizes(config) | {"dp": mesh.dp_replicate * mesh.dp_shard, "batch": config.training.global_batch_size}


def test_exports_are_read_as_they_were_planned(asked: Asker) -> None:
    with asked("torchtitan", "exports of drawn plans, parsed and laid out as a mesh") as answers:
        for one in drawn("torchtitan-cli", NUMBER):
            layout, recipe = one.found.layout, one.found.job.recipe
            axes = {name: getattr(layout, name) for name in ("tp", "pp", "cp", "ep", "dp")}
            # A pipeline's micro-batches are parts of what torchtitan calls the local batch.
            local = recipe.batch // layout.dp if layout.pp > 1 else layout.micro_batch
            planned = axes | {"micro": local, "seq": recipe.seq, "batch": recipe.batch}
            answers.compare(f"{layout}", planned, read(one.text, layout, one.found.job.layers))


def shipped() -> Iterator[tuple[str, str]]:
    """Modules and names of the configurations that come with the release."""
    for module in pkgutil.iter_modules(torchtitan.models.__path__):
        with contextlib.suppress(ImportError):
            registry = importlib.import_module(f"torchtitan.models.{module.name}.config_registry")
            own = [one for one in vars(registry).values() if getattr(one, "__module__", "") == registry.__name__]
            yield from ((module.name, one.__name__) for one in own if not one.__name__.startswith(("_", "enable_")))


def test_configurations_that_come_with_it(asked: Asker, tmp_path: Path) -> None:
    with asked("torchtitan", "its own configurations: degrees, batch and sequence") as answers:
        for module, name in shipped():
            words = ["--module", module, "--config", name]
            path = tmp_path / "run.sh"
            path.write_text(f"torchrun --nproc_per_node={DEVICES} -m torchtitan.train {shlex.join(words)}\n", "utf-8")
            found = read_run(path)
            assert found is not None
            if [row for row in found.table if row.word == "config" and row.kind != "read"]:
                answers.compare(name, "unread", "read", why=UNREAD)
                continue
            given = {axis: found.layout.get(axis, 1) for axis in ("tp", "pp", "cp", "ep")}
            given |= {"micro": found.layout.get("micro_batch", 1), "seq": found.words.get("seq")}
            try:
                config = ConfigManager().parse_args(words)
            except Exception:  # Some ask what kind of GPU there is, whatever they raise.
                continue
            answers.compare(name, given, sizes(config))
