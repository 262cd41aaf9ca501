"""DistributedDataParallel, whose reducer is C++ on real bytes: its buckets, copies and all-reduces written out.

A gradient that is ready is divided by the number of ranks into its place in a bucket; a full bucket is all-reduced
beside the backward pass; at its end gradients are copied back, unless they are views of their buckets. A bucket is full
when it has reached its size: FIRST_B for the first, `bucket_cap_mb` for the others, apart by format. They are filled in
the order in which the first backward pass had its gradients; where parameters may be unused, in the reverse order of
the parameters.

Source: pytorch v2.13.0, torch/csrc/distributed/c10d/reducer.cpp (compute_bucket_assignment_by_size, rebuild_buckets,
mark_variable_ready_dense, finalize_bucket_dense); torch/nn/parallel/distributed.py (_sync_buffers).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel, distributed

FIRST_B = 1 << 20
USUAL_MB = 25


class HookOfGradients(Exception):
    """What is done with buckets is the program's own."""


@dataclass(eq=False)
class Bucket:
    """Gradients that are reduced together."""

    flat: torch.Tensor
    places: dict[torch.nn.Parameter, torch.Tensor]
    """Where the gradient of each parameter is in it."""
    waits: set[torch.nn.Parameter] = field(default_factory=set)
    """Parameters whose gradients are not ready."""
    work: Any = None

    @classmethod
    def of(cls, parameters: list[torch.nn.Parameter]) -> Bucket:
        """A bucket for the gradients of parameters of one format."""
        sizes = [one.numel() for one in parameters]
        flat = torch.empty(sum(sizes), dtype=parameters[0].dtype, device=parameters[0].device)
        parts = zip(parameters, flat.split(sizes), strict=True)
        return cls(flat, {one: part.view(one.shape) for one, part in parts})


def buckets_of(parameters: Iterable[torch.nn.Parameter], cap_B: int) -> list[list[torch.nn.Parameter]]:
    """Parameters by bucket, in the order in which their buckets become full; those that do not come last."""
    full: list[list[torch.nn.Parameter]] = []
    filling: dict[torch.dtype, list[torch.nn.Parameter]] = defaultdict(list)
    limits: dict[torch.dtype, int] = defaultdict(lambda: FIRST_B)
    for one in parameters:
        filling[one.dtype].append(one)
        if sum(each.numel() * each.element_size() for each in filling[one.dtype]) >= limits[one.dtype]:
            full.append(filling.pop(one.dtype))
            limits[one.dtype] = cap_B
    return full + list(filling.values())


class CapturedDataParallel(DistributedDataParallel):
    """The same for a program, in Python."""

    def __init__(self, module: torch.nn.Module, device_ids: Any = None, **words: Any) -> None:
        torch.nn.Module.__init__(self)
        self.module, self.device_ids = module, device_ids
        self.process_group = words.get("process_group") or dist.distributed_c10d._get_default_group()
        self.cap_B = int((words.get("bucket_cap_mb") or USUAL_MB) * (1 << 20))
        self.broadcast_buffers = words.get("broadcast_buffers", True)
        self.gradient_as_bucket_view = words.get("gradient_as_bucket_view", False)
        self.static_graph = words.get("static_graph", False)
        self.find_unused_parameters = words.get("find_unused_parameters", False)
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        trained = [one for one in module.parameters() if one.requires_grad]
        self.order: list[torch.nn.Parameter] = []
        self.rebuilt = self.find_unused_parameters and not self.static_graph
        self._fill(reversed(trained))
        for one in trained:
            one.register_post_accumulate_grad_hook(self._ready)

    def _fill(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Makes the buckets."""
        self.buckets = [Bucket.of(part) for part in buckets_of(parameters, self.cap_B)]
        self.bucket_of = {one: bucket for bucket in self.buckets for one in bucket.places}
        self.begun = False

    def forward(self, *args: Any, **words: Any) -> Any:
        """The module's; buffers are those of the first rank."""
        if self.order and not self.rebuilt:
            self._fill(self.order)
            self.rebuilt = True
        buffers = list(self.module.buffers()) if self.broadcast_buffers and self.require_forward_param_sync else []
        self._broadcast([one for one in buffers if one.is_cuda])
        return self.module(*args, **words)

    def _broadcast(self, buffers: list[torch.Tensor]) -> None:
        """Sends buffers in one piece by format."""
        for dtype in {one.dtype: None for one in buffers}:
            part = [one for one in buffers if one.dtype == dtype]
            with torch.no_grad():
                flat = torch.cat([one.flatten() for one in part])
                dist.broadcast(flat, 0, group=self.process_group)
                for one, sent in zip(part, flat.split([one.numel() for one in part]), strict=True):
                    one.copy_(sent.view(one.shape))

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """What the reducer knows of a run: nothing."""
        return {}

    def register_comm_hook(self, state: object, hook: Any) -> None:
        """Is refused."""
        raise HookOfGradients("DistributedDataParallel.register_comm_hook is not captured: leave the hook out")

    def _ready(self, one: torch.nn.Parameter) -> None:
        """A gradient is there."""
        if not self.require_backward_grad_sync:
            return
        if not self.begun:
            self.begun = True
            for bucket in self.buckets:
                bucket.waits = set(bucket.places)
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
        self.order += [] if self.rebuilt else [one]
        bucket = self.bucket_of[one]
        with torch.no_grad():
            self._put(one, bucket.places[one])
        bucket.waits.discard(one)
        if not bucket.waits:
            self._reduce(bucket)

    def _put(self, one: torch.nn.Parameter, place: torch.Tensor) -> None:
        """Divides a gradient by the number of ranks, in its bucket."""
        grad, ranks = one.grad, dist.get_world_size(self.process_group)
        if grad is None:
            return
        if grad.untyped_storage()._cdata == place.untyped_storage()._cdata:
            place.div_(ranks)
            return
        torch.mul(grad, 1.0 / ranks, out=place)
        if self.gradient_as_bucket_view:
            one.grad = place

    def _reduce(self, bucket: Bucket) -> None:
        bucket.work = dist.all_reduce(bucket.flat, group=self.process_group, async_op=True)

    def _finish(self) -> None:
        """Waits for all buckets, and gives parameters their gradients."""
        with torch.no_grad():
            for bucket in self.buckets:
                if bucket.work is None:
                    self._reduce(bucket)
                bucket.work.wait()
                bucket.work = None
                for one, place in bucket.places.items():
                    if one.grad is not None and not self.gradient_as_bucket_view:
                        one.grad.copy_(place)
        self.begun = False


def prepare(notes: list[str]) -> None:
    """Programs get it by the usual names."""
    for module in (torch.nn.parallel, distributed):
        vars(module)["DistributedDataParallel"] = CapturedDataParallel
