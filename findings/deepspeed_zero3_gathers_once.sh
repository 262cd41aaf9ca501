#!/usr/bin/env bash
# DeepSpeed's ZeRO-3 does not gather parameters twice for each micro-batch, as its paper counts.
#
# With the default limits every rank gathers what fits `stage3_max_reuse_distance` (1e9 elements) once, in the forward
# pass, and holds all of it whole from there to the backward pass, which gathers nothing. So memory is that of an
# unsharded model and traffic that of one gather. Only with a reuse distance of 0 and no prefetch is there a second
# gather. The first micro-batch of a run differs: the order of modules is not known yet.
#
# Needs a C++ compiler: DeepSpeed builds an operation when it starts.
#
# Seen on 2026-11-29 with deepspeed 0.19.8, torch 2.13.0 and Python 3.11, two ranks over gloo on a CPU. Prints the
# elements gathered in the forward and in the backward pass of the fourth micro-batch and those whole at the loss, of
# 16,640 in all, and fails if they are others:
#   default limits     16640 0 16640
#   reuse distance 0   16640 16640 0
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 numpy setuptools wheel ninja
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check --no-build-isolation deepspeed==0.19.8
cat >"$work/count.py" <<'PYTHON'
import logging
import os
import sys

import torch


def counted(limits):
    import deepspeed
    from deepspeed.runtime.zero.partition_parameters import ZeroParamStatus

    deepspeed.utils.logger.setLevel(logging.ERROR)
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
    settings = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0, **limits},
        "zero_allow_untested_optimizer": True,
    }
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), 0.1), config=settings)
    parameters = list(engine.module.parameters())
    coordinator = engine.optimizer.parameter_offload.get_param_coordinator()
    gather, found = coordinator._PartitionedParameterCoordinator__all_gather_params_, {}

    def absent(some):
        return sum(one.ds_numel for one in some if one.ds_status == ZeroParamStatus.NOT_AVAILABLE)

    def watched(some, *words, **more):
        found[phase] = found.get(phase, 0) + absent(some)
        gather(some, *words, **more)

    coordinator._PartitionedParameterCoordinator__all_gather_params_ = watched
    for _ in range(4):
        found.clear()
        phase = "forward"
        loss = engine(torch.ones(1, 64)).sum()
        whole = sum(one.ds_numel for one in parameters) - absent(parameters)
        phase = "backward"
        engine.backward(loss)
        engine.step()
    return [found.get("forward", 0), found.get("backward", 0), whole]


def rank(number, port):
    os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": str(port), "DS_ACCELERATOR": "cpu"}
    import deepspeed

    deepspeed.init_distributed(dist_backend="gloo")
    usual = counted({})
    none = counted({"stage3_max_reuse_distance": 0, "stage3_prefetch_bucket_size": 0})
    if number == 0:
        print("default limits    ", *usual)
        print("reuse distance 0  ", *none)
        sys.stdout.flush()
    assert usual == [16640, 0, 16640], usual
    assert none == [16640, 16640, 0], none


if __name__ == "__main__":
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(rank, (port,), nprocs=2)
PYTHON
DS_ACCELERATOR=cpu "$work/env/bin/python" "$work/count.py" 2>"$work/log" || { cat "$work/log"; exit 1; }
