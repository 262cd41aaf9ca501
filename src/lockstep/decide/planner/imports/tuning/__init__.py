"""Configurations of fine-tuning software: what is trained, how the model is held, and how states are sharded.

run.py        what such a file comes to, in Lockstep's terms
names.py      the model that a file names
adapters.py   low-rank adapters: their targets, and the defaults of peft
sharding.py   FSDP's settings, and DeepSpeed's configuration beside or inside a file
"""

from lockstep.decide.planner.imports.tuning.axolotl import axolotl
from lockstep.decide.planner.imports.tuning.llamafactory import llamafactory
from lockstep.decide.planner.imports.tuning.scripted import trainer_lora
from lockstep.decide.planner.imports.tuning.swift import swift
from lockstep.decide.planner.imports.tuning.swift_megatron import swift_megatron
from lockstep.decide.planner.imports.tuning.trainer import trainer, trl

__all__ = ["axolotl", "llamafactory", "swift", "swift_megatron", "trainer", "trainer_lora", "trl"]
