"""Lockstep plans, prices, simulates and measures distributed training."""

__version__ = "0.1.0"
