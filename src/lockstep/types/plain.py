"""Types of plain data. Importing them loads nothing, unlike `lockstep.types.arrays`, which loads NumPy."""

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""A JSON object, as `to_dict` returns it."""
