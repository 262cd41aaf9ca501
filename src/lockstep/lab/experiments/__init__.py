"""One experiment per file, in the folder of its group; `registry.py` lists them."""
