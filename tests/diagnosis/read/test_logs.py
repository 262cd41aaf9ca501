"""Logs of training programs: lines as they are printed in public, and what they say in SI units."""

import gzip

import pytest

from cli_runner import run
from lockstep.base.errors import BadInput
from lockstep.decide.planner.estimate import estimate
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.explain.gather import mismatches, numbers_of
from lockstep.explain.read import find
from lockstep.price.layout import Job, Layout, Recipe
from published_traces import published_trace

# Program: lines (from public threads, shortened), and the medians in SI units that they give.
LINES = {
    "megatron": (
        " iteration       20/    1000 | consumed samples: 80 | elapsed time per iteration (ms): 1572.7 | "
        "throughput per GPU (TFLOP/s/GPU): 296.5 | global batch size:     4 | lm loss: 1.210588E+01 |\n"
        "time (ms) | forward-compute: 144.40 | backward-compute: 398.55 | optimizer: 42.46\n",
        {"step_time_s": 1.5727, "model_flops_per_gpu_per_s": 296.5e12, "batch": 4},
    ),
    "megatron, in seconds": (
        " samples/sec: 7.799 | iteration       34/   10000 | elapsed time per iteration (s): 4.1 | "
        "approx flops per GPU: 112.9TFLOPS | lm_loss: 1.118665E+01 |\n",
        {"step_time_s": 4.1, "samples_per_s": 7.799, "model_flops_per_gpu_per_s": 112.9e12},
    ),
    "torchtitan": (
        "[titan] 2026-02-24 19:46:17,508 - root - INFO - \x1b[31mstep:  4  \x1b[32mloss:  7.62585  grad_norm: 26.6250  "
        "memory: 66.91GiB(37.51%)  tps: 10,050  tflops: 314.71  mfu: 13.99%\x1b[39m\n",
        {"tokens_per_s_per_gpu": 10050, "model_flops_per_gpu_per_s": 314.71e12, "mfu_frac": 0.1399,
         "memory_B": 66.91 * 2**30},
    ),
    "nanotron": (
        "10/17/2025 16:31:56 [INFO|DP=0|PP=0|TP=0]: iteration: 327281 / 378950 | consumed_tokens: 85.8G | "
        "elapsed_time_per_iteration_ms: 11.5K | tokens_per_sec: 22.8K | tokens_per_sec_per_gpu: 11.4K | "
        "global_batch_size: 64 | lm_loss: 2.38 | lr: 1e-05 | model_tflops_per_gpu: 38.3 | "
        "hardware_tflops_per_gpu: 38.3 | grad_norm: 1.25\n",
        {"step_time_s": 11.5, "tokens_per_s": 22800, "tokens_per_s_per_gpu": 11400,
         "model_flops_per_gpu_per_s": 38.3e12, "batch": 64},
    ),
    "nanotron, later": (
        "iteration: 191 / 200 | consumed_tokens: 196K | time_per_iteration_ms: 56.9 | tokens_per_sec: 18K | "
        "tokens_per_sec_per_gpu: 9K | global_batch_size: 1.02K | grad_norm: 201K | lm_loss: 9.18 | lr: 1.58e-05 | "
        "model_tflops_per_gpu: 1.25\n",
        {"step_time_s": 0.0569, "tokens_per_s": 18000, "tokens_per_s_per_gpu": 9000, "batch": None},
    ),
    "hf-trainer": (
        "{'train_runtime': 120.0, 'train_samples_per_second': 12.5, 'train_steps_per_second': 0.39, 'epoch': 1.0}\n",
        {"samples_per_s": 12.5, "run_s": 120.0},
    ),
    "deepspeed": (
        "[2024-07-17 19:53:24,981] [INFO] [timer.py:258:stop] epoch=0/micro_step=4500/global_step=4500, "
        "RunningAvgSamplesPerSec=16.12, CurrSamplesPerSec=16.8, MemAllocated=0.02GB, MaxMemAllocated=0.97GB\n",
        {"samples_per_s": 16.8, "memory_B": 0.97 * 2**30},
    ),
    "deepspeed, pipelines": (
        "steps: 10 loss: 10.2012 iter time (s): 11.901 samples/sec: 5.378\n", {"step_time_s": 11.901},
    ),
    "llm-foundry": (
        "[batch=10/100]:\n\t Train throughput/batches_per_sec: 0.1\n\t Train throughput/device/tokens_per_sec: 9000.5\n"
        "\t Train throughput/device/mfu: 0.4644\n",
        {"tokens_per_s_per_gpu": 9000.5, "mfu_frac": 0.4644},
    ),
    "maxtext": (
        "completed step: 9, seconds: 5.667, TFLOP/s/device: 134.924, Tokens/s/device: 8672.758, loss: 10.374\n",
        {"step_time_s": 5.667, "model_flops_per_gpu_per_s": 134.924e12, "tokens_per_s_per_gpu": 8672.758},
    ),
    "maxtext, of 2023": (
        "completed step: 5, seconds: 0.278, TFLOP/s: 54.058, loss: 9.663\n",
        {"step_time_s": 0.278, "model_flops_per_gpu_per_s": 54.058e12, "tokens_per_s_per_gpu": None},
    ),
    "maxtext, of 2026": (
        "[Rampup Batch Size Phase], completed step: 0, seconds: 9.5, total_weights: 64, loss: 10.9, lm_loss: 10.9\n"
        "completed profiler activation/deactivation step: 1, total_weights: 64, loss: 10.9\n"
        "I0804 08:14:00.000000 1 metric_logger.py:196] completed step: 2, seconds: 0.5, TFLOP/s/device: 200.0, "
        "Tokens/s/device: 25000.0, total_weights: 393216, loss: 10.5, lm_loss: 10.5, perplexity: 10.0\n",
        {"step_time_s": 0.5, "model_flops_per_gpu_per_s": 200e12, "tokens_per_s_per_gpu": 25000},
    ),
    "nemo": (
        "Training epoch 0, iteration 5/99 | lr: 3e-05 | consumed_samples: 768 | global_batch_size: 128 | "
        "global_step: 5 | reduced_train_loss: 11.03 | tflops_per_sec_per_gpu: 412.5 | train_step_timing in s: 6.123\n",
        {"step_time_s": 6.123, "batch": 128, "model_flops_per_gpu_per_s": 412.5e12},
    ),
    "nemo, other order": (
        "Training epoch 0, iteration 1/249 | TFLOPS_per_GPU: 4.1e+02 | global_batch_size: 8 | global_step: 1 | "
        "train_step_timing in s: 1.235e+04 | consumed_samples: 16\n",
        {"step_time_s": 12350, "batch": 8, "model_flops_per_gpu_per_s": 410e12},
    ),
    "nemo, a bar": (
        "".join(
            f"\rEpoch 0: : {step}%|#   | {step}/100 [10:48<00:00, reduced_train_loss=0.0172, global_step={step}.0, "
            f"consumed_samples=256.0, train_step_timing in s={9.0 if step < 3 else 3.130}]" for step in range(1, 20)
        ) + "\n",
        {"step_time_s": 3.130},
    ),
    "olmo-core": (
        "2025-12-22 10:00:00 host:0 olmo_core.train.callbacks.console_logger:81 INFO [step=2/9000,epoch=1,eta=3:10]\n"
        "    gpu_memory/GPU active mem (%)=63.1\n    gpu_memory/GPU active mem (GiB)=50.14\n"
        "    gpu_memory/GPU reserved mem (GiB)=60.2\n    throughput/device/BPS=3.939\n"
        "    throughput/device/BPS (actual avg)=3.5\n    throughput/device/MFU=44.57\n"
        "    throughput/device/MFU (actual avg)=40.1\n    throughput/device/TPS=258,163\n"
        "    throughput/device/TPS (actual avg)=229,000\n    throughput/device/data loading (s)=0.0012\n"
        "    throughput/total tokens=104857600\n    train/CE loss=6.445\n",
        {"tokens_per_s_per_gpu": 258163, "mfu_frac": 0.4457, "memory_B": 50.14 * 2**30, "batches_per_s": 3.939},
    ),
    "mlperf": (
        ':::MLLOG {"namespace": "", "event_type": "POINT_IN_TIME", "key": "global_batch_size", "value": 1152}\n'
        ':::MLLOG {"namespace": "", "key": "tracked_stats", "value": {"throughput": 88.4, "train_step_time": 13.03}}\n',
        {"samples_per_s": 88.4, "step_time_s": 13.03},
    ),
    "nanogpt": ("iter 1631: loss 4.0863, time 561.94ms, mfu 30.12%\n", {"step_time_s": 0.56194, "mfu_frac": 0.3012}),
    "nanogpt, nanochat": (
        "step 00004/21400 (0.02%) | loss: 8.893647 | lrm: 1.00 | dt: 989.44ms | tok/sec: 529,882 | mfu: 74.13 |\n",
        {"step_time_s": 0.98944, "tokens_per_s": 529882, "mfu_frac": 0.7413},
    ),
    "nanogpt, modded": ("step:2245/2245 train_time:137492ms step_avg:61.24ms\n", {"step_time_s": 0.06124}),
}  # fmt: skip


def read(tmp_path, text, packed=False):
    """The log in a file of a name that says nothing."""
    path = tmp_path / "a.pickle"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    (known,) = find([path])
    return known, known.read()


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", LINES)
def test_logs_are_recognised_by_their_content(name, packed, tmp_path):
    """Whatever the file is called, and packed or not."""
    text, wanted = LINES[name]
    known, log = read(tmp_path, text, packed)
    assert known.kind.name == name.partition(",")[0]
    assert {one: log.steady(one) for one in wanted} == pytest.approx(wanted)


def test_warm_up_steps_are_excluded(tmp_path):
    """The first tenth of the steps is slow and does not count; its timers neither."""
    line = " iteration {}/ 100 | elapsed time per iteration (ms): {} | lm loss: 2.0 |\n"
    text = "".join(line.format(step, 9000 if step <= 10 else 1000 + step) for step in range(1, 101))
    assert read(tmp_path, text)[1].steady("step_time_s") == pytest.approx(1.0555)


def test_a_log_is_compared_with_the_described_run(tmp_path):
    """Rates per device are multiplied, samples become seconds; another model, length or batch is said."""
    machine = cluster("dgx-h100:1")
    job = Job(model("llama3-8b"), Recipe(seq=8192, batch=64), 8)
    found = estimate(job, machine, Layout(dp=8, zero=3))
    titan = read(tmp_path, LINES["torchtitan"][0])[1]
    by_name = {one.quantity: one.value for one in numbers_of(titan, job)}
    assert by_name["tokens_per_s"] == 8 * 10050
    speed = read(tmp_path, LINES["deepspeed"][0])[1]
    assert next(numbers_of(speed, job)).value == pytest.approx(64 / 16.8)
    assert mismatches(titan, found) == []
    args = "  num_layers ........ 12\n  hidden_size ....... 768\n  num_attention_heads ...... 12\n"
    other = read(tmp_path, args + LINES["megatron"][0])[1]
    model_said, batch_said = mismatches(other, found)
    assert "another model than llama3-8b: layers 12, hidden 768, heads 12" in model_said
    assert batch_said.endswith("has batch 4, not 64")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (" iteration 1/ 10 | elapsed time per iteration (ms): 1.2 |\n iteration 2/ 10 | elapsed time per iteration "
         "(ms): nan |\n", ":2"),
        ("{'train_samples_per_second': 1e400}\n", ":1"),
        (" iteration 1/ 10 | elapsed time per iteration (ms): 1.2.3 |\n", ":1"),
    ],
)  # fmt: skip
def test_invalid_numbers_are_refused_at_their_line(text, where, tmp_path):
    """Not a number, too large, or none."""
    with pytest.raises(BadInput, match="no usable number") as error:
        read(tmp_path, text)
    assert error.value.where.endswith(where)


def test_real_logs_are_read():
    """A Megatron-LM log of 32 V100 with its arguments and timers, and one of modded-nanogpt."""
    log = find([published_trace("bigscience_meg_gpt2_v100_tp4_pp8.log.gz")])[0].read()
    assert log.settings | {"layers": 48, "hidden": 7168, "devices": 32, "seq": 1024} == log.settings
    assert log.steady("step_time_s") == pytest.approx(1.62, rel=0.01)
    assert log.parts_s["backward-embedding-all-reduce"] == pytest.approx(0.727, rel=0.01)
    log = find([published_trace("modded_nanogpt_20251031_after.log.gz")])[0].read()
    assert log.steps > 2000
    assert log.steady("memory_B") == 29244 * 2**20


def bar(step, total, elapsed, speed):
    """A state of tqdm's bar."""
    return f"\r{100 * step // total:3d}%|█▌        | {step}/{total} [{elapsed}<26:01, {speed:>8}]"


def test_speed_is_read_from_a_progress_bar(tmp_path):
    """Of the training's bar and not those of loading and evaluation, in either unit; nothing is known of its start."""
    text = "Loading checkpoint shards:   0%|          | 0/2 [00:00<?, ?it/s]" + bar(2, 2, "00:10", "5.10s/it") + "\n"
    text += "***** Running training *****\n  Total train batch size (w. parallel, distributed & accumulation) = 64\n"
    text += "  0%|          | 0/500 [00:00<?, ?it/s]"
    text += "".join(bar(step, 500, f"{3 * step // 60:02d}:{3 * step % 60:02d}", "3.21s/it") for step in range(1, 40))
    text += "{'loss': 2.1, 'learning_rate': 1e-05, 'epoch': 0.1}\n" + bar(3, 80, "00:01", "90.00it/s")
    text += bar(40, 500, "1:02:03", "1.25it/s")
    known, log = read(tmp_path, text)
    assert known.kind.name == "progress-bar"
    assert log.printed["step_time_s"] == (*[3.21] * 39, 0.8)
    assert log.steady("step_time_s") == 3.21
    assert log.settings == {"batch": 64}
    assert "smoothed" in log.counts


def test_the_final_summary_overrides_the_progress_bar(tmp_path):
    """Also where it is far from the beginning of the file, by which kinds are known."""
    lines = "".join(bar(step, 30_000, "00:48", "3.21s/it") for step in range(1, 20_000))
    _, log = read(tmp_path, lines + "\n" + LINES["hf-trainer"][0])
    assert log.program == "hf-trainer"
    assert log.steady("samples_per_s") == 12.5


def test_a_progress_bar_at_zero_is_refused(tmp_path):
    """There is no speed to read."""
    with pytest.raises(BadInput, match="no s/it or it/s"):
        read(tmp_path, "  0%|          | 0/500 [00:00<?, ?it/s]")


def test_the_answer_notes_that_progress_bars_are_smoothed(tmp_path):
    """To whoever reads the number."""
    path = tmp_path / "out"
    path.write_text("".join(bar(step, 500, "00:48", "3.21s/it") for step in range(1, 20)))
    answer = run("diagnose", str(path))
    assert answer.code == 0, answer.err
    assert "3.21 s per step as logged" in answer.out
    assert "smoothed" in answer.out
