"""A share of what `tools/claim_mutants.py` measures: a decider that is changed in one place is noticed by its checks.

Here a draw from the files whose checks are quick.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import claim_mutants
from effort import drawn

QUICK = ("pipelines", "scaling", "tensors", "layouts", "listings", "kept_runs")


def test_mutants_of_deciders_are_caught() -> None:
    """In a process of its own, as it forks."""
    command = [sys.executable, claim_mutants.__file__, "--count", "24", "--only", *QUICK]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.startswith("24 of 24 caught"), said


DRAWN = """
import random, sys
sys.path.insert(0, sys.argv[1])
import claim_mutants
draw = random.Random(1).sample
mutants = draw(claim_mutants.mutants(False), 40)
print(*[one.id for one in mutants if not claim_mutants.deciding(one)])
found = sorted((claim_mutants.SOURCE / claim_mutants.EXPERIMENTS).rglob("*.py"))
experiments = draw([one.stem for one in found if claim_mutants.named(str(one))], int(sys.argv[2]))
print(*[one for one in experiments if not claim_mutants.mutants(True, [one])])
"""


def test_every_mutant_is_covered_by_a_check() -> None:
    """In a process of its own, as what checks read of an experiment is seen by running its file once more.

    Of the lab only what its checks read is changed, so there each mutant is decided and each file must have some.
    """
    command = [sys.executable, "-c", DRAWN, str(Path(claim_mutants.__file__).parent), str(drawn(12))]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == []


def test_a_mutated_constant_affects_all_its_users() -> None:
    file = f"{claim_mutants.DECIDERS}/pipelines.py"
    line = next(
        place
        for place, text in enumerate((claim_mutants.SOURCE / file).read_text().splitlines(), 1)
        if text.startswith("FORWARD_S")
    )
    assert claim_mutants.users(file, line) == {"FORWARD_S", "BACKWARD_S", "speedup"}
