"""Steps and their kernels."""
