"""Algorithms of parameter-server, one file each."""
