"""One experiment per file, in the folder of its group; `learn/lab/experiment.py` lists them."""
