"""Algorithms of all-gather, one file each."""
