"""Descent, simulated: on old gradients, along schedules, in local rounds, compressed."""
