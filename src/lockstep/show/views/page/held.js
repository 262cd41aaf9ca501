// What memory holds at a moment, by category and within it by what it is: which tensors, of which micro-batch or call.

import { button, make } from "./parts.js";

const MOST = 40; // rows of a category
export const SAID = { apart: "framework and slack, no tensors", passing: "passing activations" };

/** The place in `times_s` at which most is held. */
export function fullest({ used_B }) {
  let most = 0;
  for (let i = 1; i < used_B.length; i++) if (used_B[i] > used_B[most]) most = i;
  return most;
}

/** The moment at a place as elements; `go(place)` shows another one. */
export function held(rank, place, write, go) {
  const { times_s, used_B, stack, lives, tensors, reserved_B } = rank, at_s = times_s[place], last = times_s.length - 1;
  const apart_B = stack.find((one) => one.name === "apart")?.used_B[place] ?? 0;
  const told = `${rank.name} from ${write.time(at_s)} on: ${write.size(used_B[place] - apart_B)} allocated for tensors` +
    (reserved_B ? `; PyTorch reserves at most ${write.size(reserved_B)}, the framework's share among it` : "");
  const parts = stack.filter((one) => one.used_B[place] > 0).sort((one, two) => two.used_B[place] - one.used_B[place])
    .map((one) => category(one.name, one.used_B[place], at_s, rank, write));
  const moves = make("p", "ls-tools", button("Before", "To the change of memory before", () => go(Math.max(0, place - 1))),
    button("Fullest", "To the fullest moment", () => go(fullest(rank))), button("After", "To the next change of memory", () => go(Math.min(last, place + 1))));
  return { told, elements: [make("div", "ls-held", moves, ...parts)] };
}

function category(name, size_B, at_s, { lives, tensors }, write) {
  const rows = [];
  for (let i = 0; i < lives.title.length; i++) if (lives.category[i] === name && lives.born_s[i] <= at_s && at_s < lives.died_s[i]) rows.push(i);
  rows.sort((one, two) => lives.size_B[two] - lives.size_B[one] || lives.born_s[one] - lives.born_s[two]);
  const shares = tensors[name] ?? [], since = (i) => `from ${write.time(lives.born_s[i])} to ${write.time(lives.died_s[i])}`;
  const inside = rows.length ? rows.slice(0, MOST).map((i) => (shares.length ? folded(`${lives.title[i]}, ${since(i)}`, lives.size_B[i], listed(shares, lives.size_B[i], write), write) : line(`${lives.title[i]}, ${since(i)}`, lives.size_B[i], write)))
    : listed(shares, size_B, write);
  if (rows.length > MOST) inside.push(make("div", "dim", `${(rows.length - MOST).toLocaleString("en")} smaller ones`));
  return folded(SAID[name] ?? name, size_B, inside, write, name);
}

const listed = (shares, size_B, write) => shares.map(([name, share]) => line(name, share * size_B, write));
const line = (text, size_B, write) => make("div", "ls-line", make("span", "", text), make("span", "", write.size(size_B)));

// A line that opens to what it is made of, where that is known.
function folded(text, size_B, inside, write, name) {
  const mark = make("i");
  if (name) mark.style.background = `var(--m-${name}, var(--memory))`;
  const said = [...(name ? [mark] : []), text];
  if (!inside.length) return make("div", "ls-line", make("span", "", ...said), make("span", "", write.size(size_B)));
  return make("details", "", make("summary", "", make("span", "", ...said), make("span", "", write.size(size_B))), ...inside);
}
