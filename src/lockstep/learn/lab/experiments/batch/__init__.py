"""Batch size: noise, critical batch, learning rates that follow."""
