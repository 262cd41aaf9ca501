"""Which layout to run, and what a whole run costs: the planner and campaigns."""
