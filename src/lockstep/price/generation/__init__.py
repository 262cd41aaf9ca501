"""Generation: time and memory of an engine that answers prompts, by prefill and decode, and for many answers."""

from lockstep.price.generation.batching import Answered as Answered
from lockstep.price.generation.batching import simulate_answers as simulate_answers
from lockstep.price.generation.engine import HOST_S as HOST_S
from lockstep.price.generation.engine import KV_FORMATS as KV_FORMATS
from lockstep.price.generation.engine import WEIGHT_FORMATS as WEIGHT_FORMATS
from lockstep.price.generation.engine import Engine as Engine
from lockstep.price.generation.equal import equal_s as equal_s
from lockstep.price.generation.lengths import Lengths as Lengths
from lockstep.price.generation.lengths import read_lengths as read_lengths
from lockstep.price.generation.passes import Passes as Passes
from lockstep.price.generation.passes import passes_of as passes_of
from lockstep.price.generation.pool import Pool as Pool
from lockstep.price.generation.pool import pool_of as pool_of
from lockstep.price.generation.steady import Steady as Steady
from lockstep.price.generation.steady import steady as steady
