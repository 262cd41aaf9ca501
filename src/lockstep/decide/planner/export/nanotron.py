"""nanotron's YAML, to merge into a configuration that has the model, its tokenizer and the data.

    dp tp pp            parallelism.dp, .tp, .pp; pp_engine 1f1b or afab (GPipe)
    sequence_parallel   tp_mode REDUCE_SCATTER, else ALL_REDUCE
    overlap_tp          tp_linear_async_communication: input gradients are reduced alongside the product of weights
    zero 1              optimizer.zero_stage; a higher stage would shard no more (helpers.py)
    recompute full      recompute_layer

Source: src/nanotron/config and, for asynchronous traffic, _ColumnLinearAsyncCommunication of huggingface/nanotron
(commits in `arguments/nanotron.toml`), helpers.py of its release 0.4.
"""

from __future__ import annotations

import json

from lockstep.base.types.plain import Json
from lockstep.decide.planner.export.refusals import Placed, Refusals, refuse_formats, refuse_model
from lockstep.decide.planner.space import ALL_RANKS
from lockstep.describe.workload import FULL, NONE
from lockstep.price.layout import AXES

ENGINES = {"1f1b": "1f1b", "gpipe": "afab"}
CHOICES: dict[str, tuple[object, ...]] = {
    "cp": (1,),
    "ep": (1,),
    "etp": (0,),
    "schedules": tuple(ENGINES),
    "recompute": (NONE, FULL),
    "sharding": ((0, ALL_RANKS), (1, ALL_RANKS)),
}
"""Axes of the planner's space that it can run; other limits join several of them."""
LEFT = (
    "left to you: general, model.model_config and init_method, tokenizer, data_stages, tokens.train_steps, and the "
    "other keys of optimizer with the learning rate; nanotron stops where one that it requires is missing"
)
SHARED_OUT = "nanotron shares out layers over stages by what they cost, which may differ from the plan's even split"


def nanotron(found: Placed) -> str:
    """The YAML text. Raises Infeasible with every reason."""
    _refuse(found)
    layout, recipe = found.layout, found.job.recipe
    sections: dict[str, Json] = {
        "parallelism": {
            "dp": layout.dp,
            "tp": layout.tp,
            "pp": layout.pp,
            "pp_engine": ENGINES[layout.schedule] if layout.pp > 1 else "1f1b",
            "tp_mode": "REDUCE_SCATTER" if layout.sequence_parallel else "ALL_REDUCE",
            "tp_linear_async_communication": recipe.overlap_tp == "gradients" and layout.tp > 1,
            "recompute_layer": layout.recompute == "full",
        },
        "tokens": {
            "sequence_length": recipe.seq,
            "micro_batch_size": layout.micro_batch,
            "batch_accumulation_per_replica": recipe.batch // (layout.dp * layout.micro_batch),
        },
        "optimizer": {
            "zero_stage": layout.zero,
            "accumulate_grad_in_fp32": recipe.gradient_B == 4.0,
            "optimizer_factory": {"name": "adamW"},
        },
        "model": {"dtype": "bfloat16"},
    }
    said = [LEFT, *([SHARED_OUT] if layout.pp > 1 else [])]
    body = [f"{name}:\n{_lines(values)}" for name, values in sections.items()]
    return "".join(f"# {sentence}\n" for sentence in said) + "".join(body)


def _lines(values: Json) -> str:
    return "".join(f"  {key}: {json.dumps(value)}\n" for key, value in values.items())


def _refuse(found: Placed) -> None:
    """Raises Infeasible for all that the configuration cannot say."""
    layout, recipe, no = found.layout, found.job.recipe, Refusals("nanotron")
    refuse_model(found.job, no)
    no.when(layout.cp > 1, f"cp={layout.cp}: how its ranks share attention is not known; none is exported")
    no.when(layout.ep > 1 or layout.etp > 0, "expert parallelism is not exported")
    no.when(layout.zero > 1, f"zero {layout.zero}: it shards optimizer state alone (1)")
    no.when(bool(layout.shard), f"shard={layout.shard}: states are sharded over all replicas")
    piped = layout.pp > 1
    no.when(piped and layout.schedule not in ENGINES, f"schedule {layout.schedule}: it has {', '.join(ENGINES)}")
    no.when(piped and layout.vpp > 1, f"vpp={layout.vpp}: a stage is one chunk")
    no.when(bool(layout.stages), f"stages {layout.split}: layers are shared out by what they cost, not by counts")
    no.when(layout.recompute == "selective", "recompute selective: it recomputes whole layers")
    no.when(layout.offload != "none" or bool(recipe.offload_layers), "states or activations in host memory")
    no.when(layout.order != AXES, f"rank order {'-'.join(layout.order)}: none can be given")
    no.when(recipe.dtype != "bf16", f"matrix products in {recipe.dtype}: export has bf16 only")
    no.when(recipe.optimizer != "adamw", f"optimizer {recipe.optimizer}: only adamw matches")
    no.when(recipe.gradient_B != recipe.wire_B, "gradients reduced in another format than they are accumulated in")
    no.when(recipe.gradient_B not in (2.0, 4.0), f"gradients of {recipe.gradient_B:g} bytes")
    refuse_formats(recipe, no)
    no.when(recipe.sharding != "any", f"--sharding {recipe.sharding}; export without")
    no.when(
        recipe.overlap_tp in ("all", "async") and layout.tp > 1, f"--overlap-tp {recipe.overlap_tp}: no key says it"
    )
    no.when(not recipe.overlap_dp, "data-parallel traffic that does not overlap: no key says it")
    no.when(piped and recipe.overlap_pp, "overlapped pipeline sends: no key says it")
    no.when(recipe.routing == "forced", "routing forced to balance: no key says it")
    no.when(not recipe.flash_attention, "attention that is not fused: no key says it")
    no.when(recipe.dropout, "dropout: its models have none")
    no.settle()
