"""`read_adapters`: the words of `--train` for adapters: `lora:r=16,dora=yes`, `vera:r=256`, `prompt:tokens=20`.

Where a setting is not given, it is as peft 0.21.2 has it by itself, but for the targets: all linear layers, of IA3
keys, values and down projections.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.units import parse_frac
from lockstep.describe.workload.adapters import GROUPS, JOINED, MEGATRON, NAMES, PARAMETERS, SAVED, Adapters
from lockstep.describe.workload.methods import Method

MOST_RANK = 4096
MOST_TOKENS = 100_000
_ON = ("targets", "save")
SETTINGS = {
    "lora": ("r", "targets", "dropout", "save", "dora", "rslora", "init", "parameters"),
    "vera": ("r", *_ON, "dropout"),
    "oft": ("block", "blocks", *_ON),
    "ia3": _ON,
    "prompt": ("tokens",),
}
"""What each method can be told."""
USUAL = {
    "lora": {"r": "16"},
    "vera": {"r": "256"},
    "oft": {"block": "32"},
    "ia3": {"targets": "k_proj+v_proj+down_proj"},
}
ASKED = ("no", "yes")
INITS = ("default", "pissa")


@lru_cache(maxsize=64)
def read_adapters(text: str, where: str | None = "--train") -> Adapters:
    """What `lora:r=16,targets=all-linear,dropout=0.05` or `vera:r=256` trains. Raises BadInput, UnknownName."""
    name = text.partition(":")[0].strip()
    said = dict(part.partition("=")[::2] for part in text.partition(":")[2].split(",") if part)
    if unknown := sorted(set(said) - set(SETTINGS[name])):
        raise UnknownName(f"setting of {name}", unknown[0], SETTINGS[name], where)
    if {"block", "blocks"} <= set(said):
        raise BadInput("give block or blocks of oft, not both", where)
    usual = {} if "blocks" in said else USUAL.get(name, {})
    given = {**usual, **said}
    method = _method(name, given, where)
    dropout_frac = parse_frac(given.get("dropout", "0"), where)
    if not 0 <= dropout_frac < 1:
        raise BadInput(f"dropout must be at least 0 and below 1, got {given['dropout']!r}", where)
    saved = _listed(given, "save", "module to save", SAVED, where)
    parameters = _listed(given, "parameters", "parameter of experts", PARAMETERS, where)
    if parameters and (dropout_frac or method.dora or method.pissa):
        what = method.title if method.dora or method.pissa else "dropout"
        raise BadInput(f"peft has no {what} on parameters of experts: leave one of both out", where)
    # Parameters that are named alone are all that is adapted.
    targets = given.get("targets", "" if parameters or name == "prompt" else "all-linear")
    rank = _whole(given, "r", MOST_RANK, where)
    return Adapters(rank, _targets(targets, where), dropout_frac, saved, method=method, parameters=parameters)


def _method(name: str, given: Mapping[str, str], where: str | None) -> Method:
    for what, allowed in (("dora", ASKED), ("rslora", ASKED), ("init", INITS)):
        if given.get(what, allowed[0]) not in allowed:
            raise UnknownName(f"value of {what}", given[what], allowed, where)
    if name == "prompt" and "tokens" not in given:
        raise BadInput("prompt needs tokens, such as prompt:tokens=20", where)
    sizes = {what: _whole(given, what, MOST_TOKENS, where) for what in ("block", "blocks", "tokens")}
    dora, rslora = (given.get(what) == "yes" for what in ("dora", "rslora"))
    pissa = given.get("init") == "pissa"
    return Method(name, dora, rslora, pissa, **sizes)


def _whole(given: Mapping[str, str], name: str, most: int, where: str | None) -> int:
    """A setting that is a whole number; 0 where it is not given."""
    text = given.get(name, "0")
    if name in given and not (text.isdigit() and 1 <= int(text) <= most):
        raise BadInput(f"{name} must be a whole number from 1 to {most}, got {text!r}", where)
    return int(text)


def _listed(
    given: Mapping[str, str], name: str, what: str, known: Mapping[str, object], where: str | None
) -> tuple[str, ...]:
    """Names joined by `+`."""
    found = tuple(dict.fromkeys(given[name].split("+"))) if name in given else ()
    for one in found:
        if one not in known:
            raise UnknownName(what, one, known, where)
    return found


def _targets(text: str, where: str | None) -> tuple[str, ...]:
    """Targets in words joined by `+`: groups, names with and without `_proj`, or Megatron's."""
    found: list[str] = []
    for word in filter(None, text.split("+")):
        name = MEGATRON.get(word, word if word in GROUPS or word.endswith("_proj") else f"{word}_proj")
        if name not in GROUPS and name not in NAMES:
            raise UnknownName("target of lora", word, (*GROUPS, *NAMES), where)
        found += [one for one in GROUPS.get(name, (name,)) if one not in found]
    for joined in JOINED:
        twice = [one for one in found if one != joined and set(NAMES[one]) & set(NAMES[joined])]
        if joined in found and twice:
            raise BadInput(f"{joined} covers {', '.join(twice)}; name one of them", where)
    return tuple(found)
