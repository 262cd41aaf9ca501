"""Context parallelism: one sequence shared by several ranks, whose attention needs the keys and values of all."""
