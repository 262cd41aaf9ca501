"""Context parallelism: one sequence shared by several ranks."""
