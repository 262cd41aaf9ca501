"""Seconds and bytes to a target on a cluster."""
