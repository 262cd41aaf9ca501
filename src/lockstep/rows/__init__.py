"""One question asked for every combination of several values: lists and ranges, their answers as rows."""

from lockstep.rows.rows import Row, Rows, listed

__all__ = ["Row", "Rows", "listed"]
