"""Words about how a job saves, for every verb that has them, as fields of `Saving`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockstep.base.errors import BadInput
from lockstep.base.types.plain import Json
from lockstep.base.units import parse_frac
from lockstep.show.verbs.words.failures import bounded_time_s
from lockstep.show.verbs.words.quantity import Quantity, Time
from lockstep.show.verbs.words.question import whole
from lockstep.show.verbs.words.shared import LighterWords

MEASURED = "run:"


LIGHTER_WORDS = tuple(sorted(LighterWords.__annotations__))


def read_write_s(write: Time) -> float:
    """Seconds of a whole checkpoint as given, or what one took in the kept run of training that `run:` names."""
    return bounded_time_s(_measured_s(write), "--write")


def _measured_s(write: Time) -> Quantity:
    from lockstep.base.store import RunStore

    if not isinstance(write, str) or not write.startswith(MEASURED):
        return write
    try:
        record = RunStore().read(write.removeprefix(MEASURED))
    except BadInput as error:
        raise BadInput(error.message, "--write") from None
    saves = (record.result or {}).get("checkpoints")
    if not isinstance(saves, dict) or not saves.get("saves"):
        raise BadInput(f"run {record.id} saved no checkpoint", "--write")
    write_s = saves.get("write_s")
    if not isinstance(write_s, int | float):
        raise BadInput(f"run {record.id} does not say how long a checkpoint took; its answer is damaged", "--write")
    return write_s


def read_lighter(words: Mapping[str, Any]) -> Json:
    """Fields of `Saving` that `words` give; copies at peers are read by `read_copies`. Raises BadInput."""
    given = {name: words[name] for name in LIGHTER_WORDS if words.get(name) is not None}
    _check_company(given)
    return {field: read(given[name], flag) for name, field, flag, read in _READ if name in given}


def _check_company(given: Mapping[str, object]) -> None:
    """Refuses words without those that they need, and two kinds of lighter checkpoints at once."""
    if "copy_bandwidth" in given and "copies" not in given:
        raise BadInput("needs --copies", "--copy-bandwidth")
    if "copies" in given and not given.keys().isdisjoint(("local_write", "delta_write")):
        raise BadInput("cannot be combined with --local-write or --delta-write", "--copies")
    if {"local_write", "delta_write"} <= given.keys():
        raise BadInput("local checkpoints and deltas cannot be combined; give one", "--delta-write")
    if "copies" in given:
        return
    if ("local_write" in given) != ("local_frac" in given):
        raise BadInput("--local-write and --local-frac belong together", "--local-write")
    if "local_restart" in given and "local_write" not in given:
        raise BadInput("needs --local-write or --copies, to restart from", "--local-restart")


_READ = (
    ("local_write", "local_write_s", "--local-write", bounded_time_s),
    ("local_restart", "local_restart_s", "--local-restart", bounded_time_s),
    ("local_frac", "local_frac", "--local-frac", parse_frac),
    ("delta_write", "delta_write_s", "--delta-write", bounded_time_s),
    ("every", "every", "--every", whole),
)
"""(word, field of Saving, flag, how it is read)."""
