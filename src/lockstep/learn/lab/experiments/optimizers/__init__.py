"""Optimizers from norms, and the solutions they prefer."""
