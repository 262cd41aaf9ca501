"""The verbs: every command of `lockstep`, which is a function of the same name in a file of the same name.

    lockstep.estimate("llama3-8b", "dgx-h100:4", batch=256, tp=2, zero=1).step_time_s

Every quantity takes a number in SI units or text with a unit (`"4M"`, `"30d"`). Words and defaults are those of the
command line, which calls these functions; errors name its flags.
"""

from __future__ import annotations

from collections.abc import Mapping

TABLE: Mapping[str, Mapping[str, str]] = {
    "Plan": {
        "plan": "Find the best parallel layouts for training MODEL on a cluster.",
        "estimate": "Estimate step time, MFU and memory of one layout.",
        "memory": "Count the memory of each pipeline stage by category; without MODEL, find the largest models that a "
        "machine trains.",
        "capture": "Run your training script without a GPU, alone or as one rank of many, and say what a step takes.",
        "rollout": "Generate the answers of a reinforcement-learning step: time, tokens per second, tail, memory.",
        "guide": "Choose a layout for MODEL on a cluster by rules of thumb.",
        "export": "Print launch flags or a configuration for a layout.",
        "ui": "Ask and look in a browser: layouts, memory, what-if, campaigns and claims as pictures.",
        "report": "Write the plan of a run, and everything there is to say of it, as one HTML file.",
    },
    "Look inside": {
        "compare": "Compare two runs: the difference in step time by part, memory, cost, and whether it exceeds the "
        "error.",
        "roofline": "Compare arithmetic per byte of traffic with what each level of the network can sustain.",
        "sensitivity": "Show what step time is most sensitive to, and rank upgrades by what they save.",
        "trace": "Simulate a collective or a pipeline and write its timeline as a Chrome or Perfetto trace.",
    },
    "Programs": {
        "messages": "Count the messages needed to sum parameters over workers.",
        "collective": "Compare the algorithms of a collective: time, messages, bytes, bus bandwidth, lower bound.",
        "crossover": "Find the exact sizes at which algorithms tie, and n* = latency x bandwidth.",
        "pipeline": "Schedule a pipeline: makespan, bubble, micro-batches held per stage; or compare all schedules.",
        "overlap": "Overlap gradient all-reduces with the backward pass: exposed communication by bucket size.",
        "tensor": "Split one layer over ranks: compute, traffic, how much is hidden, and the speed-up by number of "
        "ranks.",
        "experts": "Route tokens to experts: load, drops, bytes, and the all-to-all, balanced and skewed.",
        "stragglers": "Price barriers under random step times, and what mitigations save and cost.",
        "balance": "Split a batch so that unequal workers finish together.",
    },
    "Whole runs": {
        "checkpoint": "Find how often to checkpoint (Young, Daly, exact), and what checkpoints and failures cost.",
        "campaign": "Predict a whole training run: days, failures, money, what it waits for, and what to change.",
        "scaling": "Plan a job on a cluster and on parts of it: speed-up, days, money, and where more devices stop "
        "helping.",
        "speedup": "Find the best number of workers for a data-parallel step, against Amdahl's and Gustafson's laws.",
    },
    "Convergence": {
        "converge": "Simulate how training converges and compare it with theory: staleness, local steps, compression, "
        "batch size.",
        "claims": "Look up what a textbook chapter says on distributed training, and run what decides it.",
    },
    "Measure": {
        "train": "Train a small model on real processes by any training method: loss against steps, seconds and "
        "counted bytes.",
        "reproduce": "Check that the same seeds give the same bits; find the first step and tensor where two runs "
        "diverge, and why.",
        "runs": "List, show and compare kept runs; rebuild their index.",
        "execute": "Run a collective or pipeline on real ranks; check bytes, messages and results; compare times with "
        "predictions.",
        "bench": "Measure collectives as nccl-tests does, built-in and Lockstep's own, or the kernels of a CPU or GPU.",
        "fit": "Find a link's latency and bandwidth, with intervals, from measured times; write them into a cluster "
        "file.",
        "calibrate": "Find how fast your software and links are from a few of your steps; write them into a cluster "
        "file.",
        "diagnose": "Compare a measured run with the predicted one, and find what explains the difference.",
        "watch": "Follow a running job's log: the predicted interval, time left, drift, restarts, goodput.",
        "rig": "Shape links between virtual hosts on this machine, predict collectives, then measure. Needs Linux and "
        "root.",
    },
    "Many questions": {"sweeps": "List, show, resume, export and delete sweeps that were kept with --store."},
    "Reference": {
        "find": "Find the commands, options, claims, experiments and pages that answer a question in plain words.",
        "catalog": "List models, devices, clusters and links with their sources.",
        "stack": "Show training software: its ways, habits, switches and times; or in what two differ.",
        "support": "List what answers rest on, by device, training software and number format.",
        "validate": "Check predictions against published measurements.",
        "case": "Compare published training runs with what is predicted for them.",
        "cite": "Print the papers and sources that an answer rests on.",
    },
}
"""Heading in `lockstep --help` -> verb -> what it does, in their order there."""
VERBS = tuple(verb for group in TABLE.values() for verb in group)
