"""Hypothesis profiles: the same examples on every run, no deadline on a loaded machine."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci", max_examples=50, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci")
