#!/usr/bin/env bash
# OpenCLIP reduces all gradients once for every micro-batch that it accumulates, not once for every update.
#
# With `--accum-freq 4` its training loop runs four backward passes of a DistributedDataParallel model before one step
# of the optimizer, none of them inside `no_sync()`. Gradient traffic per update is therefore four times that of the same
# global batch without accumulation, which is what people accumulate to avoid. Every forward pass runs twice besides, as
# the method needs (features of all micro-batches first, without gradients).
#
# Seen on 2026-11-30 with open_clip_torch 3.3.0, torch 2.13.0 and Python 3.11, two ranks on one machine. Prints, for one
# update, how often each parameter's gradient was reduced and how many forward passes ran, and fails if they change:
#   accumulation 1: reduced 1 times, 1 forward passes
#   accumulation 4: reduced 4 times, 8 forward passes
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
    open_clip_torch==3.3.0 torchvision==0.28.0 timm==1.0.31
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check \
    ftfy==6.3.1 regex tqdm huggingface_hub safetensors pillow numpy pyyaml webdataset==1.0.2 pandas braceexpand fsspec
cat >"$work/count.py" <<'PYTHON'
import logging
import sys
from types import SimpleNamespace

import torch
import torch.distributed as dist
from open_clip import ClipLoss
from open_clip_train.train import train_one_epoch
from torch.nn.parallel import DistributedDataParallel


class Towers(torch.nn.Module):
    """Images and texts of 8 numbers, and what OpenCLIP's loop asks of a model."""

    def __init__(self):
        super().__init__()
        self.image, self.text = torch.nn.Linear(8, 4), torch.nn.Linear(8, 4)
        self.logit_scale = torch.nn.Parameter(torch.tensor(1.0))
        self.passes = 0

    def forward(self, image, text):
        self.passes += 1
        features = (torch.nn.functional.normalize(one) for one in (self.image(image), self.text(text)))
        return {**dict(zip(("image_features", "text_features"), features)), "logit_scale": self.logit_scale.exp()}


class Batches(list):
    num_batches, num_samples = property(len), property(lambda self: 4 * len(self))


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    logging.disable(logging.CRITICAL)
    for every in (1, 4):
        torch.manual_seed(0)
        model = DistributedDataParallel(Towers())
        reduced = []

        def hook(state, bucket):
            reduced.extend(bucket.parameters())
            return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda sent: sent.value()[0])

        model.register_comm_hook(None, hook)
        batches = Batches([(torch.randn(4, 8), torch.randn(4, 8)) for _ in range(every)])
        data = {"train": SimpleNamespace(dataloader=batches, set_epoch=lambda epoch: None)}
        args = SimpleNamespace(
            device="cpu", precision="fp32", accum_freq=every, distill=False, skip_scheduler=True, horovod=False,
            grad_clip_norm=None, rank=rank, local_rank=rank, world_size=ranks, batch_size=4, log_every_n_steps=1,
            log_local=False, wandb=False, save_logs=False, tensorboard=False,
        )
        loss = ClipLoss(rank=rank, world_size=1)
        train_one_epoch(model, data, loss, 0, torch.optim.SGD(model.parameters(), 0.1), None, None, None, args)
        times = {sum(one is parameter for one in reduced) for parameter in model.parameters()}
        if rank == 0:
            print(f"accumulation {every}: reduced {times.pop()} times, {model.module.passes} forward passes")
    dist.destroy_process_group()


sys.exit(main())
PYTHON
"$work/env/bin/python" -m torch.distributed.run --standalone --nproc-per-node=2 "$work/count.py" 2>/dev/null >"$work/seen"
cat "$work/seen"
diff - "$work/seen" <<'SEEN'
accumulation 1: reduced 1 times, 1 forward passes
accumulation 4: reduced 4 times, 8 forward passes
SEEN
