"""Why there is no step, with the operation, the line and what helps."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from torch._subclasses.fake_tensor import DynamicOutputShapeException

from lockstep.base.types.plain import Json
from lockstep.run.capture.known import ANSWERED
from lockstep.run.capture.values import is_program, place


class Refused(Exception):
    """The program does what cannot be captured."""


def refusal(error: BaseException) -> Json:
    """Why there is no step."""
    if isinstance(error, Refused):
        return {"error": str(error)}
    if isinstance(error, DynamicOutputShapeException):
        where = _line(error)
        answer = f", or say how many rows it has with --answer {where}=NUMBER" if error.func._opname in ANSWERED else ""
        return {"error": f"{error.func} at {where} gives a tensor whose size depends on its values; {REMEDY}{answer}"}
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1]).rstrip(".")
    said = f"{type(error).__name__}: {said}{_instead(error)}"
    return {"error": f"{said} at {_line(error)}", "trace": "".join(traceback.format_exception(error))}


REMEDY = "write it with a fixed size, such as torch.where, or leave it out of the step"
STAGE = (
    "No other rank is there to say what it sends: give PipelineStage(input_args=..., output_args=...), and to "
    "tensors that get gradients requires_grad"
)
INSTEAD = {
    "PipeliningMetadataError": STAGE,
    "Failed to run stage backward": STAGE,
    "shape_env must not be None": "Nested tensors have sizes that are symbols: use padding",
    "not linked with support for cuda": "Tensors of a library's own kind, such as quantized states of optimizers, are "
    "not captured: use PyTorch's own",
}
"""What helps, by what errors of PyTorch say."""
_KERNELS = """
triton flash_attn flash_attn_interface transformer_engine bitsandbytes apex xformers mamba_ssm causal_conv1d
liger_kernel grouped_gemm sageattention fla
"""
KERNELS = frozenset(_KERNELS.split())
"""Libraries whose kernels run on a GPU alone."""


def _instead(error: BaseException) -> str:
    """What helps against an error of PyTorch or Python."""
    if isinstance(error, ImportError) and any(one in KERNELS for one in re.findall(r"\w+", f"{error.name} {error}")):
        return ". Its kernels need a GPU: use PyTorch's own operations"
    return next((f". {one}" for said, one in INSTEAD.items() if said in f"{type(error).__name__} {error}"), "")


def _line(error: BaseException) -> str:
    """File and line of the program where an error came from."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if is_program(one.filename)]
    last = frames[-1] if frames else None
    return place() if last is None else f"{Path(last.filename).name}:{last.lineno}"
