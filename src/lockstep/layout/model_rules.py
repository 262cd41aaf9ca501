"""Rules about what a model is: images, or an encoder with a decoder. Part of the table of `rules.py`."""

from __future__ import annotations

from lockstep.layout.rule import Rule

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
        "objective without images",
        "--train",
        lambda g, j: j.images and j.recipe.objective.forwards > 1,
        lambda x, j: f"{j.recipe.objective.name} trains on answers in text, and {j.model.name} reads images",
    ),
    Rule(
        "packing without images",
        "--sample-tokens",
        lambda g, j: j.images and j.recipe.sample_tokens is not None,
        lambda x, j: f"samples are packed into sequences of text, and {j.model.name} reads images; leave it out",
    ),
)
