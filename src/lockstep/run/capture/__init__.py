"""A program that trains, captured on a machine without a GPU: what it would do on the card, operation by operation."""
