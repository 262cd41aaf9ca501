"""What follows the last layer of a Hugging Face model, which `architectures` names: `with_head(model, kind, config)`.

    ...ForCausalLM, ...LMHeadModel, ...ForConditionalGeneration, ...ForImageClassification    as the family has it
    ...ForSequenceClassification, ...ForTokenClassification, ...ForQuestionAnswering          a classifier
    ...Model                                                                                  nothing (BERT: a pooler)
    BertFor..., RobertaFor...                                                                 as ENCODERS lists

A file without `architectures` is a model of its family's first kind; BERT's is then the bare model with its pooler.
A class that is not here is refused: its head would be counted as another. Labels are those of `id2label`, or
`num_labels`, or two. Source: `modeling_*.py` of github.com/huggingface/transformers, 5.24.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NoReturn

from lockstep.base.errors import BadInput
from lockstep.base.types.plain import Json
from lockstep.describe.workload.architecture import Transformer
from lockstep.describe.workload.checks import shortened
from lockstep.describe.workload.classifier import Classifier
from lockstep.describe.workload.config_reader import ConfigReader

WHOLE = ("ForCausalLM", "LMHeadModel", "LMHeadCustomModel", "ForConditionalGeneration", "ForImageClassification")
"""Ends of names of classes whose head is the one that the family's reader describes."""
ENCODERS = ("bert", "roberta")
IMAGES = ("resnet", "vit", "dit")
QUESTION = 2
"""Labels of a question answerer: where the answer begins, and where it ends."""
OTHER_NAMES = {"hunyuan_v1_dense": "hunyuandensev1"}


def head_of(config: ConfigReader) -> str:
    """The class that `architectures` names first, empty without one. Raises BadInput at "file:line"."""
    names = config.words("architectures")
    if not all(isinstance(name, str) for name in names):
        raise BadInput(f"architectures must list names, got {shortened(names)}", config.where("architectures"))
    return names[0] if names else ""


def is_bare(name: str, kind: str) -> bool:
    """Whether a class is that of a family's layers alone: LlamaModel for llama, Qwen2VLTextModel for qwen2_vl_text."""
    stem = re.sub(r"[^a-z0-9]", "", name.removesuffix("Model").lower())
    return name.endswith("Model") and stem == OTHER_NAMES.get(kind, kind.replace("_", ""))


def with_head(model: Transformer, kind: str, config: ConfigReader) -> Transformer:
    """`model`, which the reader of model type `kind` made, with the head of the class that the file names.

    Raises BadInput at the line of `architectures` where that head is not described.
    """
    name = head_of(config)
    inner = str(config.data.get("model_type"))
    if not name or (name.endswith(WHOLE) and kind not in ENCODERS):
        return model
    if kind in IMAGES:
        return model if is_bare(name, kind) else refuse_head(name, config)
    if is_bare(name, kind) or is_bare(name, inner):
        bare = model if kind in ENCODERS else replace(model, headless=True, **BARE)
        return _noted(bare, name, "no head follows the last layer") if bare.headless else bare
    changed = _of_encoder(name, config) if kind in ENCODERS else _of_decoder(name, kind, config)
    if changed is None:
        refuse_head(name, config)
    found = replace(model, **changed)
    return found if found.classifier is None else _noted(found, name, _labelled(found.classifier))


BARE: Json = {"tied_embeddings": False, "head_bias": False, "mtp_layers": 0}
"""Fields of a model whose hidden states are not projected onto the vocabulary."""


def scored(model: Transformer) -> Transformer:
    """A language model with one score of every token in place of its projection onto the vocabulary."""
    return replace(model, mlm_head=False, classifier=Classifier(labels=1), **BARE) if model.has_head else model


def _of_decoder(name: str, kind: str, config: ConfigReader) -> Json | None:
    """The fields that a class's head changes in a model with a decoder."""
    pairs = kind in ("t5", "mt5")
    if name.endswith("ForSequenceClassification"):
        classifier = Classifier(labels=labels(config), bias=pairs, per_sequence=pairs, dense=pairs)
    elif name.endswith("ForTokenClassification") and not pairs:
        classifier = Classifier(labels=labels(config), bias=config.flag("token_classification_bias", default=True))
    elif name.endswith("ForQuestionAnswering"):
        classifier = Classifier(labels=labels(config) if pairs else QUESTION, bias=True)
    else:
        return None
    return {**BARE, "classifier": classifier}


def _of_encoder(name: str, config: ConfigReader) -> Json | None:
    """The fields that a class's head changes in a BERT or RoBERTa."""
    roberta, number = name.startswith("Roberta"), labels(config)
    masked: Json = {"mlm_head": True, "head_bias": True}
    pooled = {"bias": True, "per_sequence": True}
    heads: dict[str, Json] = {
        "MaskedLM": {**masked, "pooler": False},
        "LMHeadModel": {**masked, "pooler": False},
        "CausalLM": {**masked, "pooler": False},
        "PreTraining": {**masked, "classifier": Classifier(labels=2, **pooled)},
        "NextSentencePrediction": {"classifier": Classifier(labels=2, **pooled)},
        "MultipleChoice": {"classifier": Classifier(labels=1, **pooled)},
        "SequenceClassification": {
            "pooler": not roberta, "classifier": Classifier(labels=number, dense=roberta, **pooled)
        },
        "TokenClassification": {"pooler": False, "classifier": Classifier(labels=number, bias=True)},
        "QuestionAnswering": {"pooler": False, "classifier": Classifier(labels=number, bias=True)},
    }  # fmt: skip
    return heads.get(re.sub("^(Bert|Roberta)(For)?", "", name))


def labels(config: ConfigReader, minimum: int = 1) -> int:
    """Labels of a classifier. Raises BadInput where `id2label` and `num_labels` are of different numbers."""
    table = config.data.get("id2label")
    given = config.size("num_labels", limit="vocab", default=2)
    if not isinstance(table, dict):
        return given
    if config.has("num_labels") and given != len(table):
        raise BadInput(f"num_labels={given}, but id2label lists {len(table)}", config.where("num_labels"))
    if len(table) < minimum:
        config.refuse("id2label", "a classifier has a label or more")
    return len(table)


def _labelled(classifier: Classifier) -> str:
    """A short description of a classifier."""
    of = "sequence" if classifier.per_sequence else "token"
    plural = "s" if classifier.labels > 1 else ""
    return f"a classifier of {classifier.labels:,} label{plural} per {of} follows the last layer"


def _noted(model: Transformer, name: str, what: str) -> Transformer:
    instead = "beside" if model.has_head else "in place of"
    head = "" if model.classifier is None else f" {instead} the projection onto the vocabulary"
    return replace(model, notes=(*model.notes, f"architectures is {name[:80]}: {what}{head}"))


def refuse_head(name: str, config: ConfigReader) -> NoReturn:
    """Raises BadInput at `architectures`, which names a class whose last layers are not described."""
    raise BadInput(
        f"architectures={shortened(name)} is not supported: what follows its last layer is not described; "
        "supported are causal language models, classifiers of sequences and of tokens, and bare models",
        config.where("architectures"),
    )
