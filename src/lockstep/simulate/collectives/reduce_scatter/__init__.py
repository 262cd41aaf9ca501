"""Algorithms of reduce-scatter, one file each."""
