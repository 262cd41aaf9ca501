"""Algorithms of broadcast, one file each."""
