"""Curves that figures draw: rows of x and y, from runs whose every point is shown."""
