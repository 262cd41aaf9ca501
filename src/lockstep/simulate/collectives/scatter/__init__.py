"""Algorithms of scatter, one file each."""
