"""Logs that are damaged or mixed with other text: an answer, or one located refusal; never a traceback."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

import lockstep
from diagnosis.read.test_logs import LINES
from effort import drawn
from lockstep.base.errors import BadInput, Infeasible, LockstepError
from measure import nccl_output

RUNS = [
    *nccl_output.run("all_reduce", 8, 2e-6, 4e11),
    "+ mpirun -np 8 all_gather_perf -b 1M",
    *nccl_output.run("all_gather", 4, 3e-6, 2e11, wrong={1: ("7", "0")}),
]
STEPS = {name: text.splitlines() * 3 for name, (text, _) in LINES.items()}
JUNK = (
    "", "   ", "\x00\xff", "💥", "#", "8", "8 2", "8 2 float", "Rank 0 Pid 1 on a device 0", "=" * 3000, " " * 5000,
    "#  Rank 999999999 Group 0 Pid 1 on a device 1", "# size count type time algbw busbw", "\r", "[0] ",
    "1e400 1 float",
    "# size count type redop root " + "time algbw busbw #wrong " * 200, "all_reduce_perf alltoall_perf", "#wrong",
)  # fmt: skip
VALUES = ("nan", "inf", "-inf", "1e400", "-1", "0", "", "1e-400", "9" * 400, "0x10", "1,000", "١", "N/A", "1e18")


def damaged(lines: list[str], seed: int) -> str:
    """The lines after a few mutations, as an editor, a terminal or a full disk leaves them."""
    chance, lines = random.Random(seed), list(lines)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(lines)) if lines else 0
        line = lines[at] if lines else ""
        kind = chance.randrange(9)
        if kind == 0 and lines:
            del lines[at : at + chance.randint(1, 8)]
        elif kind == 1:
            lines[at:at] = lines[at : at + chance.randint(1, 30)]
        elif kind == 2:
            lines.insert(at, chance.choice(JUNK))
        elif kind == 3 and line:
            words = line.split(" ")
            words[chance.randrange(len(words))] = chance.choice(VALUES)
            lines[at] = " ".join(words)
        elif kind == 4 and line:
            lines[at] = line[: chance.randrange(len(line))] + chance.choice(JUNK)
        elif kind == 5:
            chance.shuffle(lines)
        elif kind == 6:
            label = chance.choice(("[0] ", "3: ", "2025-03-03T10:11:12.1Z ", "\t"))
            lines = [label + one if chance.random() < 0.8 else one for one in lines]
        elif kind == 7:
            lines = [one.lstrip("#") for one in lines]
        else:
            lines = [one + chance.choice(("", "\r", " ", "\t#")) for one in lines]
    text = "\n".join(lines)
    return text[: chance.randrange(len(text) + 1)] if chance.random() < 0.2 else text


def check_refusal(error: LockstepError, file: Path) -> None:
    """It says where: in the file, or with which option the file's gap is filled."""
    assert isinstance(error, BadInput | Infeasible)
    if isinstance(error, BadInput):
        assert error.where is not None
        assert error.where.startswith((str(file), "--", "FILE", file.name))
    assert "\n" not in str(error)


@pytest.mark.parametrize("seed", range(drawn(900)))
def test_a_damaged_nccl_tests_log_gives_a_link_or_one_refusal(seed: int, tmp_path: Path) -> None:
    file = tmp_path / "nccl.txt"
    file.write_text(damaged(RUNS, seed), encoding="utf-8", errors="surrogateescape")
    try:
        for one in lockstep.fit(file).tables:
            assert math.isfinite(one.latency_s)
            assert math.isfinite(one.bandwidth_Bps)
    except LockstepError as error:
        check_refusal(error, file)
    try:
        lockstep.diagnose(file).to_dict()
    except LockstepError as error:
        check_refusal(error, file)


@pytest.mark.parametrize("name", LINES)
def test_a_damaged_training_log_gives_an_answer_or_one_refusal(name: str, tmp_path: Path) -> None:
    file = tmp_path / "train.log"
    for seed in range(drawn(150)):
        file.write_text(damaged(STEPS[name], seed), encoding="utf-8", errors="surrogateescape")
        try:
            found = lockstep.diagnose(file).to_dict()
        except LockstepError as error:
            check_refusal(error, file)
            continue
        values = [value for log in found["logs"] for value in log["median"].values() if value is not None]
        assert all(math.isfinite(value) and value >= 0 for value in values), seed


@pytest.mark.parametrize("name", LINES)
def test_a_damaged_log_is_watched_or_refused_once(name: str, tmp_path: Path) -> None:
    file = tmp_path / "train.log"
    for seed in range(drawn(100)):
        file.write_text(damaged(STEPS[name], seed), encoding="utf-8", errors="surrogateescape")
        try:
            answer = lockstep.watch(file)
        except LockstepError as error:
            check_refusal(error, file)
            continue
        run = answer.run
        assert run.printed + run.repeated >= 1
        assert run.first_time >= 0 <= run.again
        json.dumps(answer.to_dict(), allow_nan=False)
        repr(answer)
