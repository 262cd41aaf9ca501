"""torchtitan's command line, one option per line: `grep -v '^#' flags.txt | xargs torchrun -m torchtitan.train ...`.

Releases from 0.3 on read no TOML: `--module llama3 --config llama3_8b` name a configuration in Python, with the model,
and options replace its values. Degrees are those of `torchtitan.py`; otherwise than before

    tp          with --parallelism.no-enable_sequence_parallel sequences are whole
    cp          keys and values are gathered; there is no other way
    ep          takes its ranks from dp_shard, cp and tp; an expert is never cut
    recompute   activation-checkpoint:full or :none, last, as a subcommand

Source: torchtitan/config/configs.py, distributed/parallel_dims.py (_validate and the mesh `efsdp`),
distributed/context_parallel/api.py and distributed/activation_checkpoint.py of torchtitan 0.3.0 (September 2026).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

from lockstep.planner.export.refusals import Placed, Refusals
from lockstep.planner.export.torchtitan import CHOICES as OLDER
from lockstep.planner.export.torchtitan import parallelism, refuse_common, shard_degree, training

CHOICES: dict[str, tuple[object, ...]] = OLDER
"""Axes of the planner's space that it can run; other limits join several of them."""
GONE = ("context_parallel_rotate_method", "expert_tensor_parallel_degree", "enable_async_tensor_parallel")
LEFT = "left to you: --module and --config, which name the model and its optimizer (AdamW), and the data"


def torchtitan_cli(found: Placed) -> str:
    """The options. Raises Infeasible with every reason."""
    _refuse(found)
    layout, recipe = found.layout, found.job.recipe
    values = {f"training.{name}": value for name, value in training(found).items()}
    values |= {f"parallelism.{name}": value for name, value in parallelism(found).items() if name not in GONE}
    if layout.tp > 1 and not layout.sequence_parallel:
        values["parallelism.enable_sequence_parallel"] = False
    if recipe.overlap_tp == "async" and layout.tp > 1:
        values |= {"compile.enable": True, "compile.enable_async_tensor_parallel": True}
    lines = [_line(name, value) for name, value in values.items()]
    return "\n".join([f"# {LEFT}", *lines, f"activation-checkpoint:{layout.recompute}"]) + "\n"


def _line(name: str, value: object) -> str:
    """One option; a switch has no value, and `no-` before its name where it is off."""
    section, key = name.split(".")
    if isinstance(value, bool):
        return f"--{section}.{'' if value else 'no-'}{key}"
    return f"--{name} {shlex.quote(value if isinstance(value, str) else json.dumps(value))}"


def _refuse(found: Placed) -> None:
    """Raises Infeasible for all that the command line cannot say."""
    layout, job, no = found.layout, found.job, Refusals("torchtitan")
    refuse_common(found, no)
    for why in _of_ranks(found):
        no.when(True, why)
    no.when(
        layout.cp > 1 and job.recipe.cp_kind != "gather", f"context parallelism by {job.recipe.cp_kind}; use gather"
    )
    no.when(bool(layout.stages), "stages placed by hand: the list of module names has no form on its command line")
    no.when(job.recipe.optimizer != "adamw", f"optimizer {job.recipe.optimizer}: it is chosen in the configuration")
    no.settle()


def _of_ranks(found: Placed) -> Iterator[str]:
    layout, job = found.layout, found.job
    if not job.num_experts:
        return
    if layout.ep == 1 and layout.expert_tp != layout.tp:
        yield f"etp={layout.etp} needs ep above 1"
    if layout.ep > 1 and layout.expert_tp != 1:
        yield f"etp={layout.expert_tp}: expert parallelism takes the ranks of tp, and cuts no expert; use --etp 1"
    if layout.ep > 1 and shard_degree(found) * layout.cp * layout.tp % layout.ep != 0:
        yield f"ep={layout.ep} must divide the ranks that share a copy, times tp"
