"""Consistency: what old gradients cost, and where they diverge."""
