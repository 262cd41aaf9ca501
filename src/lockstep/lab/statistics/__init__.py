"""Draws that can be repeated, and what may be concluded from them."""
