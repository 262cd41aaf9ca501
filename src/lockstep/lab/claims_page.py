"""Writes `docs/reference/claims.md`: `python -m lockstep.lab.claims_page > docs/reference/claims.md`.

A test compares the page with what this prints, so the page changes in the commit that changes a claim.
"""

from __future__ import annotations

from lockstep.lab.claims import claims

HEAD = """# Claims, and the experiments that decide them

What the literature, textbooks and common advice say about how many steps training takes, as the
[lab](../use/converge.md) finds it. Each line is held or contradicted by the named checks of an experiment, with every
test run; `lockstep converge EXPERIMENT --plot a.png` draws it. Ids are those of the collection of claims that the lab
was built against: A true-or-false statements, T theorems, B proof problems, C exercises, H homework; F, N and A1-2 are
errata of these.

| claim | | experiment | ids |
|---|---|---|---|
"""
TAIL = """
## Not decided by the lab

- **Other verbs decide** A.3, A.4, A.8, A.11, A.13 to A.15, T5, T10, B.3, B.4, B.6, B.10, B.12, B.13, B.15, B.17, B.19,
  C.1, C.2, C.4, C.5, C.8, C.10 to C.12, C.14, C.17, C.18, C.20 and the table of messages: seconds, bytes, memory and
  failures (`collective`, `messages`, `pipeline`, `overlap`, `balance`, `experts`, `speedup`, `checkpoint`, `campaign`);
  their errata line by line: [claims about seconds, bytes and memory](system-claims.md).
- **Theorems of the literature that no run can decide**: lower bounds over all methods (F14: rounds of convex problems;
  F24: delay without noise) and rates in O (F11, F49 beyond the quadratic).
- **Nothing to run**: errata of wording, units, signs in a proof and names (F05, F06, F19, F27, F39, F64, F92, A12-3,
  A12-7, A16-3, A16-5), and arithmetic on runs without a source (most of N).
"""


def page() -> str:
    """The text of the page."""
    lines = [HEAD.rstrip("\n")]
    for claim in claims():
        said = claim.statement.replace("|", r"\|")
        lines.append(
            f"| {said} | {'holds' if claim.holds else 'false'} | `{claim.experiment}` | {' '.join(claim.ids)} |"
        )
    return "\n".join(lines) + "\n" + TAIL


if __name__ == "__main__":
    print(page(), end="")
