"""DistributedDataParallel, whose reducer is C++ on real bytes: its buckets, copies and all-reduces written out.

A gradient that is ready is divided by the number of ranks into its place in a bucket; a full bucket is all-reduced
beside the backward pass, in the order of the buckets; at its end gradients are copied back, unless they are views of
their buckets. A bucket is full when it has reached its size, apart by format: FIRST_B for the first and USUAL_B for the
others, unless `bucket_cap_mb` gives one size for all, or `bucket_cap_mb_list` one for each. They are filled in the
order of the parameters and summed in reverse, where parameters may be unused; else in the order in which the first
backward pass had its gradients, before which all are in one.

Source: pytorch v2.13.0, torch/csrc/distributed/c10d/reducer.cpp (compute_bucket_assignment_by_size, rebuild_buckets,
mark_variable_ready_dense, mark_bucket_ready, finalize_bucket_dense); torch/nn/parallel/distributed.py (_sync_buffers,
_BucketCapacityConfig). Held to the reducer itself by tests/real/test_torch_buckets.py.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel, distributed
from torch.utils._pytree import tree_leaves, tree_map

from lockstep.base.records import dataclass, field
from lockstep.base.types.plain import Json

MIB = 1 << 20
FIRST_B, USUAL_B = MIB, 25 * MIB


class Uncopied(Exception):
    """What is asked of copies of a model on several cards, and is not captured."""


@dataclass(eq=False)
class Bucket:
    """Gradients that are reduced together."""

    flat: torch.Tensor
    places: dict[torch.nn.Parameter, torch.Tensor]
    """Where the gradient of each parameter is in it."""
    waits: set[torch.nn.Parameter] = field(default_factory=set)
    """Parameters whose gradients are not ready."""
    work: Any = None
    skipped: bool = False
    """It has no parameter that was used, and is not summed."""
    at: tuple[int, bool] = (0, True)
    """Its number, and whether it is the last."""

    @classmethod
    def of(cls, parameters: list[torch.nn.Parameter]) -> Bucket:
        """A bucket for the gradients of parameters of one format."""
        sizes = [one.numel() for one in parameters]
        flat = torch.empty(sum(sizes), dtype=parameters[0].dtype, device=parameters[0].device)
        parts = zip(parameters, flat.split(sizes), strict=True)
        return cls(flat, {one: part.view(one.shape) for one, part in parts})


def limits_of(words: Json) -> list[int]:
    """Bytes at which the first bucket of a format is full, the second, and so on; the last is for all that follow."""
    if several := words.get("bucket_cap_mb_list"):
        return [int(one * MIB) for one in several]
    size_MB = words.get("bucket_cap_mb")
    return [FIRST_B, USUAL_B] if size_MB is None else [int(size_MB * MIB)]


def buckets_of(parameters: Iterable[torch.nn.Parameter], limits: Sequence[int]) -> list[list[torch.nn.Parameter]]:
    """Parameters by bucket, in the order in which their buckets become full; those that do not come last."""
    full: list[list[torch.nn.Parameter]] = []
    filling: dict[torch.dtype, list[torch.nn.Parameter]] = defaultdict(list)
    closed: Counter[torch.dtype] = Counter()
    for one in parameters:
        filling[one.dtype].append(one)
        limit = limits[min(closed[one.dtype], len(limits) - 1)]
        if sum(each.numel() * each.element_size() for each in filling[one.dtype]) >= limit:
            full.append(filling.pop(one.dtype))
            closed[one.dtype] += 1
    return full + list(filling.values())


def in_reverse(parameters: Sequence[torch.nn.Parameter], limits: Sequence[int]) -> list[list[torch.nn.Parameter]]:
    """The same by the order of the parameters alone: buckets of the last ones first."""
    places = {id(one): at for at, one in enumerate(parameters)}
    found = buckets_of(parameters, limits)
    return sorted(found, key=lambda bucket: min(places[id(one)] for one in bucket), reverse=True)


def used_in(given: object) -> set[torch.nn.Parameter]:
    """The parameters that decide a forward pass's result."""
    found: set[torch.nn.Parameter] = set()
    waits = [one.grad_fn for one in tree_leaves(given) if isinstance(one, torch.Tensor) and one.grad_fn is not None]
    seen = set(waits)
    while waits:
        node = waits.pop()
        found |= {node.variable} if hasattr(node, "variable") else set()
        before = {one for one, _ in node.next_functions if one is not None} - seen
        seen |= before
        waits += before
    return found


class Given:
    """A bucket as a hook of the program has it."""

    def __init__(self, bucket: Bucket) -> None:
        self.flat, self.places, (number, last) = bucket.flat, bucket.places, bucket.at
        self.index, self.is_last = (lambda: number), (lambda: last)

    def buffer(self) -> torch.Tensor:
        """All gradients in a row."""
        return self.flat

    def set_buffer(self, flat: torch.Tensor) -> None:
        """Puts another one in its place."""
        self.flat = flat

    def parameters(self) -> list[torch.nn.Parameter]:
        """Those whose gradients it has."""
        return list(self.places)

    def gradients(self) -> list[torch.Tensor]:
        """Of each."""
        parts = self.flat.split([one.numel() for one in self.places])
        return [part.view(one.shape) for part, one in zip(parts, self.places, strict=True)]


class CapturedDataParallel(DistributedDataParallel):
    """The same for a program, in Python."""

    def __init__(self, module: torch.nn.Module, device_ids: Any = None, **words: Any) -> None:
        torch.nn.Module.__init__(self)
        self.module, self.device_ids = module, device_ids
        for name in ("mixed_precision", "delay_all_reduce_named_params"):
            if words.get(name) is not None:
                raise Uncopied(f"DistributedDataParallel({name}=...) is not captured: leave it out{INSTEAD[name]}")
        mesh = words.get("device_mesh")
        self.hook: Callable[[Given], Any] | None = None
        self.used: torch.Tensor | None = None
        self.unused: set[torch.nn.Parameter] = set()
        """Of the backward pass to come."""
        group = words.get("process_group") or (mesh and mesh.get_group(mesh_dim=0))
        self.process_group = group or dist.distributed_c10d._get_default_group()
        self.limits = limits_of(words)
        asked = (words.get(name) for name in ("forward_sync_buffers", "broadcast_buffers"))
        self.broadcast_buffers = next((one for one in asked if one is not None), True)
        self.gradient_as_bucket_view = words.get("gradient_as_bucket_view", False)
        self.static_graph = words.get("static_graph", False)
        self.find_unused_parameters = words.get("find_unused_parameters", False)
        self.skips = words.get("skip_all_reduce_unused_params", False)
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        left_out = getattr(module, "_ddp_params_and_buffers_to_ignore", ())
        trained = [one for name, one in module.named_parameters() if one.requires_grad and name not in left_out]
        self.order: list[torch.nn.Parameter] = []
        self.rebuilt = self.find_unused_parameters and not self.static_graph
        cut = self.rebuilt or words.get("bucket_cap_mb_list")
        self._fill(in_reverse(trained, self.limits if cut else [sys.maxsize]))
        for one in trained:
            one.register_post_accumulate_grad_hook(self._ready)

    def _fill(self, parts: Iterable[list[torch.nn.Parameter]]) -> None:
        """Makes the buckets."""
        self.buckets = [Bucket.of(part) for part in parts]
        for number, one in enumerate(self.buckets):
            one.at = number, number == len(self.buckets) - 1
        self.bucket_of = {one: bucket for bucket in self.buckets for one in bucket.places}
        self.begun, self.turn = False, 0
        if self.find_unused_parameters and not self.static_graph:
            device = self.buckets[0].flat.device
            self.used = torch.zeros(len(self.bucket_of), dtype=torch.int32, device=device)

    def forward(self, *args: Any, **words: Any) -> Any:
        """The module's; buffers are those of the first rank."""
        if any(hasattr(one, "_in_backward_optimizers") for one in self.bucket_of):
            raise Uncopied("optimizers inside the backward pass of copied models are not captured: update after it")
        if self.order and not self.rebuilt:
            left = [one for bucket in self.buckets for one in bucket.places if one not in {*self.order}]
            self._fill(buckets_of(self.order + left, self.limits))
            self.rebuilt = True
        buffers = list(self.module.buffers()) if self.broadcast_buffers and self.require_forward_param_sync else []
        self._broadcast([one for one in buffers if one.is_cuda])
        given = self.module(*args, **words)
        self.unused = {*self.bucket_of} - used_in(given) if self.used is not None and torch.is_grad_enabled() else set()
        return given

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
        """What is done with a full bucket in place of an all-reduce."""
        self.hook = partial(hook, state)

    def join(self, *args: Any, **words: Any) -> Any:
        """Is refused."""
        raise Uncopied("DistributedDataParallel.join is not captured: give all ranks equally many batches")

    def _ready(self, one: torch.nn.Parameter) -> None:
        """A gradient is there."""
        if not self.require_backward_grad_sync:
            return
        if not self.begun:
            self.begun, self.turn = True, 0
            for bucket in self.buckets:
                bucket.waits, bucket.skipped = set(bucket.places) - self.unused, False
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
        self.order += [] if self.rebuilt else [one]
        bucket = self.bucket_of[one]
        with torch.no_grad():
            self._put(one, bucket.places[one])
        bucket.waits.discard(one)
        self._reduce_full()

    def _reduce_full(self) -> None:
        """Buckets that are full and whose turn it is."""
        while self.turn < len(self.buckets) and not self.buckets[self.turn].waits:
            self._reduce(self.buckets[self.turn])
            self.turn += 1

    def _put(self, one: torch.nn.Parameter, place: torch.Tensor) -> None:
        """Divides a gradient by the number of ranks, in its bucket."""
        grad, ranks = one.grad, dist.get_world_size(self.process_group)
        if grad is None:
            return
        there = grad.untyped_storage()._cdata == place.untyped_storage()._cdata
        if self.hook is not None:  # It divides.
            place.copy_(grad) if not there else None
        elif there:
            place.div_(ranks)
        else:
            torch.mul(grad, 1.0 / ranks, out=place)
        if self.gradient_as_bucket_view:
            one.grad = place

    def _reduce(self, bucket: Bucket) -> None:
        if self.skips and not {*bucket.places} - self.unused:
            bucket.skipped = True
        elif self.hook is None:
            bucket.work = dist.all_reduce(bucket.flat, group=self.process_group, async_op=True)
        else:
            bucket.work = self.hook(Given(bucket))

    def _reduced(self, bucket: Bucket) -> Iterable[tuple[torch.nn.Parameter, torch.Tensor]]:
        """Waits for a bucket; parameters, and where their gradients are."""
        given, bucket.work = bucket.work.wait(), None
        if self.hook is None:
            return bucket.places.items()
        flat = given[0] if isinstance(given, list | tuple) else given
        if self.gradient_as_bucket_view and flat is not bucket.flat:
            bucket.flat.copy_(flat.view_as(bucket.flat))
        parts = flat.flatten().split([one.numel() for one in bucket.places])
        return ((one, part.view(one.shape)) for one, part in zip(bucket.places, parts, strict=True))

    def _finish(self) -> None:
        """Waits for all buckets, and gives parameters their gradients."""
        with torch.no_grad():
            for bucket in self.buckets[self.turn :]:
                self._reduce(bucket)
            if self.used is not None:  # Which parameters this rank has used.
                dist.all_reduce(self.used.fill_(1), group=self.process_group, async_op=True).wait()
            for bucket in (one for one in self.buckets if not one.skipped):
                for one, place in self._reduced(bucket):
                    if one.grad is not None and not self.gradient_as_bucket_view:
                        one.grad.copy_(place)
        self.begun = False


INSTEAD = {"mixed_precision": ", and use torch.autocast", "delay_all_reduce_named_params": ""}


def _on_one_card(self: torch.nn.DataParallel[Any], *args: Any, **words: Any) -> Any:
    """What is put on the card; there are no copies. Raises Uncopied for several cards."""
    if len(self.device_ids) > 1:
        raise Uncopied("DataParallel on several cards is not captured: use DistributedDataParallel, a rank for each")
    moved = tree_map(lambda one: one.cuda() if isinstance(one, torch.Tensor) else one, (args, words))
    return self.module(*moved[0], **moved[1])


def prepare(notes: list[str]) -> None:
    """Programs get it by the usual names."""
    torch.nn.DataParallel.forward = _on_one_card  # type: ignore[method-assign]
    for module in (torch.nn.parallel, distributed):
        vars(module)["DistributedDataParallel"] = CapturedDataParallel
