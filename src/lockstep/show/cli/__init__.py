"""The command line: parse, call the library, render; no arithmetic here."""

import gc
import sys

OBJECTS_BEFORE_COLLECTION = 50_000
"""At Python's 700 the collector takes a tenth of a short command, to free next to nothing while modules are loaded."""


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits with its code."""
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
    try:
        from lockstep.show.cli.app import main as run

        run(arguments)
    except KeyboardInterrupt:
        sys.exit(130)


__all__ = ["main"]
