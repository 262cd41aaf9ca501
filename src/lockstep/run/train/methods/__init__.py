"""Training methods, one per file."""
