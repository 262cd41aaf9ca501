"""A measured run and the predicted one: what files and numbers of a run say, and what would explain the difference."""
