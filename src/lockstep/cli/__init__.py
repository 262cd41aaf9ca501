"""The command line: parse, call the library, render; no arithmetic here."""

import sys


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits with its code."""
    try:
        from lockstep.cli.app import main as run

        run(arguments)
    except KeyboardInterrupt:
        sys.exit(130)


__all__ = ["main"]
