"""Logs of Hugging Face's Trainer: `{'train_runtime': 123.4, 'train_samples_per_second': 12.3, ...}`, or its JSON.

Source: huggingface/transformers, src/transformers/trainer_utils.py (speed_metrics): the run time is that of the whole
`train` call, with the loading of checkpoints, evaluation and saving in it.
"""

from lockstep.explain.read.logs.log import SAMPLES, Program, program
from lockstep.explain.stated import TOKENS

NUMBER = r"['\"]?\s*[:=]\s*['\"]?([\d.eE+-]+)"
SIGN = r"['\"]?train_(?:samples|steps)_per_second['\"]?\s*[:=]"
BATCH = r"Total train batch size .*= ([\d,]+)"
PROGRAM = Program(
    name="hf-trainer",
    what="a log of Hugging Face's Trainer",
    sign=SIGN,
    patterns={
        SAMPLES: (r"train_samples_per_second" + NUMBER, 1.0),
        "steps_per_s": (r"train_steps_per_second" + NUMBER, 1.0),
        TOKENS: (r"train_tokens_per_second" + NUMBER, 1.0),
        "run_s": (r"train_runtime" + NUMBER, 1.0),
    },
    settings={"batch": BATCH},
    counts="the whole call of train: loading, evaluation and saving are in its run time",
)

KIND = program(PROGRAM)
