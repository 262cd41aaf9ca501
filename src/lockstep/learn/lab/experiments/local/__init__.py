"""Local methods: steps between averages."""
