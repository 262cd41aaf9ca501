"""The catalog of models, `catalog/*.toml`, and `model(name_or_path)`, which also reads a user's own files.

An entry holds the fields of `Transformer` or `ConvNet` (kind = "convnet"), its source and date, and the published
parameter total where there is one: a whole number when it is exact, text such as "175B" when it was rounded.
`[defaults]` of a file underlies each of its entries, nested tables field by field.

`read_model_file(path)`: a user's own model as YAML, with the same fields as `Transformer` or `ConvNet`.

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

import os
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from lockstep.base.documents import read_yaml, validated
from lockstep.base.documents.shipped import table
from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import MISSING, dataclass, fields, replace
from lockstep.base.types.plain import Json
from lockstep.base.vocabulary import architecture
from lockstep.describe.workload.architecture import (
    Attention,
    ConvNet,
    Experts,
    LatentAttention,
    Mlp,
    Model,
    Rotary,
    Transformer,
)
from lockstep.describe.workload.classifier import Classifier
from lockstep.describe.workload.hub import cached_config, config_in, hub_names, is_hub_id
from lockstep.describe.workload.modulation import Modulation
from lockstep.describe.workload.modules import model_type
from lockstep.describe.workload.parameters import parameters
from lockstep.describe.workload.patches import Patches
from lockstep.describe.workload.recurrent import KINDS as RECURRENT
from lockstep.describe.workload.recurrent import DeltaNet, Mamba, Mamba2

if TYPE_CHECKING:
    from pydantic import BaseModel

KINDS = {"transformer": Transformer, "convnet": ConvNet}
NESTED = (
    Attention, LatentAttention, Mlp, Experts, Rotary, Patches, Modulation, Classifier, Mamba, Mamba2, DeltaNet,
)  # fmt: skip
FILE_SUFFIXES = (".json", ".yaml", ".yml")
SOURCE_ID = re.compile(r"(?:huggingface\.co/|litgpt/config\.py: )([\w.-]+/[\w.-]*\w)(?![\w.*-])")
"""The hub id that a source of the catalog names."""
OTHERWISE = "it is not in the catalog (lockstep catalog models); a config.json or a YAML file describes any model"
"""Hint for an unknown model."""


def build(fields: Mapping[str, Any]) -> Model:
    """The model that plain `fields` describe, nested tables included. Raises BadInput."""
    given = dict(fields)
    if given.pop("kind", "transformer") == "convnet":
        given["blocks"] = tuple(given["blocks"])
        return ConvNet(**given)
    attention = dict(given.pop("attention"))
    if attention.get("latent"):
        attention["latent"] = LatentAttention(**attention["latent"])
    attention.setdefault("kv_heads", attention["heads"])
    experts = given.pop("experts", None)
    if experts:
        experts = Experts(**{**experts, "dense_layers": tuple(experts.get("dense_layers", ()))})
    mlp = given.pop("mlp", None)
    records = (("rotary", Rotary), ("patches", Patches), ("modulation", Modulation), ("classifier", Classifier))
    for word, record in records:
        if given.get(word) is not None:
            given[word] = record(**given[word])
    given["pattern"] = tuple(given.get("pattern") or ())
    recurrent = [(RECURRENT[word], given.pop(word)) for word in RECURRENT if given.get(word)]
    if len(recurrent) > 1:
        raise BadInput("a model has one kind of recurrent layer; describe one of them", next(iter(RECURRENT)))
    for word in RECURRENT:
        given.pop(word, None)
    return Transformer(
        attention=Attention(**attention),
        mlp=Mlp(**mlp) if mlp else None,
        experts=experts,
        recurrent=recurrent[0][0](**recurrent[0][1]) if recurrent else None,
        **given,
    )


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
    given: Json = {"kind": (str, "transformer")} if record in KINDS.values() else {}
    for each in fields(record):
        if each.name == "notes":
            continue
        if each.name == "recurrent":
            given |= {word: (_annotation(one | None), None) for word, one in RECURRENT.items()}
            continue
        optional = each.default is not MISSING or each.name in ("name", "kv_heads")
        given[each.name] = (_annotation(hints[each.name]), None if optional else ...)
    config = ConfigDict(extra="forbid", strict=True)
    made: type[BaseModel] = create_model(record.__name__, __config__=config, **given)
    return made


def _annotation(hint: object) -> Any:
    """The type of a field in the file: nested dataclasses become schemas, tuples lists."""
    if hint == tuple[int, ...]:
        return list[int]
    if hint == tuple[str, ...]:
        return list[str]
    for record in NESTED:
        if hint is record:
            return schema(record)
        if hint == record | None:
            return schema(record) | None
    return hint


@dataclass(frozen=True, slots=True)
class Published:
    """A total that others print, and where. `exact` is false for a rounded one."""

    text: str
    exact: bool
    source: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One model of the catalog."""

    model: Model
    published: Published | None

    def to_dict(self) -> Json:
        """One row of a listing."""
        counted = parameters(self.model)
        row: Json = {"name": self.model.name, "parameters": counted.total}
        row["active_parameters"] = counted.active
        if isinstance(self.model, Transformer):
            row |= {name: getattr(self.model, name) for name in ("layers", "hidden", "vocab", "max_positions")}
        row |= {"source": self.model.source, "date": self.model.date}
        if self.published:
            row["published_parameters"] = self.published.text
        return row


def _merged(defaults: Mapping[str, object], entry: Mapping[str, object]) -> Json:
    """`entry` over `defaults`, tables field by field."""
    result = dict(defaults)
    for key, value in entry.items():
        below = result.get(key)
        result[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def _published(fields: Json) -> Published | None:
    """Takes the published total out of `fields`."""
    total, source = fields.pop("published", None), fields.pop("published_source", "")
    if total is None:
        return None
    return Published(str(total), isinstance(total, int), source or fields["source"])


@cache
def _tables() -> dict[str, Json]:
    """The fields of every entry by name, in the order of files and of entries within them."""
    folder = resources.files("lockstep.describe.workload").joinpath("catalog")
    found: dict[str, Json] = {}
    for file in sorted(folder.iterdir(), key=lambda path: path.name):
        if file.name.endswith(".toml"):
            tables = table(file)
            defaults = tables.pop("defaults", {})
            for name, fields in tables.items():
                found[name] = {**_merged(defaults, fields), "name": name}
    return found


@cache
def entry(name: str) -> Entry:
    """The catalog entry called `name`. Raises UnknownName."""
    fields = _tables().get(name)
    if fields is None:
        raise UnknownName("model", name, tuple(_tables()))
    given = dict(fields)
    published, found = _published(given), build(given)
    if isinstance(found, Transformer) and not found.model_type:
        found = replace(found, model_type=model_type(name))
    return Entry(found, published)


def names() -> tuple[str, ...]:
    """Every name of the catalog, in its order."""
    return tuple(_tables())


def entries() -> tuple[Entry, ...]:
    """Every model of the catalog, in its order."""
    return tuple(entry(name) for name in names())


def models() -> list[Json]:
    """A row per model of the catalog: name, parameters, shape, source, date."""
    return [each.to_dict() for each in entries()]


def known_name(text: str) -> str | None:
    """The catalog's name for `text`: itself, in any case, or what the last part of a hub id stands for."""
    if text in _tables():
        return text
    lowered = text.lower()
    last = {hub_id.partition("/")[2]: name for hub_id, name in hub_names().items()}
    return {name.lower(): name for name in _tables()}.get(lowered) or last.get(lowered)


@cache
def source_ids() -> dict[str, str]:
    """Hub id in lower case -> the name of the first model whose source it is."""
    found: dict[str, str] = {}
    for name, described in _tables().items():
        for hub_id in SOURCE_ID.findall(described["source"]):
            found.setdefault(hub_id.lower(), name)
    return found


def source_id(name: str) -> str | None:
    """The first hub id that the source of a catalog model names; None where there is none."""
    found = SOURCE_ID.search(_tables()[name]["source"]) if name in _tables() else None
    return found[1] if found else None


def of_hub_id(hub_id: str) -> str | None:
    """The catalog's name of the model with that hub id, or with the name that it ends with; None where it has none."""
    lowered = hub_id.lower()
    return hub_names().get(lowered) or source_ids().get(lowered) or known_name(hub_id.partition("/")[2])


def _of_hub(hub_id: str) -> Model:
    """The model of a hub id: its config.json in the local cache, else the catalog's model of its shape."""
    from lockstep.describe.workload.huggingface import read_config

    found = cached_config(hub_id)
    if found is not None:
        return replace(read_config(found), name=hub_id)
    name = of_hub_id(hub_id)
    if name is not None:
        return entry(name).model
    why = architecture(hub_id.partition("/")[2])
    missing = f"its config.json is not in the local cache; try `hf download {hub_id} config.json`, or give the file"
    raise UnknownName("model", hub_id, names(), why=f"such models are not supported: {why}" if why else missing)


def model(name_or_path: str | Path) -> Model:
    """A model by catalog name in any case, Hugging Face `config.json` (or a folder with one), own YAML file, or hub id.

    Of a hub id it is the local cache's, or the catalog's of that shape. Raises BadInput or UnknownName.
    """
    text = str(name_or_path)
    name = known_name(text)
    if name is not None:
        return entry(name).model
    if is_hub_id(text):
        return _of_hub(text)
    path = Path(text)
    path = config_in(path) or path
    if path.suffix.lower() in FILE_SUFFIXES:
        from lockstep.describe.workload.huggingface import read_config

        return read_config(path) if path.suffix.lower() == ".json" else read_model_file(path)
    wanted = ", ".join(FILE_SUFFIXES)
    if path.suffix == ".capture":
        raise BadInput("is a captured step, which memory, estimate and trace take", text)
    if os.path.isfile(path):
        neither = "is neither a script, configuration or log of known training software nor a model file"
        raise BadInput(f"{neither} ({wanted})", text)
    if "/" in text or "\\" in text:
        raise BadInput(f"a model file ends in {wanted}; give the config.json itself", text)
    why = architecture(text)
    raise UnknownName("model", text, names(), why=why and f"such models are not supported: {why}", otherwise=OTHERWISE)
