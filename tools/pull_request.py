"""What the change of a branch does to the runs that its files describe: step, memory, cost, as a comment in Markdown.

    python tools/pull_request.py --base origin/main --cluster dgx-h100:8 -- --seq 8192

Every file that differs between two commits, and is the configuration of a run that `lockstep estimate FILE` reads, is
compared as it was where the branch began with what it is now. Both trees are checked out beside one another, as a
launch script may name other files. After `--` come options of `lockstep estimate`, which hold for both.

The exit code is 1 where a step became slower than `--fail-above` allows and the comparison is conclusive, or where a
run no longer fits; 2 for bad input. The text goes to standard output; in GitHub Actions to the summary of the job as
well, and with `--comment` to the pull request, through `gh`, where the comment of an earlier push is replaced.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockstep.base.errors import LockstepError
from lockstep.show.verbs.words.plan_file import plan_given

MARK = "<!-- lockstep: predicted change of runs -->"
"""By which the comment of an earlier push is found."""
MOST_FILES = 50
"""That are compared; others are named."""


@dataclass(frozen=True)
class Row:
    """A file of a run, before and after."""

    path: str
    before: dict[str, Any] | None = None
    """`estimate --json` of either side; None where the file is new, gone, or no run that can be read."""
    after: dict[str, Any] | None = None
    compared: dict[str, Any] | None = None
    """`compare --json`."""
    refused: str = ""
    """Why it is not compared."""

    def failures(self, above: float) -> list[str]:
        """Why the change must not be merged, in words."""
        found = []
        if self.compared and self.compared["difference_frac"] > above and not self.compared["inconclusive"]:
            found.append(f"{self.path}: {self.compared['difference_frac']:+.1%} time, more than {above:.1%}")
        if self.after and not self.after["memory"]["fits"] and (self.before is None or self.before["memory"]["fits"]):
            found.append(f"{self.path}: does not fit in memory")
        return found


def git(*words: str, folder: Path = Path()) -> str:
    """What git prints. Raises CalledProcessError."""
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def changed(base: str, head: str, patterns: Sequence[str]) -> list[str]:
    """Files that differ between the commits and have one of the names, with those that are new or gone."""
    names = git("diff", "--name-only", "--no-renames", "-z", base, head).split("\0")
    return [name for name in names if name and any(fnmatch.fnmatch(name, one) for one in patterns)]


@contextmanager
def trees(*commits: str) -> Iterator[list[Path]]:
    """Each commit checked out in a folder of its own while the context lasts."""
    with tempfile.TemporaryDirectory() as folder:
        made = [Path(folder, str(number)) for number in range(len(commits))]
        try:
            for path, commit in zip(made, commits, strict=True):
                git("worktree", "add", "--quiet", "--detach", str(path), commit)
            yield made
        finally:
            for path in made:
                subprocess.run(["git", "worktree", "remove", "--force", str(path)], capture_output=True, check=False)


def lockstep(verb: str, *words: str, folder: Path) -> tuple[dict[str, Any] | None, str]:
    """The JSON of a command, or None and what it says against the question."""
    command = [sys.executable, "-m", "lockstep", verb, *words, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    answer: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    if done.returncode == 0 or "step_time_s" in answer:
        return answer, ""
    return None, str(answer.get("why") or done.stderr.strip().removeprefix("error: "))


def row(path: str, before: Path, after: Path, model: str, options: Sequence[str]) -> Row | None:
    """A file before and after; None of one that describes no run on either side."""
    name = f"{model}@{path}" if model else path
    sides, refused = [], []
    for tree in (before, after):
        answer, why = lockstep("estimate", name, *options, folder=tree) if (tree / path).is_file() else (None, "")
        sides.append(answer)
        refused += [why] if why else []
    if not any(sides):
        known = any(describes_run(tree / path) for tree in (before, after))
        return Row(path, refused=refused[-1]) if known and refused else None
    if not all(sides):
        return Row(path, *sides, refused=refused[-1] if refused else "")
    pair = [str(tree / path) for tree in (before, after)]
    names = [f"{model}@{one}" if model else one for one in pair]
    compared, why = lockstep("compare", *names, *options, folder=after)
    return Row(path, *sides, compared=compared, refused=why)


def describes_run(path: Path) -> bool:
    """Whether a file is a plan, or in a format of other software, whatever of it may be wrong."""
    try:
        return path.is_file() and plan_given(str(path), ("*",)) is not None
    except LockstepError:
        return False


def text(rows: Sequence[Row], failures: Sequence[str], cluster: str, unread: Sequence[str]) -> str:
    """The comment."""
    lines = [MARK, f"### Predicted change of {len(rows)} run{'' if len(rows) == 1 else 's'} on `{cluster}`", ""]
    if not rows:
        return "\n".join([*lines, f"No file that describes a run has changed.{_unread(unread)}", ""])
    lines += ["| run | step | change of time per token | memory | cost per million tokens |", "|---|---|---|---|---|"]
    lines += [f"| `{one.path}` | {step(one)} | {change(one)} | {memory(one)} | {cost(one)} |" for one in rows]
    lines += ["", *(f"- **{one}**" for one in failures)]
    lines += [f"- `{one.path}`: {one.refused}" for one in rows if one.refused]
    settings = [f"- `{one.path}`: {settings_of(one)}" for one in rows if one.compared and one.compared["changed"]]
    if settings:
        lines += ["", "<details><summary>Settings that differ</summary>", "", *settings, "", "</details>"]
    return "\n".join([*lines, "", f"Predicted by `lockstep compare`; nothing was run.{_unread(unread)}", ""])


def _unread(names: Sequence[str]) -> str:
    """Files of the change that were not taken for runs."""
    shown = ", ".join(f"`{one}`" for one in names[:10]) + (", ..." if len(names) > 10 else "")
    return f" Not read as runs: {shown}." if names else ""


def step(one: Row) -> str:
    """Seconds of a step, before and after, with the interval of the latter."""
    said = arrow([f"{side['step_time_s']:.3g} s" if side else None for side in (one.before, one.after)])
    if one.after is None:
        return said
    between = one.after["interval"]
    return f"{said} ({between['low']:.3g} to {between['high']:.3g} s in {between['level_frac']:.0%})"


def change(one: Row) -> str:
    """The change with its interval, and whether it is more than the error."""
    if one.compared is None:
        return "-"
    between, size = one.compared["interval"], one.compared["difference_frac"]
    said = f"{size:+.1%} ({between['low']:+.1%} to {between['high']:+.1%})"
    return f"{said}, within the error" if one.compared["inconclusive"] else said


def memory(one: Row) -> str:
    """Bytes on the fullest device, and whether they fit."""
    sizes = [f"{side['memory']['total_B'] / 2**30:.1f} GiB" if side else None for side in (one.before, one.after)]
    fits = "" if one.after is None or one.after["memory"]["fits"] else ", does not fit"
    return arrow(sizes) + fits


def cost(one: Row) -> str:
    """Dollars of a million tokens."""
    prices = [side.get("cost_per_token") if side else None for side in (one.before, one.after)]
    return arrow([None if price is None else f"${price * 1e6:.3g}" for price in prices])


def arrow(pair: Sequence[str | None]) -> str:
    """Before and after, one of them where they are equal or the other is missing."""
    found = list(dict.fromkeys(one for one in pair if one is not None))
    return " → ".join(found) if found else "-"


def settings_of(one: Row) -> str:
    """What was set otherwise."""
    differing = one.compared["changed"] if one.compared else []
    return ", ".join(f"{each['setting']} {each['a']} → {each['b']}" for each in differing)


def publish(said: str, comment: bool) -> None:
    """Standard output; inside GitHub Actions the job's summary, and the pull request where that is asked for."""
    sys.stdout.write(said)
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(summary, "a", encoding="utf-8") as file:
            file.write(said)
    event = os.environ.get("GITHUB_EVENT_PATH")
    about = json.loads(Path(event).read_text("utf-8")) if comment and event else {}
    if "pull_request" in about:
        _comment(said, os.environ["GITHUB_REPOSITORY"], about["pull_request"]["number"])


def _comment(said: str, repository: str, number: int) -> None:
    """Writes the comment, or replaces that of an earlier push; a token that may not is said and fails nothing."""
    place = f"repos/{repository}/issues/{number}/comments"
    find = ["gh", "api", "--paginate", place, "--jq", f'.[] | select(.body | startswith("{MARK}")) | .id']
    try:
        found = subprocess.run(find, check=True, capture_output=True, text=True).stdout.split()
        to = ["--method", "PATCH", f"repos/{repository}/issues/comments/{found[0]}"] if found else [place]
        subprocess.run(["gh", "api", *to, "--input", "-"], input=json.dumps({"body": said}), check=True, text=True,
                       capture_output=True)  # fmt: skip
    except (OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"no comment: {getattr(error, 'stderr', None) or error}\n")


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compare the runs that a branch changes.")
    parser.add_argument("--base", required=True, help="commit or branch that the change is to be merged into")
    parser.add_argument("--head", default="HEAD", help="commit of the change")
    parser.add_argument("--cluster", required=True, help="cluster, as lockstep estimate takes it")
    parser.add_argument("--model", default="", help="model of files that have none of their own, as DeepSpeed's JSON")
    parser.add_argument("--files", default="*.sh *.yaml *.yml *.json *.toml *.py", help="names of files, with * and ?")
    parser.add_argument("--fail-above", default="10%", help="most that a run may become slower, as 10%% or 0.1")
    parser.add_argument("--comment", action="store_true", help="comment on the pull request, through gh")
    parser.add_argument("options", nargs="*", help="options of lockstep estimate, after --")
    return parser


def fraction(said: str) -> float:
    """Of `10%` or `0.1`. Raises SystemExit."""
    try:
        return float(said.removesuffix("%")) / (100 if said.endswith("%") else 1)
    except ValueError:
        sys.exit(f"--fail-above: {said!r} is no fraction; give one as 10%")


def main() -> int:
    """Compares, publishes, and returns the exit code."""
    asked = arguments().parse_args()
    above = fraction(asked.fail_above)
    try:
        begun = git("merge-base", asked.base, asked.head).strip()
        names = changed(begun, asked.head, asked.files.split())
        with trees(begun, asked.head) as (before, after):
            options = ["--cluster", asked.cluster, *asked.options]
            found = [row(name, before, after, asked.model, options) for name in names[:MOST_FILES]]
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"{' '.join(error.cmd)}: {error.stderr.strip()}\n")
        return 2
    rows = [one for one in found if one is not None]
    unread = [*(name for name, one in zip(names, found, strict=False) if one is None), *names[MOST_FILES:]]
    failures = [why for one in rows for why in one.failures(above)]
    publish(text(rows, failures, asked.cluster, unread), asked.comment)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
