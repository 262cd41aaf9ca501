"""Pieces of training methods that the convergence lab and real runs share.

A piece takes and returns arrays and uses only their operators and methods that numpy and torch have in common, so that
a method studied in simulation is the one that is trained. No piece imports torch.
"""
