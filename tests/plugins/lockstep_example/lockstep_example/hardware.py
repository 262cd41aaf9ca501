"""A device and a link, from a file in the form of Lockstep's catalog."""

from pathlib import Path

from lockstep.describe.hardware import read_catalog

_SHELF = read_catalog(Path(__file__).with_name("hardware.toml"))
CARD = _SHELF.devices["example-card"]
LINK = _SHELF.links["example-link"]
