"""`watch`: steps, restarts, rates, drift and the interval, beside runs that are made up and so known, and real logs."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import sys
import tracemalloc
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import lockstep
from cli_runner import run
from diagnosis.read.test_logs import LINES, bar
from effort import drawn
from lockstep.base.errors import BadInput
from lockstep.explain.watch.held import IN_A_ROW, WARM_UP
from lockstep.explain.watch.series import Series
from lockstep.show.verbs.watch import watching
from published_traces import published_trace

EXAMPLE = Path(__file__).parents[2] / "examples" / "watched.log"
RUN: dict[str, Any] = {"model": "llama3-8b", "cluster": "dgx-h100:2", "zero": 1, "tp": 2, "batch": 128, "seq": 8192}
START = datetime(2026, 3, 2, 10, 0, 0)
WORLD = "using world size: {}, data-parallel-size: 1\n"


def megatron(step: int, seconds: float, at_s: float, last: int = 1000) -> str:
    """A line of Megatron-LM, stamped."""
    now = START + timedelta(seconds=at_s)
    return (
        f" [{now:%Y-%m-%d %H:%M:%S.%f}] iteration {step:8d}/{last:8d} | consumed samples: {step * 4:12d} | elapsed "
        f"time per iteration (ms): {seconds * 1e3:.1f} | global batch size:     4 | lm loss: 2.0 |\n"
    )


def steps(numbers: list[int], seconds: float = 1.0, begin_s: float = 0.0) -> str:
    return "".join(megatron(step, seconds, begin_s + seconds * at) for at, step in enumerate(numbers, 1))


def written(tmp_path: Path, text: str, name: str = "run.log") -> Path:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text, encoding="utf-8")
    return path


NUMBERED = {
    "megatron": (20, 1.5727, 1000), "megatron, in seconds": (34, 4.1, 10000), "torchtitan": (4, None, None),
    "nanotron": (327281, 11.5, 378950), "nanotron, later": (191, 0.0569, 200), "deepspeed": (4500, None, None),
    "deepspeed, pipelines": (10, 11.901, None), "llm-foundry": (10, 10.0, 100), "maxtext": (9, 5.667, None),
    "maxtext, of 2023": (5, 0.278, None), "maxtext, of 2026": (2, 0.5, None), "nemo": (5, 6.123, None),
    "nemo, other order": (1, 12350.0, None), "nemo, a bar": (19, None, None), "olmo-core": (2, 1 / 3.939, 9000),
    "nanogpt": (1631, 0.56194, None), "nanogpt, nanochat": (4, 0.98944, 21400), "nanogpt, modded": (2245, None, 2245),
}  # fmt: skip
"""Program: the last step in its line, its seconds (None where a single line does not say them), and the run's last."""


def test_every_program_whose_lines_number_steps_is_covered() -> None:
    assert {*LINES} - {*NUMBERED} == {"hf-trainer", "mlperf"}


@pytest.mark.parametrize("name", NUMBERED)
def test_steps_of_every_program_are_read_from_its_public_lines(name: str, tmp_path: Path) -> None:
    text, (number, seconds, last) = LINES[name][0], NUMBERED[name]
    found = [event.about for _, event in watching([written(tmp_path, text)]) if event and event.kind == "step"]
    answer = lockstep.watch(tmp_path / "run.log")
    assert answer.programs == (name.partition(",")[0],)
    assert answer.run.newest is not None
    assert (answer.run.newest.step, answer.run.last) == (number, last)
    if seconds is not None:
        assert found[-1]["step_time_s"] == pytest.approx(seconds)


class Truth:
    """A made-up job, and what anybody who keeps count of it knows."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.every, self.seconds = chance.choice((1, 5, 10)), round(chance.uniform(0.2, 9.0), 4)
        self.restarts, self.done, self.lines, self.text, now = list[int](), set[int](), 0, "", 0.0
        self.again = 0
        saved = 0
        for attempt in range(chance.randint(1, 5)):
            self.text += WORLD.format(8)
            last = saved + self.every * chance.randint(2, 40)
            if attempt:
                self.restarts.append(max(self.done) - saved)
            now += chance.uniform(1, 500)
            for step in range(saved + 1, last + 1):
                self.again += step in self.done
                self.done.add(step)
                now += self.seconds
                if step % self.every == 0:
                    self.text += megatron(step, self.seconds, now)
                    self.lines += 1
                if chance.random() < 0.3:
                    self.text += chance.choice(("", "saving checkpoint at iteration 7\n", "validation loss 2.0\n"))
            saved = self.every * chance.randint(0, max(self.done) // self.every)
        first = re.search(r"\[(.*?)\]", self.text)
        assert first is not None
        begun = (datetime.fromisoformat(first[1]) - START).total_seconds()
        self.wall_s = now - begun


@pytest.mark.parametrize("seed", range(drawn(60)))
def test_restarts_and_goodput_are_those_of_a_job_that_is_known(seed: int, tmp_path: Path) -> None:
    truth = Truth(seed)
    answer = lockstep.watch(written(tmp_path, truth.text))
    run = answer.run
    assert run.printed == truth.lines
    assert [one.lost_steps for one in run.restarts] == truth.restarts
    assert (run.first_time, run.again) == (len(truth.done), truth.again)
    assert answer.wall_s == pytest.approx(truth.wall_s, abs=1e-3)
    # The clock begins at the stamp of the first line, whose steps were over then.
    expected = (len(truth.done) - truth.every) * truth.seconds / truth.wall_s
    assert answer.goodput_frac == pytest.approx(expected, rel=1e-3)


def test_time_left_is_steps_left_times_pace(tmp_path: Path) -> None:
    answer = lockstep.watch(written(tmp_path, steps(list(range(1, 101)), 2.0)))
    assert answer.remaining is not None
    # The wall clock begins with the first stamp, at the end of the first step: all of it is good.
    assert answer.remaining.likely_s == pytest.approx(900 * 2.0)
    told = lockstep.watch(tmp_path / "run.log", steps=150)
    assert told.steps_left == 50
    by_tokens = lockstep.watch(
        written(tmp_path, "  seq_length ........ 1024\n" + steps(list(range(1, 11)))), tokens=4 * 1024 * 30
    )
    assert by_tokens.run.last == 30


def test_the_step_at_which_a_run_leaves_its_interval_is_named(tmp_path: Path) -> None:
    whole = EXAMPLE.read_text("utf-8")
    slow = str(written(tmp_path, whole[: whole.index("iteration      130/")]))
    answer = lockstep.watch(slow, **RUN)
    left = answer.run.left()
    assert left is not None
    assert (left.step, left.side, answer.ok, answer.inside) == (121, "slower", False, False)
    low, high = answer.predicted.interval.low, answer.predicted.interval.high  # type: ignore[union-attr]
    assert low <= 7.1 <= high < left.step_time_s
    asked = ("--model", "llama3-8b", "-c", "dgx-h100:2", "--zero", "1", "--tp", "2", "--batch", "128", "--seq", "8192")
    session = run("watch", slow, *asked)
    assert session.code == 1
    assert "slower than predicted since step 121" in session.out
    assert run("watch", slow).code == 0
    later = run("watch", str(EXAMPLE), *asked)
    assert (later.code, "It was slower from step 121 on for a while" in " ".join(later.out.split())) == (0, True)


def test_a_single_slow_step_and_warming_up_leave_no_interval(tmp_path: Path) -> None:
    seconds = [90.0] * WARM_UP + [7.0] * 10 + [30.0] * (IN_A_ROW - 1) + [7.0] * 5
    text = "".join(megatron(step, one, 10.0 * step) for step, one in enumerate(seconds, 1))
    answer = lockstep.watch(written(tmp_path, text), **RUN)
    assert (answer.inside, answer.run.left(), answer.run.first_left) == (True, None, None)
    slow = text + "".join(megatron(step, 30.0, 10.0 * step) for step in range(21, 21 + IN_A_ROW))
    answer = lockstep.watch(written(tmp_path, slow), **RUN)
    assert answer.run.left().step == 21  # type: ignore[union-attr]
    back = slow + "".join(megatron(step, 7.0, 10.0 * step) for step in range(40, 40 + IN_A_ROW))
    kinds = [event.kind for _, event in watching([written(tmp_path, back)], **RUN) if event and event.kind != "step"]
    assert kinds == ["left", "returned"]


def test_the_rank_that_leaves_the_interval_is_named(tmp_path: Path) -> None:
    def line(rank: int, step: int) -> str:
        seconds = 12.0 if rank == 3 and step > 20 else 7.0
        return f"[default{rank}]:" + megatron(step, seconds, 7.0 * step)

    text = "".join(line(rank, step) for step in range(1, 40) for rank in (0, 3, 5))
    answer = lockstep.watch(written(tmp_path, text), **RUN)
    left = answer.run.left()
    assert left is not None
    assert (left.rank, left.step) == (3, 21)
    assert (answer.run.printed, answer.run.restarted) == (39, 0)


def test_a_step_that_all_ranks_print_counts_once(tmp_path: Path) -> None:
    """As in torchtitan's pull request 2389, where eight ranks print alike lines without their ranks."""
    line = ("[titan] 2026-02-24 19:46:{:02d},508 - root - INFO - step: {:2d}  loss:  7.62585  grad_norm: 26.6250  "
            "memory: 66.91GiB(37.51%)  tps: 10,05{}  tflops: 314.71  mfu: 13.99%\n")  # fmt: skip
    text = "".join(line.format(2 * step, step, rank % 2) for step in range(1, 25) for rank in range(8))
    answer = lockstep.watch(written(tmp_path, text))
    assert (answer.run.printed, answer.run.restarted, answer.run.repeated) == (24, 0, 7 * 24)
    assert answer.step_s == pytest.approx(2.0)
    assert answer.mfu_frac == pytest.approx(0.1399)


def test_steps_of_mlperf_are_samples_over_the_batch(tmp_path: Path) -> None:
    """As ASUSTeK's llama2_70b_lora in round 4.0: batch 8, `step` 1536, 1920, ..., 3072, 1.953 to 1.961 samples/s."""
    begin = 1715848254167
    text = f':::MLLOG {{"time_ms": {begin}, "key": "global_batch_size", "value": 8}}\n'
    for at, (samples, rate) in enumerate([(1536, 1.953), (1920, 1.959), (2304, 1.961), (2688, 1.957), (3072, 1.955)]):
        text += (
            f':::MLLOG {{"namespace": "", "time_ms": {begin + 864000 + 234000 * at}, "key": "tracked_stats", '
            f'"value": {{"throughput": {rate}}}, "metadata": {{"step": {samples}}}}}\n'
        )
    answer = lockstep.watch(written(tmp_path, text))
    assert answer.run.newest is not None
    assert answer.run.newest.step == 3072 / 8
    assert answer.step_s == pytest.approx(8 / 1.956, rel=2e-3)
    assert answer.wall_s == pytest.approx(1800.0)


def test_of_several_progress_bars_the_longest_is_watched(tmp_path: Path) -> None:
    text = bar(2, 2, "00:10", "5.10s/it")
    text += "".join(
        bar(step, 500, f"{3 * step // 60:02d}:{3 * step % 60:02d}", "3.00s/it")
        + (bar(step % 80, 80, "00:01", "90.00it/s") if step % 7 == 0 else "")
        for step in range(1, 40)
    )
    answer = lockstep.watch(written(tmp_path, text))
    assert (answer.run.last, answer.run.newest.step, answer.run.restarted) == (500, 39, 0)  # type: ignore[union-attr]
    assert answer.step_s == pytest.approx(3.0)


TITAN = "[rank0]:[titan] {} - root - INFO - step: {}  loss:  3.0  memory:  9.4GiB(65.0%)  tps: {}  mfu: {}%"
NANOTRON = ("{} [INFO|DP=0|PP=0|TP=0]: iteration: {} | consumed_tokens: 85.8G | elapsed_time_per_iteration_ms: {} | "
            "tokens_per_sec: {} | tokens_per_sec_per_gpu: 11.4K | global_batch_size: 64 | lm_loss: 2.38")  # fmt: skip
MEGATRON = (
    " iteration {:8d}/  250000 | consumed samples: 186368 | elapsed time per iteration (ms): {} | lm loss: 2.38 |"
)
PUBLIC: dict[str, tuple[list[str], dict[str, Any]]] = {
    "pytorch/torchtitan#1287": (
        [TITAN.format(*one) for one in (
            ("2025-06-16 22:30:50,322", 200, "5,856", 34.29), ("2025-06-16 22:31:04,970", 210, "5,593", 32.75),
            ("2025-06-16 22:31:18,934", 220, "5,868", 34.36), ("2025-06-16 22:31:32,895", 230, "5,869", 34.37),
            ("2025-06-16 22:31:46,869", 240, "5,864", 34.34), ("2025-06-16 22:32:00,846", 250, "5,862", 34.33),
        )],
        {"printed": 6, "newest": 250, "step_s": 1.3974, "mfu_frac": 0.3434, "wall_s": 70.524},
    ),
    "pytorch/torchtitan#3393": (
        [TITAN.format(f"2026-05-18 16:04:{second}", step, "7,300", 0.17) for step, second in (
            (14, "46,338"), (15, "47,456"), (16, "48,577"), (17, "49,702"), (18, "50,821"), (19, "51,942"),
            (20, "53,069"), (21, "54,191"),
        )],
        {"printed": 8, "newest": 21, "step_s": 1.122, "mfu_frac": 0.0017, "wall_s": 7.853},
    ),
    "huggingface/nanotron#390": (
        [NANOTRON.format(f"10/17/2025 16:{at}", f"{step} / 378950", "11.5K", "22.8K") for step, at in (
            (327281, "31:56"), (327282, "32:07"), (327283, "32:19"), (327284, "32:30"))],
        {"printed": 4, "newest": 327284, "last": 378950, "step_s": 11.5, "tokens_per_s": 22800, "wall_s": 34.0},
    ),
    "huggingface/nanotron#23": (
        [NANOTRON.format("01/17/2024 13:48:41", f"{step} / 1000", ms, "17.9K") for step, ms in (
            (991, 35.7), (992, 34.8), (993, 34.7), (994, 42.4))],
        {"printed": 4, "newest": 994, "last": 1000, "step_s": 0.0424, "wall_s": None},
    ),
    "AI-Hypercomputer/maxtext#8": (
        [f"completed step: {step}, seconds: {seconds}, TFLOP/s: 36.7, loss: 2.191" for step, seconds in (
            (15107, 2.167), (15108, 2.164), (15109, 2.166))],
        {"printed": 3, "newest": 15109, "last": None, "step_s": None, "wall_s": None},
    ),
    "epfLLM/Megatron-LLM#11": (
        [MEGATRON.format(step, ms) for step, ms in (
            (182, 126995.3), (183, 125553.7), (184, 127804.5), (185, 130554.9), (186, 127859.5))],
        {"printed": 5, "newest": 186, "last": 250000, "step_s": 129.2072, "wall_s": None},
    ),
}  # fmt: skip
"""Thread: lines of the real run that it shows, shortened, and what a reader counts; rates without warming up."""


@pytest.mark.parametrize("thread", PUBLIC)
def test_public_logs_are_counted_as_a_reader_counts_them(thread: str, tmp_path: Path) -> None:
    lines, counted = PUBLIC[thread]
    answer = lockstep.watch(written(tmp_path, "\n".join(lines) + "\n"))
    assert answer.run.newest is not None
    found = {
        **{name: getattr(answer, name) for name in ("step_s", "mfu_frac", "tokens_per_s", "wall_s")},
        "printed": answer.run.printed, "newest": answer.run.newest.step, "last": answer.run.last,
    }  # fmt: skip
    for name, value in counted.items():
        assert found[name] == (None if value is None else pytest.approx(value, rel=1e-4)), name
    assert (answer.run.restarted, answer.unread) == (0, 0)


@pytest.mark.parametrize("packed", [False, True])
def test_a_real_log_is_counted_as_a_reader_counts_it(packed: bool, tmp_path: Path) -> None:
    """The V100 log of Megatron-LM, and that of modded-nanogpt: counted here by other means."""
    path = published_trace("bigscience_meg_gpt2_v100_tp4_pp8.log.gz")
    text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
    answer = lockstep.watch(path if packed else written(tmp_path, text))
    lines = re.findall(r" iteration +(\d+)/ +(\d+) \|.*?\(ms\): ([\d.]+)", text)
    times = sorted(float(ms) / 1e3 for _, _, ms in lines[WARM_UP:])
    assert (answer.run.printed, answer.run.restarted) == (len(lines), 0)
    assert (answer.run.newest.step, answer.run.last) == tuple(map(int, lines[-1][:2]))  # type: ignore[union-attr]
    assert answer.step_s == pytest.approx((times[len(times) // 2] + times[~(len(times) // 2)]) / 2)
    assert answer.run.devices == 32
    assert answer.run.first_time_s == pytest.approx(sum(10 * float(ms) / 1e3 for _, _, ms in lines))
    path = published_trace("modded_nanogpt_20251031_after.log.gz")
    text = gzip.decompress(path.read_bytes()).decode()
    answer = lockstep.watch(path)
    numbers = {int(number) for number in re.findall(r"^step:(\d+)/", text, re.MULTILINE)}
    last_ms = max(int(ms) for ms in re.findall(r"^step:\d+/\d+ train_time:(\d+)ms", text, re.MULTILINE))
    assert (answer.run.printed, answer.ended) == (len(numbers), True)
    # What training took, as the program counts it to the last step; evaluations are not in its clock.
    assert answer.run.first_time_s == pytest.approx(last_ms / 1e3, rel=2e-3)


def test_a_drift_is_found_and_noise_is_none() -> None:
    chance = random.Random(7)
    found = {"noise": 0, "drift": 0}
    for _ in range(200):
        noise, drift = Series(), Series()
        for step in range(400):
            value = chance.lognormvariate(0, 0.03) * (3.0 if chance.random() < 0.02 else 1.0)
            noise.add(value)
            drift.add(value * (1 + 0.05 * step / 400))
        found["noise"] += noise.drift().found  # type: ignore[union-attr]
        one = drift.drift()
        assert one is not None
        found["drift"] += one.found and 0.03 < one.change_frac < 0.07
    # A trend of |z| > 3 comes by chance once in 370 runs.
    assert found["noise"] <= 4
    assert found["drift"] >= 198


def test_a_long_series_keeps_its_median_in_bounded_memory() -> None:
    series, values = Series(), []
    for step in range(300_000):
        values.append((step * 7919) % 100_003 / 1e3)
        series.add(values[-1])
    assert series.median == pytest.approx(sorted(values)[len(values) // 2], rel=5e-3)
    assert len(series._kept) < 1 << 17


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    def peak_B(lines: int) -> int:
        path = tmp_path / f"{lines}.log"
        with path.open("w") as file:
            file.writelines(megatron(step, 1.6, float(step)) + "another line\n" for step in range(1, lines))
        tracemalloc.start()
        try:
            lockstep.watch(path)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak_B(10)
    # Sixteen bytes are kept of each step, up to a limit; an array may have an eighth more room than it needs.
    assert peak_B(30_000) < peak_B(10_000) + 20_000 * 16 * 1.5 + 200_000


def test_lost_devices_are_said_and_replanned(tmp_path: Path) -> None:
    text = WORLD.format(16) + steps(list(range(1, 30)), 7.0) + WORLD.format(8) + steps(list(range(20, 40)), 13.0, 500.0)
    answer = lockstep.watch(written(tmp_path, text), **RUN)
    assert (answer.run.devices, answer.run.most_devices, answer.ok) == (8, 16, False)
    # Steps on fewer devices than were predicted for say nothing about the prediction.
    assert answer.inside is None
    alone = lockstep.plan(**{name: RUN[name] for name in ("model", "cluster", "batch", "seq")}, gpus=8, top=1)
    assert answer.replan is not None
    assert answer.replan.best.layout == alone.best.layout
    assert answer.to_dict()["replan"]["step_time_s"] == alone.best.step_time_s
    without = lockstep.watch(tmp_path / "run.log")
    assert (without.replan, without.run.lost_devices) == (None, True)


def test_files_are_followed_as_they_grow(tmp_path: Path) -> None:
    whole = steps(list(range(1, 13)), last_of := 2.0)
    path = written(tmp_path, whole[: len(whole) // 2])
    seen: list[int] = []
    for found, event in watching([path], follow=True, steps=12):
        if event is None and not found.ended:
            with path.open("a") as file:
                # In pieces that end within a line.
                file.write(whole[path.stat().st_size :][:301])
        elif event is not None and event.kind == "step":
            seen.append(event.step)
    assert seen == list(range(1, 13))
    assert last_of == found.step_s


def test_a_file_begun_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = written(tmp_path, steps(list(range(1, 9))))
    begun = False
    for found, event in watching([path], follow=True, steps=12):
        if event is None and not found.ended and not begun:
            path.write_text(WORLD.format(4) + steps([6, 7]), encoding="utf-8")
            begun = True
        elif event is None and not found.ended:
            with path.open("a") as file:
                file.write(steps(list(range(8, 13))))
    assert [one.lost_steps for one in found.run.restarts] == [3]


def test_standard_input_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(EXAMPLE.read_bytes())))
    piped = lockstep.watch("-", follow=True).to_dict()
    assert {**piped, "inputs": []} == {**lockstep.watch(EXAMPLE).to_dict(), "inputs": []}


def test_files_of_a_folder_follow_one_another_by_their_numbers(tmp_path: Path) -> None:
    for attempt, numbers in ((9, range(1, 20)), (10, range(15, 30)), (11, range(30, 40))):
        written(tmp_path, steps([*numbers], begin_s=1000.0 * attempt), f"logs/job-{attempt}.out")
    written(tmp_path, "nothing of a run\n", "logs/readme")
    answer = lockstep.watch(tmp_path / "logs")
    assert [one.lost_steps for one in answer.run.restarts] == [5, 0]
    assert (answer.run.first_time, len(answer.files)) == (39, 3)


def test_a_file_that_joins_a_followed_folder_is_a_restart(tmp_path: Path) -> None:
    written(tmp_path, steps([*range(1, 9)]), "logs/job-1.out")
    written(tmp_path, "", "logs/job-2.out")
    joined = False
    for found, event in watching([tmp_path / "logs"], follow=True, steps=12):
        if event is None and not found.ended and not joined:
            written(tmp_path, steps([*range(5, 13)], begin_s=100.0), "logs/job-2.out")
            joined = True
    assert ([one.lost_steps for one in found.run.restarts], found.run.first_time) == ([4], 12)


def test_files_of_ranks_are_held_one_by_one(tmp_path: Path) -> None:
    for rank in (0, 1, 2):
        text = "".join(megatron(step, 12.0 if rank == 2 and step > 9 else 7.0, 7.0 * step) for step in range(1, 20))
        written(tmp_path, text, f"logs/attempt_0/{rank}/stdout.log")
    answer = lockstep.watch(tmp_path / "logs", **RUN)
    assert (answer.run.printed, answer.run.restarted) == (19, 0)
    assert (answer.run.left().rank, answer.run.left().step) == (2, 10)  # type: ignore[union-attr]


def test_following_prints_an_object_for_each_event_and_the_answer_last(tmp_path: Path) -> None:
    found = run("watch", "--follow", str(EXAMPLE), "--steps", "140", "--json")
    *events, answer = map(json.loads, found.out.splitlines())
    assert [one["event"] for one in events] == ["restart"]
    assert answer["restarts"][0]["lost_steps"] == events[0]["lost_steps"] == 14
    lines = run("watch", "-f", str(EXAMPLE), "--steps", "140").out.splitlines()
    assert lines[0] == "step 51: restarted after step 64; steps done again: 14"
    assert lines[1].startswith("Step 140 of 140")


@pytest.mark.parametrize("text", ["nothing of a run\n", ""])
def test_a_file_without_steps_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no step of a known training program") as error:
        lockstep.watch(written(tmp_path, text))
    assert error.value.where == str(tmp_path / "run.log")


def test_unread_numbers_are_counted_and_named(tmp_path: Path) -> None:
    text = steps([1, 2, 3, 4]) + megatron(5, 1.0, 5.0).replace("1000.0", "nan") + steps([6], begin_s=5.0)
    answer = lockstep.watch(written(tmp_path, text))
    assert (answer.unread, answer.run.printed) == (1, 6)
    assert any("line 5" in note for note in answer.notes())
