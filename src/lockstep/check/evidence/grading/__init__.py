"""Students' tables held against what Lockstep computes: which values are off, by how much, and by which mistake."""
