"""What is claimed elsewhere, and what decides it: statements of a textbook chapter, held or refuted by checks."""
