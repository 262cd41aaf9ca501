"""One experiment per file, in the folder of its group; `lab/experiment.py` lists them."""
