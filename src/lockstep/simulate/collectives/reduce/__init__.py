"""Algorithms of reduce, one file each."""
