"""The page of experiments has the questions, settings and limits of the code.

What they find is held in test_converge_verb, which runs them.
"""

import re
from pathlib import Path
from types import ModuleType

from lockstep.learn.lab import Findings


def test_questions_defaults_and_limits_are_those_of_the_code(pages: ModuleType) -> None:
    findings = re.escape(pages.FINDINGS_HEAD) + r"\n(\|.*\n)+\n"
    page = Path(__file__).parents[2] / "docs" / "reference" / "experiments.md"
    without = re.sub(findings, "", page.read_text(encoding="utf-8"))
    assert without.strip() == pages.experiments_page(lambda name: Findings(())).strip()
