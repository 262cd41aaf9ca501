"""How far the rules of thumb are from the planner: random questions, the share answered and the distance from the best.

    python benchmarks/guide.py [QUESTIONS]

Models of 0.03 to 236 billion parameters, devices of 16 to 80 GB, nodes of 1 to 8, 1 to 32 nodes on InfiniBand or
10 Gbit/s Ethernet, batches from 8 to 1000: many questions have no answer, and are not counted. The seed is fixed.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace

import numpy as np

from lockstep.decide.planner.guide import Guidance, guide
from lockstep.describe.hardware import Level, cluster, link
from lockstep.show.verbs.words.question import read_question

MODELS = (
    "gpt2", "bert-large", "resnet50", "gpt3-6b7", "llama3-8b", "mixtral-8x7b", "llama2-70b", "llama3-70b",
    "deepseek-v2",
)  # fmt: skip
CLUSTERS = ("dgx-a100-40gb", "dgx-h100", "workstation-4090", "ethernet-10-v100")


def asked(chance: random.Random) -> Guidance:
    """The guide's answer to a random question."""
    name, base = chance.choice(MODELS), cluster(chance.choice(CLUSTERS))
    inner = replace(base.levels[0], size=chance.choice((1, 2, 4, 8)))
    nodes, outside = chance.choice((1, 2, 3, 4, 8, 16, 32)), link(chance.choice(("ndr", "edr", "ethernet-10")))
    machine = replace(base, levels=(inner, Level("nodes", nodes, outside)))
    seq = None if name == "resnet50" else chance.choice((512, 2048, 8192))
    question = read_question(name, machine, batch=chance.choice((8, 32, 64, 96, 256, 1000)), seq=seq)
    return guide(question.model, question.cluster, question.recipe)


def main(questions: int = 400) -> None:
    """Asks and prints the distribution."""
    chance = random.Random(0)
    found = [asked(chance) for _ in range(questions)]
    answered = [one for one in found if one.optimum is not None]
    slower = np.array([one.slower_frac for one in answered if one.slower_frac is not None])
    print(f"{len(answered)} of {questions} questions have an answer; the rules find a layout for {len(slower)}")
    print(f"within 5 % of the best: {np.mean(slower <= 0.05):.0%}")
    for share in (0.5, 0.9, 1.0):
        print(f"slower than the best, {share:.0%} quantile: {np.quantile(slower, share):.0%}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
