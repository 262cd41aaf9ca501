"""Logs of NeMo: lines of version 2's ProgressPrinter, and the progress bar of both versions.

    Training epoch 0, iteration 5/99 | lr: 3e-05 | global_batch_size: 128 | ... | train_step_timing in s: 6.123
    Epoch 0: : 100%|...| 100/100 [10:48<00:00, reduced_train_loss=0.0172, ..., train_step_timing in s=3.130]

A line is printed every `log_interval` steps and its numbers are means over these; numbers have four digits. FLOP/s are
model FLOPs of NeMo's formula for the family (flops_formulas.py), of one device, without recomputation.

Sources: NVIDIA/NeMo, nemo/lightning/pytorch/callbacks/progress_printer.py (format_string, average_metrics_dict) and
flops_callback.py (tflops_per_sec_per_gpu, TFLOPS_per_GPU in later releases); nemo/utils/exp_manager.py
(TimingCallback) of 2024 and 2025.
"""

from lockstep.explain.read.logs.log import Program, program
from lockstep.explain.stated import RATE, TIME_S

NUMBER = r"(?::\s|=)([\d.eE+-]+|nan|inf)"

KIND = program(
    Program(
        name="nemo",
        what="a log of NeMo",
        sign=r"\btrain_step_timing in s(?:: |=)[\d.]",
        patterns={
            TIME_S: (r"\btrain_step_timing in s" + NUMBER, 1.0),
            RATE: (r"\b(?:tflops_per_sec_per_gpu|TFLOPS_per_GPU)" + NUMBER, 1e12),
            "batch": (r"\bglobal_batch_size" + NUMBER, 1.0),
        },
        step=r"^(?=.*\btrain_step_timing in s).*\bglobal_step(?:: |=)(?P<step>\d+)",
        counts="a step's time as the mean over the interval that a line is printed for",
    )
)
