#!/usr/bin/env bash
# TRL's packing closes its rows after every thousand samples: ten thousand samples of 600 tokens, "wrapped" into rows of
# 65,536, become 100 rows of which 10 hold a tenth of a row, where 92 rows hold all. With long rows and short samples
# much of what is trained on is then in rows that are nearly empty, and a step of so many rows has fewer tokens.
#
# `pack_dataset` hands its function to `Dataset.map(batched=True)`, which calls it with batches of 1,000 samples unless
# `map_kwargs` has another batch_size. Each batch is packed on its own, by all three strategies.
#
# Seen on 2026-11-30 with trl 1.16.0, datasets 5.2.0, torch 2.13.0 and Python 3.11. Prints rows and the shortest of them
# as packed by default and in one batch, and fails if that changes:
#   wrapped: 100 rows, shortest 10176 tokens; in one batch 92 rows, shortest 36224 tokens
#   bfd: 100 rows, shortest 11400 tokens; in one batch 92 rows, shortest 48600 tokens
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 transformers==5.24.0 trl==1.16.0 datasets==5.2.0
cat >"$work/packed.py" <<'PYTHON'
from datasets import Dataset, disable_progress_bars
from trl import pack_dataset

disable_progress_bars()
data = Dataset.from_dict({"input_ids": [[1] * 600] * 10_000})


def rows(strategy, **words):
    lengths = [len(row) for row in pack_dataset(data, 65_536, strategy, words)["input_ids"]]
    return f"{len(lengths)} rows, shortest {min(lengths)} tokens"


for strategy in ("wrapped", "bfd"):
    print(f"{strategy}: {rows(strategy)}; in one batch {rows(strategy, batch_size=len(data))}")
PYTHON
seen=$("$work/env/bin/python" "$work/packed.py" 2>/dev/null)
echo "$seen"
[ "$seen" = "wrapped: 100 rows, shortest 10176 tokens; in one batch 92 rows, shortest 36224 tokens
bfd: 100 rows, shortest 11400 tokens; in one batch 92 rows, shortest 48600 tokens" ]
