"""Checkpoints of real runs: sharded, atomic, checksummed, in several generations, written beside the training.

DIR/step-00000100/rank-0.npz    what rank 0 keeps: replicated parts (rank 0 alone), shards, its own
                  rank-0.json   bytes and checksum; written when the file is on the disk
                  manifest.json written by rank 0 when all ranks are there: only then it is a checkpoint

Both JSON files carry a checksum of their own and a schema, so that damage of any bit of any file is noticed.
"""

from lockstep.run.checkpoint.manifest import OWN, REPLICATED, SHARDED, Part
from lockstep.run.checkpoint.reader import Checkpoint, Unusable, generations, latest, latest_for_all
from lockstep.run.checkpoint.writer import CheckpointWriter, Written

__all__ = [
    "OWN",
    "REPLICATED",
    "SHARDED",
    "Checkpoint",
    "CheckpointWriter",
    "Part",
    "Unusable",
    "Written",
    "generations",
    "latest",
    "latest_for_all",
]
