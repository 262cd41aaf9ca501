"""Algorithms of all-to-all, one file each."""
