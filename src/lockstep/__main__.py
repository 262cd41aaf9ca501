"""`python -m lockstep` is the command `lockstep`."""

from lockstep.show.cli import main

if __name__ == "__main__":
    main()
