// Every device of a machine that is drawn in kinds of nodes, small: a square that computes, a cross that sends, a dot that
// waits, on the tile of its node; under the tile the node's own link, then the way out of it, where they are lit.

import { column } from "./columns.js";
import { acrossOf } from "./nodes.js";

const LARGEST = 12, SMALLEST = 3, LINES = 4, APART = 2, BLOCKS = 6;

/** Reads the columns of a crowd. */
export const readCrowd = async (form) => form && { ...form, stages: await column(form.stages), kinds: await column(form.kinds) };

/** Where every node lies: in order, those of a unit of the second level in a block. */
export function spread({ unit, each, kinds }, width, most) {
  const across = acrossOf(unit), down = Math.ceil(unit / across), blocks = Math.ceil(kinds.length / each);
  for (let step = LARGEST; ; step--) {
    const wide = across * step + APART + 2, tall = down * step + APART + LINES;
    const apart = each > 1 ? BLOCKS : 0, room = Math.max(1, Math.floor((width - apart) / wide));
    const columns = Math.min(each, room, Math.ceil(Math.sqrt((each * tall) / wide)));
    const [broad, high] = [columns * wide + apart, Math.ceil(each / columns) * tall + apart], fit = Math.max(1, Math.floor(width / broad));
    const height = Math.ceil(blocks / fit) * high;
    if (height > most && step > SMALLEST) continue;
    const places = Array.from(kinds, (_, at) => {
      const block = Math.floor(at / each), inside = at % each;
      return [(block % fit) * broad + (inside % columns) * wide, Math.floor(block / fit) * high + Math.floor(inside / columns) * tall];
    });
    return { places, step, across, wide, tile: [across * step + 1, down * step + 1], height };
  }
}

/** For every stage the paths of its devices in each state, and of the links of its nodes; and the tiles of all nodes. */
export function crowdPaths({ unit, stages: of, kinds }, { places, step, across, wide, tile: [broad, high] }, stages) {
  const states = ["forward", "backward", "other", "sending", "waiting"], tiles = new Path2D(), cell = step - 1;
  const found = Array.from({ length: stages }, () => ({ ...Object.fromEntries(states.map((state) => [state, new Path2D()])), links: [new Path2D(), new Path2D()] }));
  kinds.forEach((kind, node) => {
    const [x, y] = places[node], here = new Set();
    tiles.rect(x, y, broad, high);
    for (let at = 0; at < unit; at++) {
      const stage = of[kind * unit + at] - 1;
      if (stage < 0) continue;
      here.add(stage);
      for (const state of states) mark(found[stage][state], state, x + 1 + (at % across) * step, y + 1 + Math.floor(at / across) * step, cell);
    }
    [...here].forEach((stage, at) => {
      const [left, right] = [at, at + 1].map((end) => (end * broad) / here.size);
      found[stage].links[0].rect(x + left, y + high + 1, right - left, 1);
      found[stage].links[1].rect(x + left, y + high + 2, (at + 1 < here.size ? right : wide) - left, 2);
    });
  });
  return { found, tiles };
}

// A whole square computes forward, its left half backward, its upper half something else.
function mark(path, state, x, y, cell) {
  const half = Math.ceil(cell / 2), dot = Math.max(1, Math.round(cell / 3)), before = Math.floor((cell - dot) / 2);
  if (state === "forward") path.rect(x, y, cell, cell);
  else if (state === "backward") path.rect(x, y, half, cell);
  else if (state === "other") path.rect(x, y, cell, half);
  else if (state === "waiting") path.rect(x + before, y + before, dot, dot);
  else {
    path.rect(x + before, y, dot, cell);
    path.rect(x, y + before, before, dot);
    path.rect(x + before + dot, y + before, cell - before - dot, dot);
  }
}

/** Draws what every device does: one path filled for each stage, and one for each of its links that is lit. */
export function paintCrowd(context, { found, tiles }, now, colour) {
  context.fillStyle = colour.css("--dim");
  context.fill(tiles);
  now.forEach((one, stage) => {
    const sent = one.traffic[0] && colour.css(`--${one.traffic[0].kind}`);
    context.fillStyle = one.text ? colour.css("--compute") : sent ?? colour.css("--idle");
    context.fill(found[stage][one.state]);
    for (const moved of one.traffic) {
      if (!moved.lit) continue;
      context.fillStyle = colour.css(`--${moved.kind}`);
      context.fill(found[stage].links[Math.min(1, moved.level)]);
    }
  });
}
