"""`lockstep diagnose` as a command: what it refuses, and what it says of files of several kinds at once."""

import gzip
import json
import pickle

import pytest

from cli_runner import run
from published_traces import published_trace

LLAMA = ("--model", "llama3-8b", "-c", "dgx-h100:1", "--zero", "3", "--batch", "64")
LOG = "".join(
    f" iteration {step}/ 100 | elapsed time per iteration (ms): {12000 + step} | global batch size: 64 |\n"
    for step in range(1, 50)
)
NCCL = """# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
BAD = {
    "empty": b"",
    "spaces": b"  \n",
    "text": b"once upon a time\n" * 100,
    "zeros": bytes(5000),
    "cut gzip": gzip.compress(LOG.encode())[:40],
    "bad gzip": b"\x1f\x8b" + bytes(100),
    "cut pickle": pickle.dumps({"segments": [], "device_traces": [[]]})[:20],
    "pickle of a class": pickle.dumps(json.JSONDecoder),
    "cut trace": b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1',
    "trace without events": b'{"traceEvents": []}',
    "trace of text": b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": "now", "dur": 1}]}',
    "sqlite header": b"SQLite format 3\0" + bytes(200),
    "nccl without rows": NCCL.encode(),
    "not utf-8": b" iteration 1/ 2 | elapsed time per iteration (ms): \xff\xfe |\n",
    "flight recorder of nothing": b'{"collective_seq_id": 1, "profiling_name": 2}',
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_give_one_message_and_exit_code_2(name, tmp_path):
    """Located at the file."""
    path = tmp_path / "file"
    path.write_bytes(BAD[name])
    done = run("diagnose", str(path))
    assert done.code == 2, done.out + done.err
    assert done.err.startswith(f"error: {path}")
    assert done.err.count("\n") == 1


def test_mixed_files_give_one_answer(tmp_path):
    """A log, and a flight recorder dump; one bad file among them ends it, a file given twice too."""
    (tmp_path / "log").write_text(LOG)
    entry = {
        "process_group": ["0", ""], "collective_seq_id": 1, "profiling_name": "nccl:all_reduce", "state": "completed",
        "input_sizes": [[4]],
    }  # fmt: skip
    (tmp_path / "rank0").write_text(json.dumps({"pg_config": {}, "entries": [entry]}))
    done = run("diagnose", str(tmp_path), *LLAMA, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert [one["kind"] for one in found["inputs"]] == ["megatron", "flight-recorder"]
    assert found["step_time_s"]["measured"] == pytest.approx(12.027, abs=0.002)
    assert found["judged"]["verdict"] == "slower"
    assert found["hangs"] == []
    done = run("diagnose", str(tmp_path / "log"), str(tmp_path))
    assert done.code == 2
    assert "passed twice" in done.err
    (tmp_path / "bad").write_text("nothing")
    assert run("diagnose", str(tmp_path)).code == 2


TABLE = "\n".join(
    ["rank,step,op,start_s,duration_s", *(f"{rank},{step},forward,{step},1.0" for step in range(4) for rank in (0, 1))]
)


@pytest.mark.parametrize("words", [("--fail-above", "10%"), ("--against", "45%"), ("--against", "case:llama3-405b")])
def test_options_that_need_a_prediction_are_refused_without_one(words, tmp_path):
    """Where nothing is predicted a check in CI would pass whatever the run does."""
    (tmp_path / "table").write_text(TABLE + "\n")
    done = run("diagnose", str(tmp_path), *words)
    assert done.code == 2, done.out
    assert done.err.startswith(f"error: {words[0]}: needs a prediction")


def test_files_named_by_ranks_need_not_be_repeated(tmp_path):
    """`--ranks` names them; the files do not say which rank they are of."""
    events = [
        {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 100.0 * i, "dur": 90.0, "args": {"stream": 7}}
        for i in range(9)
    ]
    for rank in (0, 1):
        (tmp_path / f"of{rank}").write_text(json.dumps({"traceEvents": events}))
    done = run("diagnose", "--ranks", f"0={tmp_path / 'of0'},1={tmp_path / 'of1'}", "--json")
    assert done.code == 0, done.err
    assert [one["rank"] for one in json.loads(done.out)["ranks"]] == [0, 1]


def test_a_link_faster_than_its_wire_is_noted_without_an_error(tmp_path):
    """As of switches that reduce: 481 GB/s of bus bandwidth over NVLink of 450 GB/s."""
    ranks = "".join(f"#  Rank  {i} Group  0 Pid  9 on    node001 device  {i} [0x1b] NVIDIA H100\n" for i in range(8))
    sizes = ((2**20, 38.8), (2**22, 55.3), (2**24, 119.1), (2**26, 307.2), (2**28, 1031.0), (2**30, 3905.0))
    rows = "".join(
        f"{size} {size // 4} float sum -1 {us} {size / us / 1e3:.2f} {1.75 * size / us / 1e3:.2f} 0 "
        f"{us} {size / us / 1e3:.2f} {1.75 * size / us / 1e3:.2f} 0\n"
        for size, us in sizes
    )
    (tmp_path / "nccl").write_text(NCCL + ranks + rows)
    done = run("diagnose", str(tmp_path), *LLAMA, "--measured", "9s")
    assert done.code == 0, done.err
    assert "a switch that reduces" in " ".join(done.out.split())
    assert "481" in done.out


def test_a_traced_step_is_compared_with_the_logged_one(tmp_path):
    """How much slower the profiler made it."""
    rows = (f"{rank},{step},{op},{step + at},0.5" for step in range(4) for rank in (0, 1)
            for at, op in ((0.0, "forward"), (0.5, "all-reduce")))  # fmt: skip
    (tmp_path / "table").write_text("\n".join(["rank,step,op,start_s,duration_s", *rows]) + "\n")
    (tmp_path / "log").write_text(" iteration 1/ 9 | elapsed time per iteration (ms): 800.0 |\n")
    found = json.loads(run("diagnose", str(tmp_path), "--json").out)
    traced = [one for one in found["inputs"] if one["kind"] == "operations"]
    assert [one["rank"] for one in traced] == [0, 1]
    assert traced[0]["quality"]["profiler_slowdown_frac"] == pytest.approx(1.0 / 0.8 - 1)
    assert "25.0% slower than the log's" in run("diagnose", str(tmp_path)).out


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ((), "FILE"),
        (("--mfu", "32%"), "--model"),
        (("--tp", "2"), "FILE"),
        ((*LLAMA, "--mfu", "32"), "--mfu"),
        ((*LLAMA, "--measured", "0s"), "--measured"),
        ((*LLAMA, "--measured", "nan"), "--measured"),
        ((*LLAMA, "--measured", "8s", "--peak", "1979T"), "--peak"),
        ((*LLAMA, "--mfu", "32%", "--peak", "0"), "--peak"),
        ((*LLAMA, "--mfu", "32%", "--against", "lots"), "--against"),
        ((*LLAMA, "--mfu", "32%", "--against", "case:nobody"), "--against"),
        ((*LLAMA, "--mfu", "32%", "--steps", "3-5"), "--steps"),
        ((*LLAMA, "--mfu", "32%", "--fail-above", "much"), "--fail-above"),
        (("--case", "bloom-176b", "--tp", "2"), "--tp"),
        ((*LLAMA, "--mfu", "32%", "--tp", "3"), "--tp"),
    ],
)
def test_invalid_options_are_refused_at_their_flag(words, where):
    """One located message."""
    done = run("diagnose", *words)
    assert done.code == 2, done.out
    assert done.err.startswith(f"error: {where}"), done.err


def test_fail_above_fails_for_a_slower_step():
    """`--fail-above` ends with 1 past its share, and with 0 before."""
    slow = ("diagnose", *LLAMA, "--measured", "11.99s", "--fail-above")
    assert run(*slow, "10%").code == 1
    assert run(*slow, "100%").code == 0


def test_a_calibrated_cluster_file_predicts_its_own_step(tmp_path):
    """To within the noise that calibration takes for granted; a plan on it is never slower than the layout that ran."""
    path = tmp_path / "mine.yaml"
    done = run("diagnose", *LLAMA, "--measured", "9.5s", "-o", str(path), "--replan", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)["recalibrated"]
    words = [str(path) if word == "dgx-h100:1" else word for word in LLAMA[1:]]
    again = json.loads(run("estimate", *words, "--json").out)
    assert again["step_time_s"] == pytest.approx(9.5, rel=0.03)
    assert found["replanned"]["own_step_time_s"] == pytest.approx(again["step_time_s"], rel=1e-3)
    assert found["replanned"]["step_time_s"] <= found["replanned"]["own_step_time_s"] * 1.05


def test_contradictory_measurements_are_not_calibrated():
    """Two numbers of one run that cannot both hold, a number that cannot be, and none at all."""
    for words in (("--measured", "8s", "--mfu", "20%"), ("--mfu", "300%"), ()):
        done = run("diagnose", *LLAMA, *words, "--replan")
        assert done.code == 2
    assert run("diagnose", *LLAMA, "--measured", "8s", "-o", "x.txt").refusal().startswith("--out")


def test_case_studies_can_be_measured_runs_and_references():
    """A published run, and as what was expected of another."""
    done = run("diagnose", "--case", "llama3-405b", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["step_time_s"]["measured"] > 0
    done = run("diagnose", *LLAMA, "--mfu", "30%", "--against", "case:llama3-405b", "--json")
    assert json.loads(done.out)["judged"]["expected"]["stated"]["quantity"] == "mfu_frac"


def test_the_open_pair_names_the_reduce_scatter():
    """Between the two traces the gradients' reduction moved into the backward pass."""
    after, before = (published_trace(f"modded_nanogpt_20251031_{name}.rank0.json.gz") for name in ("after", "before"))
    done = run("diagnose", str(after), "--against", str(before), "--json")
    first = json.loads(done.out)["changes"][0]
    assert first["operation"] == "dp reduce-scatter, exposed"
    assert first["captured_before_s"] == pytest.approx(9.2e-3, rel=0.02)
    assert first["captured_after_s"] == pytest.approx(8.1e-3, rel=0.02)


def test_a_log_with_arguments_needs_no_model():
    """It is the model's own description. Its `checkpoint_activations` recomputes, as the timers of its passes show."""
    log = published_trace("bigscience_meg_gpt2_v100_tp4_pp8.log.gz")
    done = run("diagnose", str(log), "-c", "dgx-v100", "--json")
    found = json.loads(done.out)
    assert found["step_time_s"]["measured"] == pytest.approx(1.62, rel=0.01)
    (parts_s,) = [one["parts_s"] for one in found["logs"]]
    assert parts_s["backward-compute"] == pytest.approx(3 * parts_s["forward-compute"], rel=0.1)
    assert "no-recomputation" in [one["name"] for one in found["judged"]["changes"]]
    assert found["step_time_s"]["predicted"] == pytest.approx(found["step_time_s"]["measured"], rel=0.2)


def test_the_open_table_names_the_stage_that_is_too_long():
    """With the authors' own slowdown, within 0.05."""
    truth = json.loads(published_trace("straggler_bytedance_ST.truth.json").read_text())
    done = run("diagnose", str(published_trace("straggler_bytedance_ST.csv.gz")), "--json")
    found = json.loads(done.out)["slowdowns"]
    assert found["worst_stage"] == 3
    assert found["by_stage"]["3"] == pytest.approx(1.23, abs=0.05)
    assert truth["cause"].endswith("long last stage")
