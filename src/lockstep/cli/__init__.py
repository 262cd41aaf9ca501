"""The command line: parse, call the library, render. One file per verb; no arithmetic here."""

from lockstep.cli.app import main

__all__ = ["main"]
