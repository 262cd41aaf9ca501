"""Interactive views of answers in a browser: their data, made once, and the scripts that draw it."""
