"""What everything stands on: types, units, errors, registries, files, tables of rows, the store and the engines."""
