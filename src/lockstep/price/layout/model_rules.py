"""Rules about what a model is: images, or an encoder with a decoder. Part of the table of `rules.py`."""

from __future__ import annotations

from lockstep.price.layout.rule import Rule

MODEL_RULES = (
    Rule(
        "cp without images",
        "--cp",
        lambda g, j: (g.cp > 1) & (j.images and j.transformer is not None),
        lambda x, j: (
            f"cp={x.cp} splits long sequences, and {j.model.name} reads images of {j.recipe.seq:,} tokens; use cp=1"
        ),
    ),
    Rule(
        "stages without an encoder",
        "--pp",
        lambda g, j: (g.pp > 1) & j.crosses,
        lambda x, j: (
            f"pp={x.pp} stages of {j.model.name} are not priced: every layer of its decoder reads the encoder's "
            "output, which would travel along; use pp=1"
        ),
    ),
    Rule(
        "cp without an encoder",
        "--cp",
        lambda g, j: (g.cp > 1) & j.crosses,
        lambda x, j: (
            f"cp={x.cp} is not priced for {j.model.name}: its decoder's ranks would exchange the encoder's keys and "
            "values too; use cp=1"
        ),
    ),
    Rule(
        "async tp without an encoder",
        "--overlap-tp",
        lambda g, j: (g.tp > 1) & (j.crosses and j.recipe.overlap_tp == "async"),
        lambda x, j: (
            f"asynchronous tensor parallelism is not priced for {j.model.name}, whose decoder reads two streams; use "
            "--overlap-tp gradients"
        ),
    ),
    Rule(
        "objective without images",
        "--train",
        lambda g, j: j.images and j.recipe.objective.repeats,
        lambda x, j: f"{j.recipe.objective.name} trains on answers in text, and {j.model.name} reads images",
    ),
    Rule(
        "packing without images",
        "--sample-tokens",
        lambda g, j: j.images and j.recipe.sample_tokens is not None,
        lambda x, j: f"samples are packed into sequences of text, and {j.model.name} reads images; leave it out",
    ),
)
