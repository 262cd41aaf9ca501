"""torchtitan's command line, one option per line: `grep -v '^#' flags.txt | xargs torchrun -m torchtitan.train ...`.

Releases from 0.3 on read no TOML: `--module llama3 --config llama3_8b` name a configuration in Python, with the model,
and options replace its values. Both are written for a model that torchtitan trains in bf16 (`torchtitan_models.toml`),
and left out for another: it stops where they are missing. Degrees are those of `torchtitan.py`; otherwise than before

    tp          with --parallelism.no-enable_sequence_parallel sequences are whole
    cp          keys and values are gathered; there is no other way
    ep          takes its ranks from dp_shard, cp and tp; an expert is never cut
    recompute   activation-checkpoint:full or :none, last, as a subcommand
    graphs      --training.disable_cuda_graphs: without it a step is captured, and stages and experts are refused

Source: torchtitan/config/configs.py and manager.py, trainer.py (Config), distributed/parallel_dims.py (_validate and
the mesh `efsdp`), distributed/context_parallel/api.py and distributed/activation_checkpoint.py of torchtitan 0.3.0
(September 2026).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

from lockstep.decide.planner.export.refusals import Placed, Refusals
from lockstep.decide.planner.export.torchtitan import CHOICES as OLDER
from lockstep.decide.planner.export.torchtitan import parallelism, refuse_common, shard_degree, training
from lockstep.decide.planner.export.torchtitan_models import flavor_of

CHOICES: dict[str, tuple[object, ...]] = OLDER
"""Axes of the planner's space that it can run; other limits join several of them."""
GONE = ("context_parallel_rotate_method", "expert_tensor_parallel_degree", "enable_async_tensor_parallel")
LEFT = (
    "left to you: the tokenizer, the data, the number of steps and the learning rate, which the configuration has "
    "(--hf_assets_path, --dataloader.*, --training.steps, --lr_scheduler.*)"
)
CHUNKED = "the configuration computes the loss in chunks, the plan at once ({0}): --cross-entropy chunked"
UNNAMED = (
    "left to you: --module and --config, which torchtitan needs: it has no configuration that trains {} in bf16; one "
    "with that model and AdamW"
)


def torchtitan_cli(found: Placed) -> str:
    """The options. Raises Infeasible with every reason."""
    _refuse(found)
    layout, recipe = found.layout, found.job.recipe
    named = flavor_of(found.job.model)
    config = named.config if named else None
    values: dict[str, object] = {"module": named.model, "config": config} if named and config else {}
    values |= {f"training.{name}": value for name, value in training(found).items()}
    values["training.disable_cuda_graphs"] = True
    values |= {f"parallelism.{name}": value for name, value in parallelism(found).items() if name not in GONE}
    if layout.tp > 1 and not layout.sequence_parallel:
        values["parallelism.enable_sequence_parallel"] = False
    values["compile.enable"] = recipe.fused_elementwise
    if recipe.fused_elementwise:
        values["compile.components"] = "model,loss"
    values["compile.enable_async_tensor_parallel"] = recipe.overlap_tp == "async" and layout.tp > 1
    said = [LEFT] if config else [UNNAMED.format(found.job.model.name), LEFT]
    if config and recipe.loss_kind != "chunked":
        said.append(CHUNKED.format(recipe.loss_kind))
    lines = [*(f"# {sentence}" for sentence in said), *(_line(name, value) for name, value in values.items())]
    return "\n".join([*lines, f"activation-checkpoint:{layout.recompute}"]) + "\n"


def _line(name: str, value: object) -> str:
    """One option; a switch has no value, and `no-` before its name where it is off."""
    if isinstance(value, bool):
        section, key = name.split(".")
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
