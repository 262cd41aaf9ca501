"""Algorithms of gather, one file each."""
