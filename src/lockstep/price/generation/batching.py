"""`simulate_answers`: continuous batching of one engine, event by event: answers begin, end, wait and are preempted.

Between two events the same sequences are in flight and each gets a token a step, so that k steps are one sum:

    k A(n) + sum over windows of s_w sum over sequences of sum over j below k of min(c + j, w)

At an event, answers that are complete leave; answers that wait begin, in order, while fewer than the most are in flight
and the pool holds their contexts and has a hundredth left; their prompts add a prefill. Answers to one prompt that are
in flight together hold it once, and it is filled in once. Where the next step has no room in the pool, the sequence
that began last leaves it, waits before all others and is filled in again, prompt and answer so far (vLLM's preemption
by recomputation: vllm/v1/core/sched/scheduler.py).

For equal lengths this is `equal.py`, exactly. n sequences in flight, c their contexts, A, s and w as in `passes.py`.
"""

from __future__ import annotations

from collections import Counter, deque

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field
from lockstep.base.types.arrays import Bools, Floats, Ints
from lockstep.price.generation.equal import reach_sum
from lockstep.price.generation.passes import Passes
from lockstep.price.generation.pool import Pool

NO_ROOM = "the pool of keys and values does not hold"
TRY = "cut an engine over more devices, keep keys and values in fp8, or take more of the memory"
WATERMARK_FRAC = 0.01
"""Of the pool, what stays free when a waiting answer begins beside others (vLLM: `watermark` of its block manager)."""


@dataclass(frozen=True, slots=True)
class Answered:
    """When answers were complete, and what was in flight in between."""

    end_s: Floats
    """Of each answer, in the order given."""
    first_s: Floats
    """When the first token of each answer was there."""
    start_s: Floats
    """Of each stretch between events."""
    in_flight: Ints
    """Of each stretch."""
    tokens: Ints
    """Made in each stretch."""
    decodes: Bools
    """Whether a stretch is decode steps, not a prefill."""
    prefill_s: float
    preempted: int
    """Times that a sequence left the pool."""

    @property
    def total_s(self) -> float:
        """Until the last answer is complete."""
        return float(self.end_s.max())


@dataclass(slots=True)
class _Engine:
    """What is in flight. Arrays have a row per sequence: context, tokens left, number of the answer."""

    passes: Passes
    pool: Pool
    prompt: int
    group: int
    most: int
    waiting: deque[tuple[int, int, int]]
    """(answer, tokens already made, tokens left)."""
    context: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    left: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    answer: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    resident: Counter[int] = field(default_factory=Counter)
    """Answers in flight of each prompt."""
    first_s: dict[int, float] = field(default_factory=dict)
    """When answers had their first token."""
    body_s: dict[int, float] = field(default_factory=dict)
    prefills: dict[tuple[int, int, int], float] = field(default_factory=dict)
    time_s: float = 0.0
    prefill_s: float = 0.0
    preempted: int = 0
    began: int = 0
    """At the last event."""

    def room_B(self) -> float:
        """Bytes that the pools of all groups have left; prompts in flight are held once."""
        sizes = self.pool.bytes_of(self.context)
        shared_B = self.pool.sequence_of(self.prompt) - self.pool.sequence_B
        again = len(self.context) - len(self.resident)
        return self.pool.pool_B * self.pool.groups - (float(sizes.sum()) - again * shared_B)

    def begin(self) -> None:
        """Waiting answers begin while there is room."""
        self.began, room_B, growth_B = 0, self.room_B(), self._growth_B()
        if not self.waiting or len(self.context) >= self.most:
            return
        if len(self.context):
            room_B -= WATERMARK_FRAC * self.pool.pool_B * self.pool.groups
        prompts, again = 0, list[int]()
        began: list[tuple[int, int, int]] = []
        while self.waiting and len(self.context) + len(began) < self.most:
            answer, made, left = self.waiting[0]
            new = self.resident[answer // self.group] == 0
            need_B = self.pool.sequence_of(self.prompt + made)
            need_B -= 0.0 if new else self.pool.sequence_of(self.prompt) - self.pool.sequence_B
            growth_B += self.pool.growth_B
            if need_B + growth_B > room_B:
                break
            room_B -= need_B
            self.waiting.popleft()
            self.resident[answer // self.group] += 1
            prompts += new and not made
            again += [made + self.prompt * new] if made else []
            began.append((answer, made, left))
        if began:
            self._fill(prompts, again, began)

    def _growth_B(self) -> float:
        """Bytes that a step of all sequences adds at most."""
        return self.pool.growth_B * len(self.context)

    def _fill(self, prompts: int, again: list[int], began: list[tuple[int, int, int]]) -> None:
        """Prompts and preempted contexts are filled in, which makes a token of each answer."""
        beside = len(self.context)
        filled_s = self._prefill_s(prompts, self.prompt, beside) if prompts else 0.0
        filled_s += sum(self._prefill_s(1, tokens, beside) for tokens in again)
        for place, (answer, made, _) in enumerate(began):
            if not made:
                done = (place + 1) * prompts / len(began) * self.prompt
                shares = np.ceil(done / self.passes.engine.pass_tokens) * self.passes.engine.pass_tokens
                self.first_s[answer] = self.time_s + filled_s * min(1.0, shares / max(1, prompts * self.prompt))
        self.time_s += filled_s
        self.prefill_s += filled_s
        self.began = len(began)
        rows = np.array(began, dtype=np.int64)
        self.answer = np.append(self.answer, rows[:, 0])
        self.context = np.append(self.context, self.prompt + rows[:, 1] + 1)
        self.left = np.append(self.left, rows[:, 2] - 1)

    def _prefill_s(self, prompts: int, tokens: int, beside: int) -> float:
        key = prompts, tokens, beside
        if key not in self.prefills:
            self.prefills[key] = float(self.passes.prefill_s(prompts, tokens, beside))
        return self.prefills[key]

    def steps(self) -> int:
        """Steps until an answer is complete or the pool is full; preempts where it is full now."""
        while True:
            growth_B = self._growth_B()
            room = np.inf if growth_B <= 0 else np.floor(self.room_B() / growth_B + 1e-9)
            if room >= 1:
                return int(min(self.left.min(), room))
            if len(self.context) == 1:
                tokens = int(self.context[0] + self.left[0])
                raise BadInput(f"{NO_ROOM} an answer of {tokens:,} tokens with its prompt; {TRY}", "--memory-frac")
            self._preempt()

    def _preempt(self) -> None:
        """The sequence that began last leaves the pool and waits before all others."""
        made = int(self.context[-1]) - self.prompt
        self.waiting.appendleft((int(self.answer[-1]), made, int(self.left[-1])))
        keep = np.ones(len(self.context), bool)
        keep[-1] = False
        self._keep(keep)
        self.preempted += 1

    def run(self, steps: int) -> None:
        """So many steps of the sequences in flight."""
        number = len(self.context)
        if number not in self.body_s:
            self.body_s[number] = float(self.passes.tokens_s(number))
        read_s = sum(
            rate * float(np.sum(reach_sum(self.context, steps, window)))
            for window, rate in self.passes.context_s.items()
        )
        self.time_s += steps * self.body_s[number] + read_s
        self.context += steps
        self.left -= steps

    def leave(self) -> Ints:
        """The answers that are complete, which leave."""
        done = self.left <= 0
        found = self.answer[done]
        if len(found):
            self._keep(~done)
        return found

    def _keep(self, keep: Bools) -> None:
        for answer in self.answer[~keep].tolist():
            self.resident[answer // self.group] -= 1
            if not self.resident[answer // self.group]:
                del self.resident[answer // self.group]
        self.context, self.left, self.answer = self.context[keep], self.left[keep], self.answer[keep]


def simulate_answers(passes: Passes, pool: Pool, prompt: int, lengths: Ints, most: int, group: int = 1) -> Answered:
    """Answers of `lengths` tokens to prompts of `prompt` tokens, `group` in a row to the same one.

    `most` are in flight at a time. Raises BadInput where the pool does not hold a single answer.
    """
    engine = _Engine(passes, pool, prompt, group, most, deque((i, 0, n) for i, n in enumerate(lengths.tolist())))
    end_s = np.zeros(len(lengths))
    stretches: list[tuple[float, int, int, bool]] = []
    while engine.waiting or len(engine.context):
        before = engine.time_s
        engine.begin()
        if not len(engine.context):
            raise BadInput(f"{NO_ROOM} a prompt; {TRY}", "--memory-frac")
        ended = engine.leave()
        end_s[ended] = engine.time_s
        number = len(engine.context) + len(ended)
        stretches.append((before, number, engine.began, False))
        if not len(engine.context):
            continue
        steps = engine.steps()
        stretches.append((engine.time_s, len(engine.context), steps * len(engine.context), True))
        engine.run(steps)
        end_s[engine.leave()] = engine.time_s
    start_s, in_flight, tokens, decodes = (np.array(column) for column in zip(*stretches, strict=True))
    first_s = np.array([engine.first_s[answer] for answer in range(len(lengths))])
    return Answered(end_s, first_s, start_s, in_flight, tokens, decodes, engine.prefill_s, engine.preempted)
