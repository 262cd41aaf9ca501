"""`export`: an estimate as the configuration of a training framework, in its own words.

    export(found, "megatron")       command-line flags, one per line
    export(found, "deepspeed")      JSON
    export(found, "torchtitan")     TOML, which releases until 0.2 read; "torchtitan-cli" options of 0.3
    export(found, "bridge")         YAML over a recipe of Megatron-Bridge
    export(found, "accelerate")     YAML of Accelerate, for Hugging Face's Trainer
    export(found, "nanotron")       YAML of nanotron

A plan that a framework cannot express is refused with every reason; nothing is dropped on the way. Each begins by the
version that it was written for and what is left to the user: as comments, in JSON, which has none, under a key that
DeepSpeed does not read. No value stands for one that is left: the software stops without it, or its default is named.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from lockstep.base.errors import UnknownName
from lockstep.decide.planner.estimate import Estimate
from lockstep.decide.planner.export import accelerate, bridge, deepspeed, megatron, nanotron, torchtitan, torchtitan_cli
from lockstep.decide.planner.export.arguments import arguments
from lockstep.decide.planner.export.deepspeed import COMMENT
from lockstep.decide.planner.export.refusals import Placed

TARGETS = {
    "megatron": megatron.megatron,
    "bridge": bridge.bridge,
    "deepspeed": deepspeed.deepspeed,
    "torchtitan": torchtitan.torchtitan,
    "torchtitan-cli": torchtitan_cli.torchtitan_cli,
    "accelerate": accelerate.accelerate,
    "nanotron": nanotron.nanotron,
}
CHOICES: dict[str, dict[str, tuple[object, ...]]] = {
    "megatron": megatron.CHOICES,
    "bridge": bridge.CHOICES,
    "deepspeed": deepspeed.CHOICES,
    "torchtitan": torchtitan.CHOICES,
    "torchtitan-cli": torchtitan_cli.CHOICES,
    "accelerate": accelerate.CHOICES,
    "nanotron": nanotron.CHOICES,
}


def export(found: Estimate, to: str, said: Sequence[str] = ()) -> str:
    """The configuration for `to`, headed by its version and the sentences `said`.

    Raises UnknownName, and Infeasible with every reason why `to` cannot express it.
    """
    if to not in TARGETS:
        raise UnknownName("target of an export", to, TARGETS, "--to")
    placed = Placed(found.job, found.layout, found.attention_kernel, _machines(found))
    body, head = TARGETS[to](placed), [f"written for {version(to)}", *said]
    if to == "deepspeed":
        document = json.loads(body)
        return json.dumps({COMMENT: head + document.pop(COMMENT, []), **document}, indent=2) + "\n"
    return "".join(f"# {sentence}\n" for sentence in head) + body


def _machines(found: Estimate) -> int:
    """Hosts of the devices; where no host is known, units of the innermost level."""
    cluster, devices = found.cluster, found.job.devices
    inside = cluster.devices_per_unit(0) if cluster.host is None else cluster.devices_per_host
    return -(-devices // inside)


def version(to: str) -> str:
    """The software and its version that an export to `to` is written for."""
    return arguments(to).version


__all__ = ["CHOICES", "TARGETS", "export", "version"]
