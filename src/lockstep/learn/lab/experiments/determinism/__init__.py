"""The order of sums, and what it does to a run."""
