// The lanes of a timeline: where they lie, how they are painted, and what lies under a pixel.

import { column, columns } from "./columns.js";

const HEIGHTS = { rank: 24, source: 17, compute: 24, moves: 13, memory: 48, stack: 84 }, GAP = 2;

export async function readTimelines(form) {
  return Promise.all(form.timelines.map(async (one) => {
    const [spans, exposed] = [await columns(one.spans), await columns(one.exposed)];
    const ranks = await Promise.all(one.ranks.map(async (rank) => rank.times_s
      ? { ...rank, times_s: await column(rank.times_s), used_B: await column(rank.used_B), ...(rank.stack ? await readHeld(rank) : {}) } : rank));
    const first = (lane) => one.lanes.map((_, i) => lower(lane, i)).concat(lane.length);
    return { ...one, spans, exposed, ranks, first: first(spans.lane), firstExposed: first(exposed.lane) };
  }));
}

// Categories, and the lives of what they hold for a while (held.py).
async function readHeld({ stack, lives: { title, category, ...rest } }) {
  return {
    stack: await Promise.all(stack.map(async (one) => ({ ...one, used_B: await column(one.used_B) }))),
    lives: { title, category, ...(await columns(rest)) },
  };
}

// The first place of a sorted array that is not below a value.
export function lower(array, value, low = 0, high = array.length) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (array[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function layRows(timelines) {
  const rows = [];
  let y = 0;
  const add = (kind, more) => {
    const height = HEIGHTS[more.rank.stack && kind === "memory" ? "stack" : kind];
    rows.push({ kind, y, height, ...more });
    y += height + GAP;
  };
  for (const rank of timelines[0].ranks) {
    add("rank", { rank, timeline: timelines[0] });
    for (const timeline of timelines) {
      const mine = timeline.ranks.find((one) => one.rank === rank.rank);
      if (!mine) continue;
      if (timelines.length > 1) add("source", { timeline, rank: mine });
      timeline.lanes.forEach((lane, at) => {
        if (lane.rank === mine.rank) add(lane.moves ? "moves" : "compute", { timeline, rank: mine, lane, at });
      });
      if (mine.times_s) add("memory", { timeline, rank: mine });
    }
  }
  return { rows, height: y };
}

// Paints the window into pixels of a bitmap: a row of colours per lane, copied to its height.
export function paintRows(context, rows, window, width, height, ratio, look) {
  const image = kept(context, width, height), pixels = new Uint32Array(image.data.buffer);
  pixels.fill(0);
  const line = new Uint32Array(width), scale = width / (window.x1 - window.x0);
  const copy = (from, to) => {
    for (let y = Math.round(from * ratio); y < Math.min(height, Math.round(to * ratio)); y++) pixels.set(line, y * width);
  };
  look.shares = false;
  for (const row of rows) {
    if (row.kind !== "compute" && row.kind !== "moves") continue;
    const { spans, exposed, first, firstExposed } = row.timeline, { family, title } = spans, computes = row.kind === "compute";
    const shown = (i) => (look.found(row.timeline, title[i]) ? (computes ? look.families(row.timeline)[family[i]] : look.hidden) : look.dim);
    const parts = [[spans, first[row.at], first[row.at + 1], shown]];
    if (look.all) parts.push([exposed, firstExposed[row.at], firstExposed[row.at + 1], () => look.exposed]);
    if (crowded(spans, first[row.at], first[row.at + 1], window, width / ratio)) {
      look.shares = true;
      paintShares(pixels, computes ? parts : [...parts].reverse(), row, window, width, height, ratio);
      continue;
    }
    line.fill(0);
    fill(line, ...parts[0].slice(0, 3), window.x0, scale, shown);
    if (computes) {
      if (look.all) fill(line, ...parts[1].slice(0, 3), window.x0, scale, parts[1][3]);
      copy(row.y, row.y + row.height);
    } else {
      copy(row.y + row.height * 0.5, row.y + row.height);
      line.fill(0);
      if (look.all) fill(line, ...parts[1].slice(0, 3), window.x0, scale, parts[1][3]);
      for (let x = 0; look.all && x < width; x++) if (line[x]) paintColumn(pixels, line[x], x, row, width, height, ratio);
    }
  }
  context.putImageData(image, 0, 0);
  for (const row of rows) if (row.kind === "memory") paintMemory(context, row, window, width, ratio, look);
}

const FEWEST = 4, BIN = 8; // pixels of a span on average, below which shares are drawn, each of so many pixels

/** Whether the spans of a lane are too narrow to be told apart. */
function crowded({ start_s, duration_s }, from, to, { x0, x1 }, width) {
  const first = lower(start_s, x0, from, to), count = lower(start_s, x1, from, to) - first;
  const narrow = count > 1 && (duration_s[first + (count >> 1)] * width) / (x1 - x0) < 1;
  return FEWEST * count > width || (narrow && BIN * count > width / 2);
}

// Of every few pixels how much of their time goes to what, from the bottom up; what is idle stays empty. Traffic that is
// exposed hides nothing: it is taken off the spans that it is part of.
function paintShares(pixels, parts, row, { x0, x1 }, width, height, ratio) {
  const wide = BIN * ratio, bins = Math.ceil(width / wide), bin_s = ((x1 - x0) * wide) / width, sums = new Map();
  for (const [{ start_s, duration_s }, from, to, colour] of parts) {
    for (let i = Math.max(from, lower(start_s, x0, from, to) - 1); i < to && start_s[i] < x1; i++) {
      const of = colour(i), begin = start_s[i] - x0, end = begin + duration_s[i];
      if (!sums.has(of)) sums.set(of, new Float64Array(bins));
      for (let bin = Math.max(0, Math.floor(begin / bin_s)); bin < bins && bin * bin_s < end; bin++) {
        sums.get(of)[bin] += Math.max(0, Math.min(end, (bin + 1) * bin_s) - Math.max(begin, bin * bin_s)) / bin_s;
      }
    }
  }
  const bottom = Math.min(height, Math.round((row.y + row.height) * ratio)), tall = Math.round(row.height * ratio);
  for (let bin = 0; bin < bins; bin++) {
    let done = 0;
    for (const [colour, shares] of sums) {
      const share = row.kind === "moves" && done ? Math.max(0, shares[bin] - done) : shares[bin];
      const next = Math.min(1, done + (share && Math.max(share, 1 / tall))); // a little is seen too
      for (let y = bottom - Math.round(next * tall); y < bottom - Math.round(done * tall); y++) {
        if (y >= 0) pixels.fill(colour, y * width + Math.round(bin * wide), y * width + Math.min(width, Math.round((bin + 1) * wide)));
      }
      done = next;
    }
  }
}

function paintColumn(pixels, colour, x, row, width, height, ratio) {
  const end = Math.min(height, Math.round((row.y + row.height) * ratio));
  for (let y = Math.round(row.y * ratio); y < end; y++) pixels[y * width + x] = colour;
}

let image = null;

function kept(context, width, height) {
  if (!image || image.width !== width || image.height !== height) image = context.createImageData(width, height);
  return image;
}

// Of what shares a pixel the longest is seen; what is wide enough ends with a gap.
function fill(line, spans, from, to, x0, scale, colour) {
  const { start_s, duration_s } = spans, width = line.length;
  let last = -1, longest = 0;
  for (let i = Math.max(from, lower(start_s, x0, from, to) - 1); i < to; i++) {
    const begin = Math.round((start_s[i] - x0) * scale), end = Math.round((start_s[i] + duration_s[i] - x0) * scale);
    if (begin >= width) break;
    if (end < 0) continue;
    if (end - begin <= 1) {
      if (begin < 0 || (begin === last && duration_s[i] <= longest)) continue;
      last = begin;
      longest = duration_s[i];
      line[begin] = colour(i);
    } else line.fill(colour(i), Math.max(0, begin), Math.min(width, end - begin > 3 ? end - 1 : end));
  }
}

// Bytes in use as an area, or as one for each category: of all moments within a pixel the fullest.
function paintMemory(context, row, window, width, ratio, look) {
  const { times_s, used_B, held_B, stack, reserved_B } = row.rank, bottom = (row.y + row.height) * ratio, up = (row.height * ratio) / look.most_B;
  const scale = width / (window.x1 - window.x0), places = new Uint32Array(width);
  for (let x = 0, i = Math.max(0, lower(times_s, window.x0) - 1); x < width; x++) {
    let most = i;
    for (const until = window.x0 + (x + 1) / scale; i + 1 < times_s.length && times_s[i + 1] < until;) if (used_B[++i] > used_B[most]) most = i;
    places[x] = most;
  }
  let below = new Float64Array(width);
  for (const one of stack ?? [{ used_B, css: look.memory }]) {
    const above = Float64Array.from(below, (size_B, x) => size_B + one.used_B[places[x]]);
    context.fillStyle = one.css ?? look.category(one.name);
    for (let x = 0, from = 0; x < width; x++) {
      if (x + 1 < width && above[x + 1] === above[from] && below[x + 1] === below[from]) continue;
      context.fillRect(from, bottom - above[from] * up, x + 1 - from, (above[from] - below[from]) * up);
      from = x + 1;
    }
    below = above;
  }
  context.fillStyle = look.held;
  if (!stack) context.fillRect(0, bottom - held_B * up, width, held_B * up);
  context.fillStyle = look.limit;
  if (look.capacity_B) context.fillRect(0, bottom - look.capacity_B * up - 1, width, ratio);
  context.fillStyle = look.reserved;
  for (let x = 0; reserved_B && x < width; x += 10 * ratio) context.fillRect(x, bottom - reserved_B * up - 1, 5 * ratio, ratio);
}

// The span of a lane, or the moment of a memory track, at a time and a height.
export function under(rows, time_s, y, slack_s) {
  const row = rows.find((one) => y >= one.y && y < one.y + one.height + GAP);
  if (!row) return null;
  if (row.kind === "memory") return { row, place: Math.max(0, lower(row.rank.times_s, time_s) - 1) };
  if (row.kind !== "compute" && row.kind !== "moves") return null;
  const { start_s, duration_s } = row.timeline.spans, [from, to] = [row.timeline.first[row.at], row.timeline.first[row.at + 1]];
  const next = lower(start_s, time_s, from, to);
  for (const i of [next - 1, next]) {
    if (i >= from && i < to && start_s[i] - slack_s <= time_s && start_s[i] + duration_s[i] + slack_s >= time_s) return { row, span: i };
  }
  return null;
}
