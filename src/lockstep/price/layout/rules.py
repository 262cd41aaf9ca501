"""The rules that a layout must satisfy before anything is computed: divisibility, and what goes with what.

Each rule is one line of the table `RULES`: its key (as counted in `rejected`), the flag to mend, a test that broadcasts
over a grid and is true where the rule is broken, and a sentence for one broken layout: given, allowed, what to try.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import takewhile
from operator import mul

import numpy as np

from lockstep.base.types.arrays import Bools, Truth
from lockstep.describe.workload import FULL
from lockstep.price.layout.job import Job, splits_evenly
from lockstep.price.layout.layout import OFFLOAD_PARAMETERS, Layout, LayoutGrid
from lockstep.price.layout.model_rules import MODEL_RULES
from lockstep.price.layout.rule import Rule
from lockstep.price.layout.spreading import not_spread, two_stages, why_not_spread
from lockstep.simulate.parallel.pipeline import Placement, codes_where, get, valid


def divisors(number: int, limit: int | None = None) -> list[int]:
    """All divisors of `number` in ascending order, none above `limit`."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    found = sorted({*small, *(number // d for d in small)})
    return [d for d in found if limit is None or d <= limit]


def nearest(number: int, given: int) -> str:
    """Divisors of `number` beside `given`, for a message: `4 or 8`."""
    return _beside(divisors(number), given)


def _beside(found: Sequence[int], given: int) -> str:
    """Those of `found` (ascending) just below and just above `given`."""
    below = [d for d in found if d < given][-1:]
    above = [d for d in found if d > given][:1]
    return " or ".join(str(d) for d in [*below, *above])


def _world(layout: Layout, job: Job) -> str:
    return (
        f"dp*tp*pp*cp = {layout.dp}*{layout.tp}*{layout.pp}*{layout.cp} = {layout.world} ranks, but there are "
        f"{job.devices} devices; try dp={max(1, job.devices // (layout.tp * layout.pp * layout.cp))}"
    )


def _batch(layout: Layout, job: Job) -> str:
    unit = layout.dp * layout.micro_batch
    return (
        f"dp*micro_batch = {layout.dp}*{layout.micro_batch} = {unit} does not divide the batch of {job.recipe.batch} "
        f"sequences; try a batch of {max(1, round(job.recipe.batch / unit)) * unit}"
    )


def _heads(layout: Layout, job: Job) -> str:
    return f"tp={layout.tp} does not divide {job.heads} attention heads; try {_heads_split(layout, job)}"


def _heads_split(layout: Layout, job: Job) -> str:
    """Numbers of ranks beside tp that share out both kinds of heads."""
    shared = [d for d in divisors(job.heads) if job.kv_heads % d == 0 or d % job.kv_heads == 0]
    return _beside(shared, layout.tp)


def _key_value_heads(grid: LayoutGrid, job: Job) -> Truth:
    """Key and value heads must split evenly, or be replicated evenly when there are fewer than ranks."""
    heads = job.kv_heads
    broken: Bools = (heads % grid.tp != 0) & (grid.tp % heads != 0)
    return broken


def _misplaced(grid: LayoutGrid, job: Job) -> Truth:
    """Stages placed by hand hold all layers, and none holds nothing; two copies of the model share one placement."""
    split = grid.split
    if not split:
        return False
    modules = grid.mtp_stage % len(split) if job.transformer and job.transformer.mtp_layers else -1
    empty = any(count == 0 and at not in (0, len(split) - 1, modules) for at, count in enumerate(split))
    foreign = grid.mtp_stage >= 0 and (modules < 0 or any(split[modules + 1 :]))
    broken: Bools = (len(split) != grid.pp * grid.vpp) | two_stages(grid) | (sum(split) != job.layers) | empty | foreign
    return broken


def _placed(layout: Layout, job: Job) -> str:
    """What is wrong with layers placed by hand."""
    split, chunks, schedule = layout.stages, layout.pp * layout.vpp, get(layout.schedule)
    if schedule.copies > 1 or schedule.cells is not None:
        return f"schedule {layout.schedule} runs passes of two stages together and shares out layers evenly"
    if len(split) != chunks:
        return (
            f"{len(split)} stages are given for pp*vpp = {layout.pp}*{layout.vpp} = {chunks}; give one count for each"
        )
    if sum(split) != job.layers:
        return f"the stages hold {sum(split)} layers, the model has {job.layers}"
    if layout.mtp_stage is not None and not (job.transformer and job.transformer.mtp_layers):
        return f"{job.model.name} has no modules of multi-token prediction to place; leave --mtp-stage out"
    if layout.mtp_stage is not None and any(split[layout.mtp_stage + 1 :]):
        return "the modules of multi-token prediction follow the last layer; no stage behind them may have layers"
    return "only the first stage, the last and that of the prediction modules may have no layers"


def _stages(layout: Layout, job: Job) -> str:
    layers = job.layers
    if layout.vpp == 1:
        return (
            f"pp={layout.pp} stages need at least as many layers, the model has {layers}; try {nearest(layers, layers)}"
        )
    return (
        f"pp*vpp = {layout.pp}*{layout.vpp} = {layout.pp * layout.vpp} chunks do not divide {layers} layers evenly; "
        f"try pp*vpp = {nearest(layers, layout.pp * layout.vpp)}, or place them with --stages"
    )


def _stages_apart(grid: LayoutGrid, job: Job) -> Truth:
    """Both grids of ranks must have the same pipeline stages: as many ranks further in."""
    if not job.num_experts or grid.order[-1] == "pp":
        return np.False_
    dense, experts = (
        reduce(mul, (degree for _, degree in takewhile(lambda one: one[0] != "pp", grid.degrees(of_experts))), grid.pp)
        for of_experts in (False, True)
    )
    apart: Bools = (grid.pp > 1) & (dense != experts)
    return apart


def _schedule(layout: Layout, job: Job) -> str:
    microbatches = job.recipe.batch // (layout.dp * layout.micro_batch)
    return (
        f"schedule {layout.schedule} does not run with {layout.pp} stages, {microbatches} micro-batches and "
        f"{layout.vpp} chunks per stage; {_needs(layout.schedule)}"
    )


def _needs(schedule: str) -> str:
    """What a schedule needs, with its number of chunks as a flag."""
    found = get(schedule)
    chunks = "vpp >= 2" if found.num_chunks is None else f"vpp = {found.num_chunks}"
    return f"{schedule} needs {chunks}: {found.rule}"


def _no_groups(grid: LayoutGrid, job: Job) -> Truth:
    """Groups that train apart are shard groups, or single ranks that keep all states; experts have others."""
    if job.recipe.local_steps == 1:
        return np.zeros((), dtype=bool)
    alone: Bools = (grid.zero == 0) & (grid.cp == 1)
    apart: Bools = (grid.zero > 0) & (grid.shard > 0) & (grid.shard % grid.cp == 0)
    return ~(alone | apart) | (job.num_experts > 0)


def _groups(layout: Layout, job: Job) -> str:
    if job.num_experts:
        return "local steps of a model with experts are not priced; drop --local-steps"
    if layout.zero:
        return f"with zero={layout.zero} groups that train apart are shard groups of whole sequences; give --shard"
    return f"without --zero single ranks train apart, but cp={layout.cp} share a sequence; give --zero 1 and --shard"


def _unknown_sharding(grid: LayoutGrid, job: Job) -> Truth:
    """Sharding that the software named does not have."""
    software = job.recipe.sharding
    if software == "any":
        return np.zeros((), dtype=bool)
    if software == "fsdp2":
        return np.asarray(grid.zero == 1)
    broken: Bools = (grid.pp > 1) & (grid.zero >= 2)
    return broken | ((grid.zero > 0) & (grid.shard > 0)) if software == "deepspeed" else broken


def _sharding(layout: Layout, job: Job) -> str:
    software = job.recipe.sharding
    if software == "fsdp2":
        return "zero=1: FSDP2 shards gradients (--zero 2) or parameters too (3)"
    if layout.shard and layout.zero and software == "deepspeed":
        return f"shard={layout.shard}: DeepSpeed shards over all ranks; drop --shard"
    stages = "DeepSpeed's pipelines work with ZeRO 0 or 1" if software == "deepspeed" else "Megatron FSDP has no stages"
    return f"zero={layout.zero} with pp={layout.pp}: {stages}; use --zero 1 or --sharding fsdp2"


def _split_sequence(grid: LayoutGrid, job: Job) -> Truth:
    """Context parallelism gives each rank two slices (an early and a late one, to balance a causal mask)."""
    broken: Bools = (grid.cp > 1) & (job.recipe.passed_seq % (2 * grid.cp) != 0)
    return broken


def _split_heads(grid: LayoutGrid, job: Job) -> Truth:
    """By all-to-all each rank gets whole heads, of which those of keys and values may be copies."""
    if job.recipe.cp_kind != "all-to-all":
        return np.zeros((), dtype=bool)
    queries, kept = job.heads // grid.tp, np.maximum(job.kv_heads // grid.tp, 1)
    broken: Bools = (grid.cp > 1) & ((queries % grid.cp != 0) | ((kept % grid.cp != 0) & (grid.cp % kept != 0)))
    return broken


def _rank_heads(layout: Layout, job: Job) -> str:
    queries, kept = job.heads // layout.tp, max(job.kv_heads // layout.tp, 1)
    return (
        f"cp={layout.cp} by all-to-all does not share out the {queries} query and {kept} key-value heads of a rank; "
        f"try cp={nearest(queries, layout.cp)}, or --cp-kind mixed"
    )


def _activations_stay(grid: LayoutGrid, job: Job) -> Truth:
    """Where the layers' activations cannot go to the host, or the software named sends others."""
    recipe = job.recipe
    if not recipe.offload_layers:
        return np.zeros((), dtype=bool)
    both = np.isin(grid.schedule, codes_where(lambda schedule: schedule.copies > 1))
    partly = recipe.sharding == "deepspeed" and ((grid.recompute != FULL) | (recipe.offload_layers != "all"))
    broken: Bools = both | partly | (job.transformer is None)
    return broken


def _activations(layout: Layout, job: Job) -> str:
    if job.transformer is None:
        return f"{job.model.name} has no layers of a transformer, whose activations could go to the host"
    if get(layout.schedule).copies > 1:
        return f"schedule {layout.schedule} runs two copies of the model, whose activations are not offloaded"
    return "DeepSpeed offloads the inputs of recomputed layers, all or none (cpu_checkpointing); use --recompute full"


WORLD, BATCH, SCHEDULE = "world size", "batch not divisible", "schedule"
EXPERT_RANKS = "ep*etp divides the ranks of a stage"
HEADS, KEY_VALUE_HEADS = "tp divides heads", "tp divides key-value heads"
FOLLOWS = {SCHEDULE: BATCH, KEY_VALUE_HEADS: HEADS}
"""Rule -> the one that comes first: without whole micro-batches there are no schedules to speak of."""
RULES = (
    Rule(WORLD, "--dp", lambda g, j: g.dp * g.tp * g.pp * g.cp != j.devices, _world),
    Rule(BATCH, "--micro-batch", lambda g, j: j.recipe.batch % (g.dp * g.micro_batch) != 0, _batch),
    Rule(HEADS, "--tp", lambda g, j: j.heads % g.tp != 0, _heads),
    Rule(
        KEY_VALUE_HEADS,
        "--tp",
        _key_value_heads,
        lambda x, j: (
            f"tp={x.tp} neither divides nor is a multiple of {j.kv_heads} key-value heads; try {_heads_split(x, j)}"
        ),
    ),
    Rule(
        "recurrent heads per tp",
        "--tp",
        lambda g, j: j.recurrent_heads % g.tp != 0,
        lambda x, j: f"tp={x.tp} does not divide {(n := j.recurrent_heads)} recurrent heads; try {nearest(n, x.tp)}",
    ),
    Rule(
        "cp without recurrent layers",
        "--cp",
        lambda g, j: (g.cp > 1) & (j.recurrent_heads > 0),
        lambda x, j: f"cp={x.cp} is not priced for {j.model.name}: states of recurrent layers pass from rank to rank",
    ),
    Rule("layers per stage", "--pp", lambda g, j: not g.split and _uneven(g, j.layers), _stages),
    Rule("stages placed by hand", "--stages", _misplaced, _placed),
    Rule("vocabulary layers spread", "--vocab-parallel", not_spread, why_not_spread),
    Rule(
        SCHEDULE, "--schedule", lambda g, j: ~valid(g.schedule, g.pp, g.microbatches(j.recipe.batch), g.vpp), _schedule
    ),
    Rule(
        "cp splits the sequence",
        "--cp",
        _split_sequence,
        lambda x, j: f"2*cp = {2 * x.cp} does not divide the sequence of {j.recipe.passed_seq} tokens",
    ),
    Rule("cp divides heads", "--cp", _split_heads, _rank_heads),
    Rule(
        "cp needs flash attention",
        "--cp",
        lambda g, j: (g.cp > 1) & (not j.recipe.flash_attention),
        lambda x, j: f"cp={x.cp} needs fused attention; use --flash or cp=1",
    ),
    Rule(
        "ep divides experts",
        "--ep",
        lambda g, j: j.num_experts % g.ep != 0 if j.num_experts else g.ep > 1,
        lambda x, j: (
            f"ep={x.ep} does not divide {j.num_experts} experts"
            + (f"; try {nearest(j.num_experts, x.ep)}" if j.num_experts else "; a dense model has ep=1")
        ),
    ),
    Rule(
        EXPERT_RANKS,
        "--ep",
        lambda g, j: (g.tp * g.cp * g.dp) % (g.ep * g.expert_tp) != 0 if j.num_experts else False,
        lambda x, j: (
            f"ep*etp = {x.ep}*{x.expert_tp} does not divide the tp*cp*dp = {x.tp * x.cp * x.dp} ranks of a stage"
        ),
    ),
    Rule(
        "etp divides experts' width",
        "--etp",
        lambda g, j: j.expert_width % np.maximum(g.etp, 1) != 0 if j.num_experts else g.etp > 1,
        lambda x, j: (
            f"etp={x.etp} does not divide the experts' width of {j.expert_width}; try {nearest(j.expert_width, x.etp)}"
            if j.num_experts
            else f"etp={x.etp} cuts experts, and {j.model.name} has none"
        ),
    ),
    Rule(
        "stages hold the same ranks",
        "--order",
        _stages_apart,
        lambda x, j: (
            f"with order {'-'.join(x.order)} the stages of dense layers and of experts are different ranks, unless as "
            "many ranks of either come before pp; put pp last, or choose ep*etp = tp*cp"
        ),
    ),
    Rule(
        "sequence parallel",
        "--sequence-parallel",
        lambda g, j: (g.sequence_parallel > 0) & ((g.tp == 1) | (j.recipe.passed_seq % (g.cp * g.tp) != 0)),
        lambda x, j: (
            f"sequence parallelism needs tp > 1 and tp*cp = {x.tp * x.cp} dividing {j.recipe.passed_seq} tokens"
        ),
    ),
    Rule(
        "async tp needs sequence parallel",
        "--sequence-parallel",
        lambda g, j: (g.tp > 1) & (g.sequence_parallel == 0) & (j.recipe.overlap_tp == "async"),
        lambda x, j: "asynchronous tensor parallelism cuts gathers and reductions of --sequence-parallel; give it",
    ),
    Rule(
        "experts with tp need sequence parallel",
        "--sequence-parallel",
        lambda g, j: (g.tp > 1) & (g.sequence_parallel == 0) & (j.num_experts > 0),
        lambda x, j: f"experts with tp={x.tp} need --sequence-parallel, so that tokens are not routed {x.tp} times",
    ),
    Rule(
        "shard divides the data ranks",
        "--shard",
        lambda g, j: (g.dp * g.cp) % np.maximum(g.shard, 1) != 0,
        lambda x, j: f"shard={x.shard} does not divide dp*cp = {x.dp * x.cp}",
    ),
    Rule(
        "shard divides the experts' ranks",
        "--shard",
        lambda g, j: ((g.expert_data_ranks * g.shard) % g.data_ranks != 0) if j.num_experts else False,
        lambda x, j: (
            f"shard={x.shard} makes {x.dp * x.cp // x.shard} copies, which do not share out the "
            f"{int(x.grid().expert_data_ranks)} ranks that hold the same experts"
        ),
    ),
    Rule("local steps need groups", "--local-steps", _no_groups, _groups),
    Rule("sharded by no such software", "--sharding", _unknown_sharding, _sharding),
    Rule(
        "offloaded parameters need zero 3",
        "--offload",
        lambda g, j: (g.offload == OFFLOAD_PARAMETERS) & ((g.zero < 3) | (not j.recipe.reshard)),
        lambda x, j: (
            f"with zero={x.zero}{'' if j.recipe.reshard else ' and no resharding'} parameters stay whole on the device"
            ", and only zero 3 brings them layer by layer, from the host as from other ranks; use --zero 3, or "
            "--offload optimizer"
        ),
    ),
    Rule(
        "offloaded optimizer without products",
        "--offload",
        lambda g, j: g.on_host & (j.recipe.states.matmul_flops_factor > 0),
        lambda x, j: (
            f"the update of {j.recipe.optimizer} consists of matrix products, which are too slow on a host; "
            "use --offload none or another --optimizer, e.g. adamw"
        ),
    ),
    Rule(
        "update in backward without accumulation",
        "--update-in-backward",
        lambda g, j: j.recipe.update_in_backward & ((g.microbatches(j.recipe.batch) > 1) | g.on_host),
        lambda x, j: (
            "a layer is updated as soon as its gradients are there, so a step has one micro-batch and no states on the "
            f"host; try a batch of dp*micro_batch = {x.dp * x.micro_batch} and --offload none"
        ),
    ),
    Rule(
        "layers recomputed in full",
        "--recompute-layers",
        lambda g, j: (j.recipe.recompute_layers > 0) & ((g.recompute != FULL) | bool(j.recipe.offload_layers)),
        lambda x, j: "a number of layers is for --recompute full, without --offload-layers",
    ),
    Rule("offloaded activations", "--offload-layers", _activations_stay, _activations),
    Rule(
        "model cannot be split",
        "--tp",
        lambda g, j: (j.transformer is None) & ((g.tp > 1) | (g.pp > 1) | (g.cp > 1) | (g.recompute == FULL)),
        lambda x, j: f"{j.model.name} is planned with data parallelism only; use tp=pp=cp=1 and no full recomputation",
    ),
    *MODEL_RULES,
)


def _uneven(grid: LayoutGrid, layers: int) -> Truth:
    """One chunk per stage may hold one layer more than another; several chunks must be equal but for the outermost."""
    chunks = grid.pp * grid.vpp
    folded = np.isin(grid.schedule, codes_where(lambda schedule: schedule.placement is Placement.VEE))
    looped = ~folded & ~np.isin(grid.schedule, codes_where(lambda schedule: schedule.copies == 2))
    uneven: Bools = (grid.vpp > 1) & looped & np.logical_not(splits_evenly(layers, chunks))
    return (np.where(folded, chunks, grid.pp) > layers) | uneven
