"""torchtitan's TOML (until 0.2) as a question and a layout, and what it shares with the options of 0.3.

A name and flavor of its own model is the catalog's model of that name, where it has one. Layers are shared out to the
stages as `distributed/pipeline_parallel.py` does, which counts the embedding and the head as layers.
"""

from __future__ import annotations

import math
import re

from lockstep.decide.planner.export.torchtitan import ROTATIONS, SCHEDULES, UNNAMED
from lockstep.decide.planner.export.torchtitan_models import flavors
from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.named import LONGEST
from lockstep.decide.planner.imports.said import Said
from lockstep.describe.workload import Model, Transformer

STACK = "torchtitan"
AXES, CHECKPOINT = "parallelism.", "activation_checkpoint."
KINDS = {word: kind for kind, word in ROTATIONS.items()}
NAMED = {word.lower(): schedule for schedule, word in SCHEDULES.items()}
MOST_STAGES = 10_000
SINGLE = ("1f1b", "gpipe")
"""Schedules of one chunk in each stage; others have two, where nothing says how many."""
CONVERTERS = {"float8": ("float8.", "quantize.linear.float8."), "mx": ("mx.", "quantize.linear.mx.")}
"""Sections of the converters of matrix products."""
HALF = {"output", "router.gate"}
"""Layers that are priced in half precision where others run in fp8."""
ATTENTION = ("_flex_attn", "_varlen_attn", "_flex", "_varlen")
"""Ends of flavors that name a kernel of attention."""


def torchtitan(said: Said, name: str, model: Model | None) -> Imported:
    """What a TOML file says."""
    found = Imported(said.format.name, words={"stack": STACK})
    named_model(found, said, model, f"{said['model.name']}-{said['model.flavor']}", "model.flavor")
    degrees(found, said)
    layout, cp = found.layout, found.layout.get("cp", 1)
    if layout.get("tp", 1) > 1:
        layout["sequence_parallel"] = True
    if layout.get("ep", 1) > 1 and said[f"{AXES}expert_tensor_parallel_degree"] != layout.get("tp", 1):
        layout["etp"] = said[f"{AXES}expert_tensor_parallel_degree"]
    if cp > 1:
        kind = KINDS[said[f"{AXES}context_parallel_rotate_method"]]
        found.set(found.words, cp_kind=None if kind == "ring" else kind)
    sharding(found, said)
    training(found, said)
    pipeline(found, said)
    _formats(found, said)
    _recompute(found, said)
    compiled(found, said, bool(said["training.compile"]))
    if said[f"{AXES}enable_async_tensor_parallel"] and layout.get("tp", 1) > 1:
        found.words["overlap_tp"] = "async"
    if said["optimizer.early_step_in_backward"]:
        found.words["update_in_backward"] = True
    optimizer(found, said, "optimizer.name")
    return found


def catalog_name(called: str) -> str | None:
    """The catalog's name of a model and its flavor, such as llama3-8B_flex, or of a configuration; None without one."""
    from lockstep.describe.workload import names

    bare = called.removesuffix(_kernel(called))
    for name, one in flavors().items():
        config = one.config or re.sub(r"[-.]", "_", f"{one.model}_{one.flavor}".lower())
        if bare in (f"{one.model}-{one.flavor}", config):
            return name
    wanted = bare.removesuffix(f"-{UNNAMED}").lower()
    return wanted if wanted in names() else None


def _kernel(called: str) -> str:
    """The end of a flavor that names a kernel of attention, or nothing."""
    return next((one for one in ATTENTION if called.endswith(one)), "")


def named_model(found: Imported, said: Said, given: Model | None, called: str, word: str) -> None:
    """The catalog's model of that name, unless one is given beside the file; `word` is where the file names it."""
    from lockstep.describe.workload import model

    name, end = catalog_name(called), _kernel(called)
    found.model = given if given is not None else name
    if word not in said:
        return
    if given is None and name is None:
        found.called = called[:LONGEST]
        said.leave(word, f"the catalog has no {called}: give MODEL@FILE")
    elif given is not None and name is not None and model(name) != given:
        said.contradiction(word, f"{given.name} counts, which is given beside the file")
    elif end:
        said.leave(word, f"attention by another kernel ({end.strip('_')})")


def degrees(found: Imported, said: Said) -> None:
    """Degrees of parallelism, data parallelism apart."""
    named = {"tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert"}
    found.degrees(**{name: said[f"{AXES}{word}_parallel_degree"] for name, word in named.items()})


def sharding(found: Imported, said: Said) -> None:
    """ZeRO and HSDP: with no stage of its own, DDP."""
    copies, sharded = (said[f"{AXES}data_parallel_{name}_degree"] for name in ("replicate", "shard"))
    if sharded == 0:
        raise said.refuse(f"{AXES}data_parallel_shard_degree", "must be -1 or at least 1, got 0")
    cp = found.layout.get("cp", 1)
    if sharded == 1 and cp == 1:
        found.layout["zero"] = 0
        return
    reshard, staged = said[f"{AXES}fsdp_reshard_after_forward"], found.layout.get("pp", 1) > 1
    found.layout["zero"] = 2 if reshard == "never" or (reshard == "default" and staged) else 3
    if copies > 1:
        found.layout["shard"] = sharded * cp if sharded > 0 else lambda devices: found.replicas(devices) // copies * cp


def training(found: Imported, said: Said) -> None:
    """Batch, sequence, and what is in host memory."""
    local, batch = said["training.local_batch_size"], said["training.global_batch_size"]
    if batch == 0:
        raise said.refuse("training.global_batch_size", "must be -1 or at least 1, got 0")
    staged = found.layout.get("pp", 1) > 1
    found.layout["micro_batch"] = said[f"{AXES}pipeline_parallel_microbatch_size"] if staged else local
    found.words["batch"] = batch if batch > 0 else lambda devices: local * found.replicas(devices)
    found.words["seq"] = said["training.seq_len"]
    if said["training.enable_cpu_offload"]:
        found.offload_parameters()


def pipeline(found: Imported, said: Said) -> None:
    """Schedule and stages."""
    layout, pp = found.layout, found.layout.get("pp", 1)
    if pp == 1:
        return
    word = f"{AXES}pipeline_parallel_schedule"
    if said[word].lower() not in NAMED:
        said.leave(word, "a schedule that is not described; 1F1B is taken")
    schedule = NAMED.get(said[word].lower(), "1f1b")
    counts = _parts(found, said, schedule)
    if len(counts) % pp:
        raise said.refuse(f"{AXES}pipeline_parallel_degree", f"is {pp}, and the model has {len(counts)} parts")
    layout["vpp"] = len(counts) // pp
    if layout["vpp"] == 1:
        del layout["vpp"]
    if len(set(counts)) > 1 or said[f"{AXES}module_fqns_per_model_part"]:
        layout["stages"] = ",".join(map(str, counts))
    if schedule != ("interleaved" if "vpp" in layout else "1f1b"):
        layout["schedule"] = schedule


def _parts(found: Imported, said: Said, schedule: str) -> list[int]:
    """Layers of each part of the model: those that are listed, or shared out to the stages."""
    if listed := said[f"{AXES}module_fqns_per_model_part"]:
        return [_layers_in(said, part) for part in listed]
    layers = layers_of(found.model)
    first, last = (said[f"{AXES}pipeline_parallel_{end}_stage_less_layers"] for end in ("first", "last"))
    per_stage = said[f"{AXES}pipeline_parallel_layers_per_stage"]
    stages = found.layout["pp"] * (1 if schedule in SINGLE else 2)
    if per_stage and layers:
        stages = math.ceil((layers + first + last) / per_stage)
    if stages > MOST_STAGES:
        raise said.refuse(f"{AXES}pipeline_parallel_degree", f"leads to {stages:,} stages, of {MOST_STAGES:,} allowed")
    return shared_out(layers, stages, first, last)


def _layers_in(said: Said, part: object) -> int:
    """Layers of one part, a list of the names of modules."""
    if not isinstance(part, list) or not all(isinstance(one, str) for one in part):
        raise said.refuse(f"{AXES}module_fqns_per_model_part", "must be a list of lists of names of modules")
    return sum(one.startswith("layers.") for one in part)


def shared_out(layers: int, stages: int, first: int, last: int) -> list[int]:
    """Layers of each stage, where embedding and head count as so many; as many in each where layers are not known."""
    each, more = divmod(layers + first + last, stages)
    counts = [each + (stage < more) for stage in range(stages)]
    if not layers or stages == 1 or each < max(first, last, 1):
        return [0] * stages
    counts[0] -= first
    counts[-1] -= last
    return counts


def layers_of(model: str | Model | None) -> int:
    """Layers of a transformer; 0 where they are not known."""
    from lockstep.describe.workload import model as find

    found = find(model) if isinstance(model, str) else model
    return found.layers if isinstance(found, Transformer) else 0


def every_other(found: Imported, often: int) -> None:
    """Recomputation of one layer in so many."""
    chunks = found.layout.get("pp", 1) * found.layout.get("vpp", 1)
    layers = layers_of(found.model) // chunks // often
    if often == 1 or layers:
        found.layout["recompute"] = "full"
        found.set(found.words, recompute_layers=layers if often > 1 else None)


def _recompute(found: Imported, said: Said) -> None:
    mode = said[f"{CHECKPOINT}mode"]
    if mode == "memory_budget":
        said.leave(f"{CHECKPOINT}mode", "what a compiler recomputes in a budget of memory; none is taken")
    elif mode == "full":
        found.layout["recompute"] = "full"
    elif mode == "selective":
        option = str(said[f"{CHECKPOINT}selective_ac_option"])
        if option == "op":
            by_operation(found)
        elif option.isdecimal() and int(option[:9]) > 0:
            every_other(found, int(option[:9]))
        else:
            raise said.refuse(f"{CHECKPOINT}selective_ac_option", f"must be op or a whole number, got {option[:40]!r}")


def by_operation(found: Imported) -> None:
    """Recomputation of single operations."""
    found.layout["recompute"] = "selective"
    found.words["recompute_modules"] = "op"


def compiled(found: Imported, said: Said, also: bool = False) -> None:
    """Neighbouring elementwise operations are one kernel in a compiled model alone."""
    if not also and not (said["compile.enable"] and "model" in said["compile.components"]):
        found.words["fused_elementwise"] = False


def optimizer(found: Imported, said: Said, word: str) -> None:
    """The optimizer."""
    called = str(said[word]).lower()
    if called not in ("adam", "adamw"):
        said.leave(word, "an optimizer that is not described; AdamW is taken")
    found.set(found.words, optimizer="adam" if called == "adam" else None)


def _formats(found: Imported, said: Said) -> None:
    """Number formats of matrix products, by the converters of the model."""
    converters = [str(one).replace("quantize.linear.", "") for one in said["model.converters"]]
    found.words["dtype"] = "bf16" if said["training.mixed_precision_param"] == "bfloat16" else "fp32"
    for name, dtype in (("float8", "fp8"), ("mx", "mxfp8")):
        if name in converters:
            found.words["dtype"] = dtype
            for section in CONVERTERS[name]:
                _narrow(found, said, section, name)
    if set(converters) - set(CONVERTERS) or len(converters) > 1:
        said.leave("model.converters", "what other converters change in the model")


def _narrow(found: Imported, said: Said, section: str, name: str) -> None:
    """Settings of a converter, of which one of two sections is written."""
    word = f"{section}filter_fqns"
    if word in said and (set(map(str, said[word])) - HALF or "output" not in said[word]):
        said.leave(word, "which layers run in the narrow format: all but the head are taken to")
    if name == "mx":
        return
    recipe, gathered = f"{section}recipe_name", f"{section}enable_fsdp_float8_all_gather"
    if said[gathered]:
        said.leave(gathered, "gathers of parameters in fp8")
    if recipe in said:
        found.set(found.words, fp8_scaling="rows" if said[recipe].startswith("rowwise") else None)
        if said[recipe] == "rowwise_with_gw_hp":
            said.leave(recipe, "products of weights' gradients in bf16")
