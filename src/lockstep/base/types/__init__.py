"""Names of types that all rooms share: arrays, numbers that broadcast, JSON objects."""
