"""Algorithms of gossip, one file each."""
