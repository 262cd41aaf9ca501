"""One experiment per file; `registry.py` lists them."""
