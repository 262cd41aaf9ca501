"""TensorFlow's own benchmarks of May 2017: ResNet-50 and ResNet-152 in fp32 on one P100 of a DGX-1, synthetic images.

CUDA 8 and cuDNN 5.1, elementwise operations in kernels of their own. P100 has no matrix unit and no fitted curve; this
is what its borrowed one is worth. More GPUs kept their variables on the host, which is not modelled. TensorFlow strides
in the first convolution of a bottleneck, the networks here in the second, which has 6 % more FLOPs.
"""

from __future__ import annotations

from lockstep.hardware import cluster
from lockstep.layout import Job, Layout, Recipe
from lockstep.validation.case import Case, Table, read_rows
from lockstep.validation.predict import step_time_s
from lockstep.workload import model

SOURCE = "TensorFlow, performance/benchmarks (tested in May 2017, P100): ResNets on one GPU, synthetic data"


def cases() -> tuple[Case, ...]:
    """One case per row."""
    return tuple(_case(row) for row in read_rows("tensorflow_p100.csv"))


def _case(row: dict[str, str]) -> Case:
    batch, name = int(row["batch"]), row["model"]
    recipe = Recipe(
        seq=1, batch=batch, dtype="fp32", optimizer="sgd", parameter_B=4.0, gradient_B=4.0, fused_elementwise=False
    )
    return Case(
        row=f"{row['row_id']} {name} batch {batch}",
        quantity="step_time_s",
        measured=batch / float(row["images_per_s"]),
        job=Job(model(name), recipe, 1),
        cluster=cluster("big-basin-p100", gpus=1),
        layout=Layout(micro_batch=batch),
        predict=step_time_s,
    )


P100 = Table("tensorflow_p100", "step_time_s", SOURCE, 0.10, cases)
