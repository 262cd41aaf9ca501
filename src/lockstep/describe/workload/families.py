"""`families`: the catalog's models that people fine-tune, by family."""

from __future__ import annotations

import re
from functools import cache

from lockstep.describe.workload.architecture import Transformer
from lockstep.describe.workload.catalog import entry, names, source_ids
from lockstep.describe.workload.hub import hub_names
from lockstep.describe.workload.parameters import parameters

FAMILY = re.compile(r"gpt-[a-z]+|[a-z]+")
"""The start of a name that models of a family share."""
RELATED = {"gptj": "gpt-neox", "mixtral": "mistral", "tinyllama": "llama"}
"""The family of models that have a name of their own."""


@cache
def families() -> dict[str, tuple[tuple[int, Transformer], ...]]:
    """Decoders of text whose weights are published, by family: (parameters, model), the fewest parameters first."""
    published = {*hub_names().values(), *source_ids().values()}
    found: dict[str, list[tuple[int, str, Transformer]]] = {}
    for name in published.intersection(names()):
        one, start = entry(name).model, FAMILY.match(name)
        if start is None or not isinstance(one, Transformer) or one.patches is not None:
            continue
        if one.attention.causal and not one.encoder_layers:
            family = RELATED.get(start[0], start[0])
            found.setdefault(family, []).append((parameters(one).total, name, one))
    return {family: tuple((size, one) for size, _, one in sorted(found[family])) for family in sorted(found)}
