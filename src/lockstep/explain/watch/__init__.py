"""A log that is followed while its run goes on: a state machine fed with steps, and the files that it is fed from."""
