"""Words that mean nothing for a question, such as model chunks without pipeline stages: refused, not passed over.

Only what a user says counts. A word that states what holds anyway (`vpp=1`, `--no-overlap` on one device) is true and
allowed; one that asks for what cannot happen here would change nothing, and whoever reads the answer would not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass

if TYPE_CHECKING:
    from lockstep.price.layout import Job, Layout


NO_STAGES = "there are no pipeline stages here; give --pp above 1"
MODULES = {
    "mla_up_proj": ("latent attention", lambda about: about.latent),
    "mlp": ("dense feed-forward blocks", lambda about: about.dense_blocks),
    "moe": ("experts", lambda about: about.job.num_experts),
    "shared_experts": ("shared experts", lambda about: about.shared_experts),
    "moe_act": ("experts", lambda about: about.job.num_experts),
}
"""Modules to recompute that not every model has: what they belong to, and whether a model has it."""


@dataclass(frozen=True, slots=True)
class About:
    """What a question is about: its job, and its layout unless the layout is searched for."""

    job: Job
    layout: Layout | None

    def degree(self, name: str) -> int:
        """Ranks of a kind of parallelism; with no layout yet, all devices if the model can be split in this way."""
        if self.layout is not None:
            return int(getattr(self.layout, name))
        splits = name == "dp" or (self.job.num_experts if name == "ep" else self.job.transformer is not None)
        return self.job.devices if splits else 1

    @property
    def data_ranks(self) -> int:
        """Ranks over which gradients are reduced."""
        return self.degree("dp") * self.degree("cp")

    @property
    def shared(self) -> bool:
        """Whether the model has shared experts."""
        model = self.job.transformer
        return bool(model and model.experts and model.experts.shared_ffn)

    @property
    def latent(self) -> bool:
        """Whether the model has latent attention."""
        model = self.job.transformer
        return bool(model and model.attention.latent)

    @property
    def dense_blocks(self) -> bool:
        """Whether any layer of the model has a dense feed-forward block."""
        model = self.job.transformer
        return bool(model and model.num_dense_layers)

    @property
    def shared_experts(self) -> bool:
        """Whether the model has experts that every token visits."""
        model = self.job.transformer
        return bool(model and model.experts and model.experts.shared_ffn)

    @property
    def exchange_hides(self) -> bool:
        """Whether an expert exchange overlaps with compute."""
        from lockstep.simulate.parallel.pipeline import get

        way = self.job.recipe.overlap_ep
        cells = self.layout is None or get(self.layout.schedule).cells is not None
        beside = (way == "cells" and cells) or (way == "shared" and self.shared) or way == "passes"
        return self.degree("ep") > 1 and beside


def refuse_idle(words: Mapping[str, object], job: Job, layout: Layout | None = None) -> None:
    """Raises BadInput, at its flag, for an option that is given without effect; without a layout, for any layout."""
    about = About(job, layout)
    for word, why in _IDLE.items():
        if words.get(word) is not None and (reason := why(about)) is not None:
            raise BadInput(reason, f"--{word.replace('_', '-')}")


def _stages(asks: Callable[[About], bool]) -> Callable[[About], str | None]:
    """For a word that needs pipeline stages where `asks` is true."""
    return lambda about: NO_STAGES if about.degree("pp") == 1 and asks(about) else None


def _layout(asks: Callable[[Layout], bool]) -> Callable[[About], bool]:
    """`asks` of a layout that was given."""
    return lambda about: about.layout is not None and asks(about.layout)


def _zero(about: About) -> str | None:
    from lockstep.simulate.parallel.pipeline import get

    layout = about.layout
    alone = layout is not None and layout.zero > 0 and layout.offload == "none"
    if not alone or layout is None or about.data_ranks * get(layout.schedule).copies > 1:
        return None
    return "there are no ranks to share with, as dp*cp = 1; leave it out"


def _shard(about: About) -> str | None:
    if about.layout is None or not about.layout.shard or about.layout.zero:
        return None
    return "nothing is sharded without --zero; give it, or leave this out"


def _sharded(least: int, what: str) -> Callable[[About], str | None]:
    """For a word about traffic of sharded states, which there is from ZeRO stage `least` on."""

    def why(about: About) -> str | None:
        if about.data_ranks == 1 or (about.layout is not None and about.layout.zero < least):
            return f"{what} --zero {least}{'' if least == 3 else ' or more'} and several data-parallel ranks"
        return None

    return why


def _reshard(about: About) -> str | None:
    if about.job.recipe.reshard:
        return None
    return _sharded(3, "parameters are gathered and freed with")(about)


def _limits(about: About) -> str | None:
    if about.job.recipe.sharding != "deepspeed":
        return "other software than DeepSpeed has no such limits; use --stack deepspeed or --sharding deepspeed"
    from lockstep.simulate.parallel.data.coordinator import read_limits

    if set(read_limits(about.job.recipe.software.options.gather_limits).changed) == {"reduce_bucket_size"}:
        no_stage = about.data_ranks > 1 and about.layout is not None and not about.layout.zero
        return "gradients are reduced in buckets with --zero 1 or more" if no_stage else None
    return _sharded(3, "parameters are gathered and freed with")(about)


def _local(about: About) -> str | None:
    return _wire(about) if about.job.recipe.local_steps > 1 else None


def _order(about: About) -> str | None:
    from lockstep.price.layout import AXES

    degrees = [about.degree(name) for name in ("tp", "cp", "ep", "dp", "pp")]
    if about.layout is None or about.layout.order == AXES or sum(degree > 1 for degree in degrees) > 1:
        return None
    return "the grid does not have two kinds of ranks to put in order; leave it out"


def _tensor(about: About) -> str | None:
    if about.job.recipe.overlap_tp not in ("all", "async") or about.degree("tp") > 1:
        return None
    return "there is no tensor parallelism here; give --tp above 1"


def _alone(about: About) -> str | None:
    return "one device waits for nobody; leave it out" if about.job.devices == 1 else None


def _context(about: About) -> str | None:
    if about.job.recipe.cp_kind == "ring" or about.degree("cp") > 1:
        return None
    return "there is no context parallelism here; give --cp above 1"


def _wire(about: About) -> str | None:
    return "no gradient is sent, as dp*cp = 1; leave it out" if about.data_ranks == 1 else None


def _experts(about: About) -> str | None:
    if not about.job.num_experts:
        return f"{about.job.model.name} has no experts; leave it out"
    return "experts exchange nothing without --ep above 1" if about.degree("ep") == 1 else None


def _routed(about: About) -> str | None:
    if about.job.num_experts or about.job.recipe.routing == "balanced":
        return None
    return f"{about.job.model.name} has no experts; leave it out"


def _exchange(about: About) -> str | None:
    # "none" holds where nothing is exchanged, and cells, the default, may be named where there are none.
    if about.job.num_experts and about.job.recipe.overlap_ep != "shared":
        return None
    if about.job.num_experts and not about.shared:
        return f"{about.job.model.name} has no shared experts to overlap with"
    return _experts(about)


def _device(about: About) -> str | None:
    recipe = about.job.recipe
    hides = (
        about.data_ranks > 1 and recipe.overlap_dp,
        about.degree("tp") > 1 and recipe.overlap_tp != "none",
        about.degree("cp") > 1 and recipe.cp_kind in ("ring", "mixed"),
        about.exchange_hides,
    )
    return None if any(hides) else "no traffic overlaps with compute; see --overlap, --overlap-tp and --overlap-ep"


def _modules(about: About) -> str | None:
    if about.layout is not None and about.layout.recompute != "selective":
        return "modules are chosen by --recompute selective; give it, or leave this out"
    for module in about.job.recipe.recompute_modules:
        part, has = MODULES.get(module, ("", lambda about: True))
        if not has(about):
            return f"{about.job.model.name} has no {part}, so {module} recomputes nothing"
    return None


def _attention(asks: Callable[[About], bool]) -> Callable[[About], str | None]:
    """For a word that is about transformers' layers where `asks` is true."""

    def why(about: About) -> str | None:
        if about.job.transformer is not None or not asks(about):
            return None
        return f"{about.job.model.name} has no attention; leave it out"

    return why


def _counted(about: About) -> str | None:
    if about.job.transformer is None or not about.job.images:
        return _attention(lambda about: about.job.recipe.mfu_convention != "full")(about)
    if about.job.recipe.mfu_convention != "6n":
        return None
    return f"{about.job.model.name} uses some of its parameters once per image, not for every token; leave it out"


def _text(about: About) -> str | None:
    return f"{about.job.model.name} has no vocabulary; leave it out" if about.job.images else None


def _adapted(about: About) -> str | None:
    from lockstep.describe.workload import all_weights

    adapters, model = about.job.recipe.adapters, about.job.transformer
    if adapters is None:
        return None
    found = None if model is None else about.job.recipe.adapters_on(model)
    if found is not None and found.method.tokens:
        return None
    if model is not None and found is not None and any(map(found.adapts, all_weights(model))):
        return None
    if model is None:
        return f"{about.job.model.name} has none of the linear layers that adapters are put on; leave it out"
    return f"{model.name} has no {' or '.join(adapters.targets)}; adapters can be on other matrices"


_IDLE: dict[str, Callable[[About], str | None]] = {
    "vpp": _stages(_layout(lambda layout: layout.vpp > 1)),
    "schedule": _stages(_layout(lambda layout: layout.schedule != "1f1b")),
    "stages": _stages(_layout(lambda layout: bool(layout.stages))),
    "mtp_stage": _stages(_layout(lambda layout: layout.mtp_stage is not None)),
    "vocab_parallel": _stages(lambda about: about.job.recipe.vocab_parallel != "none"),
    "overlap_pp": _stages(lambda about: about.job.recipe.overlap_pp),
    "zero": _zero,
    "shard": _shard,
    "order": _order,
    "sharding": _sharded(1, "states are sharded with"),
    "gradient_sync": _sharded(2, "gradients are sharded with"),
    "reshard": _reshard,
    "gather_limits": _limits,
    "local_steps": _local,
    "overlap_tp": _tensor,
    "cp_kind": _context,
    "reduce_bytes": _wire,
    "jitter": _alone,
    "rank_jitter": _alone,
    "dispatch_bytes": _experts,
    "exchange": _experts,
    "routing": _routed,
    "overlap_ep": _exchange,
    "overlap_device": _device,
    "recompute_modules": _modules,
    "recompute": _attention(_layout(lambda layout: layout.recompute != "none")),
    "flash": _attention(lambda about: not about.job.recipe.flash_attention),
    "cross_entropy": _text,
    "train": _adapted,
    "dropout": _attention(lambda about: about.job.recipe.dropout),
    "mfu_convention": _counted,
    "cached_bytes": _attention(lambda about: True),
    "cached_attention_bytes": _attention(lambda about: True),
}
"""Word -> why it means nothing for a question, None where it means something."""
