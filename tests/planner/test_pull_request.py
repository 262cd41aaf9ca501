"""The action for pull requests (`action.yml`): its script on a repository that the test makes, as CI runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import lockstep
from lockstep.decide.planner.comparison import compare

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tools" / "pull_request.sh"
EXAMPLE = (ROOT / "examples" / "megatron.sh").read_text("utf-8")
CLUSTER = "dgx-h100:8"
WIDE = EXAMPLE.replace("TP=8", "TP=4").replace("PP=4", "PP=8")
SLOW = EXAMPLE.replace("--sequence-parallel", "--sequence-parallel --recompute-granularity full "
                       "--recompute-method uniform --recompute-num-layers 1")  # fmt: skip
TOO_LARGE = EXAMPLE.replace("TP=8", "TP=1").replace("PP=4", "PP=1")
GH = """#!/bin/sh
echo "$@" >> "$GH_LOG"
case "$*" in *--jq*) cat "$GH_FOUND" ;; *) cat >> "$GH_LOG" ;; esac
"""


class Repository:
    """A repository with a launch script on its main branch, and a change on another."""

    def __init__(self, folder: Path, changes: dict[str, str | None], before: dict[str, str]) -> None:
        self.folder = folder / "repository"
        self.folder.mkdir()
        self.git("init", "-q", "-b", "main")
        self.commit({**before, "README.md": "A file that is no run.\n"})
        self.git("checkout", "-q", "-b", "change")
        self.commit(changes)

    def git(self, *words: str) -> None:
        who = ("-c", "user.name=Anybody", "-c", "user.email=anybody@example.com", "-c", "core.hooksPath=/dev/null")
        subprocess.run(["git", *who, *words], cwd=self.folder, check=True, capture_output=True)

    def commit(self, files: dict[str, str | None]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink() if text is None else path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "any change")

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        given = {
            **os.environ, "PYTHON": sys.executable, "BASE": "main", "CLUSTER": CLUSTER, "FILES": "*.sh *.json *.yaml",
            "GITHUB_ACTIONS": "false", **environment,
        }  # fmt: skip
        return subprocess.run(["bash", str(SCRIPT)], cwd=self.folder, env=given, capture_output=True, text=True)


def test_the_comment_states_what_compare_says(tmp_path: Path) -> None:
    there = Repository(tmp_path, {"train/run.sh": WIDE, "notes.json": "{}"}, {"train/run.sh": EXAMPLE})
    found = there.run()
    assert found.returncode == 0, found.stderr
    (row,) = (line for line in found.stdout.splitlines() if line.startswith("| `"))
    sides = []
    for name, text in (("a", EXAMPLE), ("b", WIDE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.sh").write_text(text)
        sides.append(lockstep.estimate(tmp_path / name / "run.sh", CLUSTER))
    between = compare(*sides)
    assert between.in_common
    a, b = sides
    assert f"| {a.step_time_s:.3g} s → {b.step_time_s:.3g} s ({b.interval.low:.3g} to {b.interval.high:.3g} s" in row
    assert f"{between.ratio - 1:+.1%} ({between.interval.low:+.1%} to {between.interval.high:+.1%})" in row
    assert f"{float(a.memory.total_B) / 2**30:.1f} GiB → {float(b.memory.total_B) / 2**30:.1f} GiB" in row
    assert "tp 8 → 4" in found.stdout
    assert "Not read as runs: `notes.json`." in found.stdout


@pytest.mark.parametrize(("text", "code", "said"), [
    (SLOW, 1, "time, more than 10.0%"), (TOO_LARGE, 1, "does not fit in memory"), (WIDE, 0, ""),
])  # fmt: skip
def test_a_change_beyond_the_threshold_fails(text: str, code: int, said: str, tmp_path: Path) -> None:
    there = Repository(tmp_path, {"run.sh": text}, {"run.sh": EXAMPLE})
    found = there.run()
    assert (found.returncode, said in found.stdout) == (code, True), found.stdout + found.stderr
    if text == SLOW:
        assert there.run(FAIL_ABOVE="80%").returncode == 0


def test_new_and_deleted_and_broken_files_are_listed(tmp_path: Path) -> None:
    broken = EXAMPLE.replace("--num-layers 80", "--num-layers eighty")
    there = Repository(
        tmp_path, {"new.sh": EXAMPLE, "old.sh": None, "broken.sh": broken}, {"old.sh": EXAMPLE, "broken.sh": EXAMPLE}
    )
    found = there.run()
    assert found.returncode == 0, found.stderr
    rows = {line.split("`")[1]: line for line in found.stdout.splitlines() if line.startswith("| `")}
    assert {name: "→" in line for name, line in rows.items()} == {"new.sh": False, "old.sh": False, "broken.sh": False}
    assert re.search(r"- `broken.sh`: .*eighty", found.stdout)


def test_options_hold_for_both_sides_and_models_are_given_to_files_without_one(tmp_path: Path) -> None:
    config = {"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True},
              "train_batch_size": 64}  # fmt: skip
    later = {**config, "zero_optimization": {"stage": 2}}
    there = Repository(tmp_path, {"ds.json": json.dumps(later)}, {"ds.json": json.dumps(config)})
    found = there.run(MODEL="llama3-8b", OPTIONS="--seq 4096 --stack deepspeed", CLUSTER="dgx-h100:1")
    assert found.returncode == 0, found.stderr
    assert "zero 3 → 2" in found.stdout
    assert "ds.json does not say which model is trained" in there.run(CLUSTER="dgx-h100:1").stdout


@pytest.mark.parametrize("earlier", ["", "17\n"])
def test_a_pull_request_is_commented_once(earlier: str, tmp_path: Path) -> None:
    there = Repository(tmp_path, {"run.sh": WIDE}, {"run.sh": EXAMPLE})
    tools, log, event = tmp_path / "bin", tmp_path / "log", tmp_path / "event.json"
    tools.mkdir()
    (tools / "gh").write_text(GH)
    (tools / "gh").chmod(0o755)
    (tmp_path / "found").write_text(earlier)
    event.write_text(json.dumps({"pull_request": {"number": 4}}))
    found = there.run(
        COMMENT="true", GITHUB_ACTIONS="true", GITHUB_REPOSITORY="any/one", GITHUB_EVENT_PATH=str(event),
        GITHUB_STEP_SUMMARY=str(tmp_path / "summary"), GH_LOG=str(log), GH_FOUND=str(tmp_path / "found"),
        PATH=f"{tools}:{os.environ['PATH']}",
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "summary").read_text() == found.stdout
    listed, sent, body = log.read_text().splitlines()
    assert listed.startswith("api --paginate repos/any/one/issues/4/comments")
    place = "--method PATCH repos/any/one/issues/comments/17" if earlier else "repos/any/one/issues/4/comments"
    assert sent == f"api {place} --input -"
    assert json.loads(body)["body"] == found.stdout


def test_wrong_commits_are_bad_input(tmp_path: Path) -> None:
    there = Repository(tmp_path, {"run.sh": WIDE}, {"run.sh": EXAMPLE})
    found = there.run(BASE="nowhere")
    assert (found.returncode, "nowhere" in found.stderr) == (2, True)


def test_the_action_hands_every_input_to_the_script() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    step = action["runs"]["steps"][-1]
    read = set(re.findall(r"\$\{?([A-Z_]+)", SCRIPT.read_text("utf-8")))
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(step["env"])))
    assert used == set(action["inputs"])
    assert set(step["env"]) - {"GH_TOKEN"} <= read
    # Text of an input inside the script would be run as code.
    assert "${{" not in step["run"]
