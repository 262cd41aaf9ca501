"""One question asked for every combination of several values: lists and ranges, their answers as rows."""

from lockstep.base.rows.rows import Answer, Row, Rows, Unread, listed

__all__ = ["Answer", "Row", "Rows", "Unread", "listed"]
