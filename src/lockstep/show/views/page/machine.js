// A step over the machine: nodes, their devices and links, and what each of them does at a moment of the simulated step.
//
//   machine(element, form, options)      form of machine.py; resolves to { seek(share), doing(stage), at(), times }
//
// options.state.moment is a share of the step as an address has it, options.mark(words) keeps it there.

import { formatter } from "./format.js";
import { lower, readTimelines } from "./lanes.js";
import { button, colours, make, onScheme, tablePlace } from "./parts.js";

const LEFT = 14, APART = 10, TITLE = 17, BAR = 5, FRAME = 15, BUS = 32, LARGEST = 44, SMALLEST = 4, WRITTEN = 34, MARKED_MS = 250, CALM_MS = 1000;
const DASHES = { tp: [], cp: [8, 3], ep: [2, 2], pp: [5, 2], dp: [10, 3, 2, 3], host: [1, 3] };
const KINDS = Object.keys(DASHES);
const GLYPHS = { forward: "▶", backward: "◀", other: "■", sending: "◆", waiting: "□" };
const SAID = { forward: "forward pass", backward: "backward pass", other: "other computing", sending: "sending, nothing to compute", waiting: "waiting" };
const SPEEDS = [["10", "a step in 10 s"], ["30", "a step in 30 s"], ["120", "a step in 2 min"]];

/** Where nodes lie in a picture of so many pixels: the largest devices for which it is not too tall. */
export function lay(nodes, width, most) {
  const unit = nodes[0].stages.length, root = Math.sqrt(unit), framed = nodes.some((one) => one.frame) ? FRAME : 0;
  let across = Math.ceil(root);
  for (let d = across; d <= 2 * root; d++) if (unit % d === 0) { across = d; break; }
  const down = Math.ceil(unit / across);
  for (let cell = LARGEST; ; cell--) {
    const step = cell + Math.max(1, Math.round(cell / 9)), wide = across * step + 9, tall = TITLE + down * step + BAR + 8;
    const fit = Math.max(1, Math.floor((width - LEFT) / (wide + APART))), rows = Math.ceil(nodes.length / fit), each = framed + tall + BUS;
    if ((rows * each > most || wide + APART + LEFT > width) && cell > SMALLEST) continue;
    const columns = Math.ceil(nodes.length / rows);
    const boxes = nodes.map((node, at) => ({ node, x: LEFT + (at % columns) * (wide + APART), y: framed + Math.floor(at / columns) * each, row: Math.floor(at / columns) }));
    return { boxes, cell, step, across, wide, tall, framed, height: rows * each + 14, written: cell >= WRITTEN };
  }
}

/** For every stage the paths of its devices, of the signs in them, and of the links that its nodes have at every level. */
function paths(place, stages, levels) {
  const of = Array.from({ length: stages }, () => ({ cells: new Path2D(), signs: Object.fromEntries(Object.keys(GLYPHS).map((one) => [one, new Path2D()])), places: [], links: levels.map(() => KINDS.map(() => new Path2D())), notes: [] }));
  const { cell, step } = place;
  for (const { node, x, y } of place.boxes) {
    node.stages.forEach((stage, at) => {
      if (!of[stage]) return;
      const left = x + 5 + (at % place.across) * step, top = y + TITLE + Math.floor(at / place.across) * step, path = of[stage];
      path.cells.roundRect(left, top, cell, cell, Math.min(4, cell / 5));
      path.places.push([left + cell / 2, top + 0.75 * cell]);
      for (const [state, mark] of Object.entries(path.signs)) sign(mark, state, left + cell / 2, top + cell * (place.written && state !== "sending" ? 0.33 : 0.5), cell * (state === "sending" ? 0.38 : 0.2));
    });
    for (const { stage, from, long, out, foot } of parts(place, node, x, y).filter((one) => one.stage < stages)) {
      levels.forEach((_, level) => KINDS.forEach((kind, k) => {
        const path = of[stage].links[level][k], shift = (k - KINDS.length / 2) * 2, low = foot + 20 + shift;
        if (level === 0) polyline(path, [[from, foot - BAR - 2 + shift / 4], [from + long - 1, foot - BAR - 2 + shift / 4]]);
        else if (level < levels.length - 1) polyline(path, [[out + shift, foot], [out + shift, foot + 5]]);
        else polyline(path, [[4 + shift / 2, low], [out + shift, low], [out + shift, foot]]);
      }));
      of[stage].notes.push([from, foot + 12, long]);
    }
  }
  return of;
}

// The parts of a node's links, one for each stage that it holds: its share of the node's own, and where one leaves it.
function parts({ wide, tall }, node, x, y) {
  const here = [...new Set(node.stages)].filter((stage) => stage >= 0), long = (wide - 8) / here.length;
  return here.map((stage, at) => ({ stage, long, from: x + 4 + at * long, out: x + 4 + (at + 1) * long - Math.min(9, long / 2), foot: y + tall }));
}

function polyline(path, points) {
  points.forEach(([x, y], at) => (at ? path.lineTo(x, y) : path.moveTo(x, y)));
}

function sign(path, state, x, y, r) {
  if (state === "forward") polyline(path, [[x - r * 0.8, y - r], [x + r, y], [x - r * 0.8, y + r]]);
  else if (state === "backward") polyline(path, [[x + r * 0.8, y - r], [x - r, y], [x + r * 0.8, y + r]]);
  else if (state === "sending") polyline(path, [[x, y - r], [x + r, y], [x, y + r], [x - r, y]]);
  else if (state === "other") path.rect(x - r * 0.8, y - r * 0.8, r * 1.6, r * 1.6);
  path.closePath();
}

export async function machine(element, form, options = {}) {
  const [timeline] = await readTimelines(form), { spans, titles, families, first, traffic, lanes, ranks } = timeline, whole_s = timeline.makespan_s;
  const write = formatter(form.units), calm = matchMedia("(prefers-reduced-motion: reduce)");
  const tools = make("div", "ls-tools"), canvas = make("canvas", "ls-machine"), back = document.createElement("canvas"), status = make("p", "ls-status");
  const table = tablePlace("What every stage does"), slider = make("input"), speed = make("select"), times = { frame_ms: 0, most_ms: 0 };
  const devices = ranks.map((rank) => rank.devices), stages = ranks.length, of = ranks.map((rank) => lanes.flatMap((lane, at) => (lane.rank === rank.rank ? [at] : [])));
  let place, path, colour, share = 0, playing = 0, before = 0, events = null, kept = 0, said = "";

  // What a stage does now: the operation of every lane that has begun and not ended.
  function doing(stage) {
    const at_s = Math.min(share, form.last) * whole_s, found = { text: "", traffic: [] };
    for (const lane of of[stage]) {
      const [from, to] = [first[lane], first[lane + 1]], next = lower(spans.start_s, at_s, from, to), i = next < to && spans.start_s[next] === at_s ? next : next - 1;
      if (i < from || at_s >= spans.start_s[i] + spans.duration_s[i]) continue;
      const title = spans.title[i];
      if (!families[spans.family[i]].computes) found.traffic.push({ ...traffic[title], size_B: spans.size_B[i] || traffic[title].size_B });
      else if (!lanes[lane].waits) found.text = titles[title];
    }
    found.state = found.text ? (form.ways[found.text[0]] ?? "other") : found.traffic.length ? "sending" : "waiting";
    return found;
  }

  function frame() {
    const began = performance.now(), context = canvas.getContext("2d"), now = of.map((_, stage) => doing(stage));
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(back, 0, 0);
    context.setTransform(ratio(), 0, 0, ratio(), 0, 0);
    now.forEach((one, stage) => device(context, one, path[stage]));
    for (const level of form.levels.keys()) now.forEach((one, stage) => one.traffic.forEach((sent) => sent.level === level && glow(context, sent, path[stage].links[level])));
    now.forEach((one, stage) => notes(context, one, path[stage]));
    say(now);
    times.frame_ms = performance.now() - began;
    times.most_ms = Math.max(times.most_ms, times.frame_ms);
  }

  function device(context, one, { cells, signs, places }) {
    const sent = one.traffic[0] && colour.css(`--${one.traffic[0].kind}`);
    context.lineWidth = 1;
    if (one.text) {
      context.fillStyle = colour.css("--compute");
      context.fill(cells);
    }
    context.strokeStyle = sent ?? colour.css("--idle");
    context.lineWidth = sent ? Math.max(1.5, place.cell / 9) : 1;
    if (!one.text || sent) context.stroke(cells);
    context.fillStyle = one.state === "sending" ? sent : colour.css("--ground");
    context.fill(signs[one.state]);
    if (!one.text || !place.written || one.text.length * 6.2 > place.cell - 2) return;
    context.font = `11px ${colour.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const [x, y] of places) context.fillText(one.text, x, y);
  }

  function glow(context, { kind }, links) {
    const k = KINDS.indexOf(kind);
    context.strokeStyle = colour.css(`--${kind}`);
    context.globalAlpha = 0.22;
    context.lineWidth = 7;
    context.stroke(links[k]);
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.setLineDash(DASHES[kind]);
    context.stroke(links[k]);
    context.setLineDash([]);
  }

  // Bytes beside the links of a node, where there is room for them.
  function notes(context, one, { notes: where }) {
    const text = one.traffic.filter((sent) => sent.size_B).map((sent) => `${sent.kind} ${write.size(sent.size_B)}`).join("  ");
    if (!text || where[0]?.[2] < text.length * 5) return;
    context.font = `10px ${colour.font}`;
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    for (const [x, y] of where) {
      context.lineWidth = 3;
      context.strokeStyle = colour.css("--ground");
      context.strokeText(text, x, y);
      context.fillStyle = colour.css("--ink");
      context.fillText(text, x, y);
    }
  }

  // The same in words: how many devices do what, and a row for every stage. Written only where it has changed.
  function say(now) {
    const count = (...states) => now.reduce((sum, one, stage) => sum + (states.includes(one.state) ? devices[stage] : 0), 0).toLocaleString("en");
    status.textContent = `${write.time(share * whole_s)} of ${write.time(whole_s)}: ${count("forward", "backward", "other")} devices compute, ${count("sending")} send with nothing to compute, ${count("waiting")} wait`;
    slider.value = share * slider.max;
    slider.setAttribute("aria-valuetext", `${write.time(share * whole_s)} of ${write.time(whole_s)}`);
    const rows = now.map((one) => [one.text ? `${one.text}, ${SAID[one.state]}` : SAID[one.state], one.traffic.map(sends).join("; ")]), text = JSON.stringify(rows);
    if (text === said) return;
    said = text;
    rows.forEach(([does, moves], stage) => {
      const cells = table.rows[stage];
      if (cells[0].textContent !== does) cells[0].textContent = does;
      if (cells[1].textContent !== moves) cells[1].textContent = moves;
    });
  }

  const level = (at) => (at < 0 ? "with the host" : `over ${form.levels[at].link}, ${form.levels[at].name}`);
  const sends = (sent) => [sent.text, sent.size_B ? write.size(sent.size_B) : "", level(sent.level)].filter(Boolean).join(", ");

  function lines() {
    const head = make("thead", "", make("tr", "", ...["stage", "devices", "does", "sends"].map((text) => make("th", text === "devices" ? "r" : "", text))));
    const rows = ranks.map((rank, stage) => {
      const cells = [make("td", "line"), make("td", "line")];
      table.rows = [...(table.rows ?? []), cells];
      return make("tr", "", make("td", "", rank.name), make("td", "r", devices[stage].toLocaleString("en")), ...cells);
    });
    table.append(make("table", "", head, make("tbody", "", ...rows)));
  }

  const ratio = () => window.devicePixelRatio || 1;

  // What does not change while the step moves: nodes, their names, and the links at rest.
  function ground() {
    colour = colours(element);
    const width = Math.max(200, element.clientWidth), context = back.getContext("2d");
    place = lay(form.nodes, width, width < 620 ? 900 : 540);
    path = paths(place, stages, form.levels);
    for (const one of [canvas, back]) Object.assign(one, { width: Math.round(width * ratio()), height: Math.round(place.height * ratio()) });
    Object.assign(canvas.style, { width: `${width}px`, height: `${place.height}px` });
    context.setTransform(ratio(), 0, 0, ratio(), 0, 0);
    context.font = `11px ${colour.font}`;
    context.strokeStyle = colour.css("--idle");
    const out = form.levels.length > 1;
    for (const { node, x, y } of place.boxes) {
      context.beginPath();
      context.roundRect(x + 0.5, y + 0.5, place.wide - 1, place.tall - 1, 5);
      context.stroke();
      context.fillStyle = colour.css("--dim");
      context.fillRect(x + 4, y + place.tall - BAR - 4, place.wide - 8, BAR);
      context.fillStyle = colour.css("--quiet");
      context.fillText(node.name, x + 5, y + 12, place.wide - 10);
      if (!out) continue;
      context.beginPath();
      for (const { out: at, foot } of parts(place, node, x, y)) polyline(context, [[at, foot], [at, foot + 20], [4, foot + 20]]);
      context.stroke();
    }
    const feet = place.boxes.map(({ y }) => y + place.tall + 20);
    context.beginPath();
    if (out && feet.length > 1) polyline(context, [[4, Math.min(...feet)], [4, Math.max(...feet)]]);
    context.stroke();
    frames(context);
  }

  // Around the nodes of a row that lie in one unit of the next level.
  function frames(context) {
    const runs = new Map();
    for (const box of place.framed ? place.boxes : []) {
      const key = `${box.node.frame} ${box.row}`, had = runs.get(key);
      runs.set(key, { from: had?.from ?? box, to: box });
    }
    for (const { from, to } of runs.values()) {
      context.strokeRect(from.x - 4.5, from.y - 2.5, to.x + place.wide - from.x + 8, place.tall + 7);
      context.fillText(from.node.frame, from.x - 3, from.y - 5);
    }
  }

  function seek(to) {
    share = Math.min(1, Math.max(0, to));
    frame();
    if (playing) return;
    clearTimeout(kept);
    kept = setTimeout(() => element.isConnected && options.mark?.({ moment: `${+(100 * share).toFixed(3)}%` }), MARKED_MS);
  }

  // To the next moment at which any device begins or ends something, or to the one before.
  function change(by) {
    events ??= Float64Array.from(new Set([...spans.start_s, ...spans.start_s.map((start, i) => start + spans.duration_s[i])])).sort();
    const now_s = share * whole_s, slack_s = 1e-7 * whole_s, next = lower(events, now_s + (by > 0 ? slack_s : -slack_s));
    seek((events[by > 0 ? next : next - 1] ?? (by > 0 ? whole_s : 0)) / whole_s);
  }

  const play = button("Play", "Play the step (space)", () => (playing ? pause() : start()));

  function start() {
    if (share >= 1) share = 0;
    before = performance.now();
    status.setAttribute("aria-live", "off");
    play.textContent = "Pause";
    playing = requestAnimationFrame(tick);
  }

  function pause() {
    cancelAnimationFrame(playing);
    playing = 0;
    play.textContent = "Play";
    status.setAttribute("aria-live", "polite");
    seek(share);
  }

  // Who asked for little motion sees a picture a second.
  function tick(now) {
    if (!element.isConnected) return;
    playing = requestAnimationFrame(tick);
    if (calm.matches && now - before < CALM_MS) return;
    seek(share + Math.max(0, now - before) / 1000 / Number(speed.value));
    before = now;
    if (share >= 1) pause();
  }

  const keys = { " ": () => play.click(), ArrowRight: (far) => (far ? change(1) : seek(share + 0.01)), ArrowLeft: (far) => (far ? change(-1) : seek(share - 0.01)), Home: () => seek(0), End: () => seek(1), ".": () => change(1), ",": () => change(-1) };
  const pressed = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key] || event.target.matches("button, select")) return;
    event.preventDefault();
    keys[event.key](event.shiftKey);
  };

  function legend() {
    const states = Object.entries(GLYPHS).map(([state, glyph]) => {
      return make("span", "", make("b", `ls-${state}`, glyph), ` ${SAID[state]}`);
    });
    const used = new Set();
    spans.title.forEach((title, i) => families[spans.family[i]].computes || used.add(traffic[title].kind));
    const wires = KINDS.filter((kind) => used.has(kind)).map((kind) => {
      const wire = make("i", "ls-wire"), [on, off, ...more] = DASHES[kind].length ? DASHES[kind] : [9, 0], ink = `var(--${kind})`;
      const parts = [[ink, on], ["transparent", off], [ink, more[0] ?? 0], ["transparent", more[1] ?? 0]];
      let at = 0;
      wire.style.background = `repeating-linear-gradient(90deg, ${parts.map(([colour, long]) => `${colour} ${at}px ${(at += long)}px`).join(", ")})`;
      return make("span", "", wire, `${kind} traffic`);
    });
    return make("p", "ls-legend", ...states, ...wires, make("span", "", form.joins));
  }

  Object.assign(slider, { type: "range", min: 0, max: 10000, step: 1 });
  slider.setAttribute("aria-label", "Moment of the step");
  slider.addEventListener("input", () => (playing && pause(), seek(slider.value / slider.max)));
  speed.setAttribute("aria-label", "Speed");
  speed.append(...SPEEDS.map(([value, text]) => Object.assign(make("option", "", text), { value })));
  speed.value = "30";
  tools.append(play, button("‹", "To the change before", () => change(-1)), slider, button("›", "To the next change", () => change(1)), speed);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${form.nodes.length} drawn ${form.levels[0].name}s with their devices and links. Space plays and pauses, arrow keys move by a hundredth of the step, with Shift to the next change.`);
  canvas.tabIndex = 0;
  canvas.addEventListener("keydown", pressed);
  slider.addEventListener("keydown", (event) => event.key === " " && pressed(event));
  element.classList.add("ls-view");
  element.replaceChildren(tools, status, canvas, legend(), table);
  lines();
  ground();
  const asked = parseFloat(options.state?.moment);
  share = Number.isFinite(asked) ? Math.min(1, Math.max(0, asked / 100)) : 0.5;
  frame();
  new ResizeObserver(() => element.clientWidth * ratio() !== canvas.width && (ground(), frame())).observe(element);
  onScheme(element, () => (ground(), frame()));
  return { seek, doing, change, at: () => share, times, place: () => place };
}
