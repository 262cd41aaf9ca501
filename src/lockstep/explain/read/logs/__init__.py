"""Logs of training programs: a file and a line per program."""
