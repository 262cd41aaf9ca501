"""Latency, bandwidth and reduction rate of links from measured times."""
