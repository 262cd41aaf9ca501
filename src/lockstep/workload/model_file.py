"""`read_model_file(path)`: a user's own model as YAML, with the same fields as `Transformer` or `ConvNet`.

    layers: 32
    hidden: 4096
    vocab: 128256
    max_positions: 8192
    attention: {heads: 32, kv_heads: 8, head_dim: 128}
    mlp: {ffn: 14336}

`kind: convnet` reads a ConvNet. The schema is made from the dataclasses, so there is one list of fields; pydantic
checks types and unknown keys, the dataclasses check sizes. `name` defaults to the file's name.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from lockstep.documents import read_yaml, validated
from lockstep.errors import BadInput, UnknownName
from lockstep.workload.architecture import Attention, ConvNet, Experts, LatentAttention, Mlp, Model, Rotary, Transformer
from lockstep.workload.from_fields import build

if TYPE_CHECKING:
    from pydantic import BaseModel

KINDS = {"transformer": Transformer, "convnet": ConvNet}
NESTED = (Attention, LatentAttention, Mlp, Experts, Rotary)


def read_model_file(path: str | Path) -> Model:
    """The model in a YAML file. Raises BadInput at "file:line"."""
    data, locate = read_yaml(path)
    kind = data.get("kind", "transformer")
    if not isinstance(kind, str) or kind not in KINDS:
        raise UnknownName("kind of model", str(kind)[:40], KINDS, locate("kind"))
    given = validated(schema(KINDS[kind]), data, locate).model_dump(exclude_unset=True)
    try:
        return build({"name": Path(path).stem, **given})
    except BadInput as error:
        raise BadInput(error.message, locate(*str(error.where).split("."))) from None


@cache
def schema(record: type[Any]) -> type[BaseModel]:
    """The pydantic model with the fields of a dataclass of `architecture.py`, strict and closed."""
    from pydantic import ConfigDict, create_model

    hints = get_type_hints(record)
    given: dict[str, Any] = {"kind": (str, "transformer")} if record in KINDS.values() else {}
    for each in fields(record):
        if each.name == "notes":
            continue
        optional = each.default is not MISSING or each.name in ("name", "kv_heads")
        given[each.name] = (_annotation(hints[each.name]), None if optional else ...)
    config = ConfigDict(extra="forbid", strict=True)
    made: type[BaseModel] = create_model(record.__name__, __config__=config, **given)
    return made


def _annotation(hint: Any) -> Any:
    """The type of a field in the file: nested dataclasses become schemas, tuples lists."""
    if hint == tuple[int, ...]:
        return list[int]
    for record in NESTED:
        if hint is record:
            return schema(record)
        if hint == record | None:
            return schema(record) | None
    return hint
