"""Algorithms of all-reduce, one file each."""
