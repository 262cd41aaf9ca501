// A step over the machine: nodes, their devices and links, and what each of them does at a moment of the simulated step.
//
//   machine(element, form, options)      form of machine.py; resolves to { seek(share), doing(stage), carried(), at(), times }
//
// options.state.moment is a share of the step as an address has it, options.mark(words) keeps it there.

import { crowdPaths, paintCrowd, readCrowd, spread } from "./crowd.js";
import { formatter } from "./format.js";
import { lower, readTimelines } from "./lanes.js";
import { BAR, DASHES, GLYPHS, KINDS, lay, parts, paths, polyline } from "./nodes.js";
import { button, colours, make, onScheme, tablePlace } from "./parts.js";

const MARKED_MS = 250, CALM_MS = 1000, LIGHT = { least: 4, more: 8 };
const SAID = { forward: "forward pass", backward: "backward pass", other: "other computing", sending: "sending, nothing to compute", waiting: "waiting" };
const SPEEDS = [["10", "a step in 10 s"], ["30", "a step in 30 s"], ["120", "a step in 2 min"]];

export async function machine(element, form, options = {}) {
  const [timeline] = await readTimelines(form), crowd = await readCrowd(form.crowd), { spans, titles, families, first, traffic, lanes, ranks } = timeline, whole_s = timeline.makespan_s;
  const write = formatter(form.units), calm = matchMedia("(prefers-reduced-motion: reduce)");
  const tools = make("div", "ls-tools"), canvas = make("canvas", "ls-machine"), back = document.createElement("canvas"), everyone = make("canvas", "ls-everyone"), status = make("p", "ls-status");
  const table = tablePlace("What every stage does and what links carry"), slider = make("input"), speed = make("select"), times = { frame_ms: 0, most_ms: 0 };
  const devices = ranks.map((rank) => rank.devices), stages = ranks.length, of = ranks.map((rank) => lanes.flatMap((lane, at) => (lane.rank === rank.rank ? [at] : [])));
  const most_B = spans.size_B.reduce((most, one) => Math.max(most, one), 0), sums = sumsOf(), links = sums.map(() => [0, 0, 0].map(() => make("td", "r line")));
  let place, path, many, colour, share = 0, playing = 0, before = 0, events = null, kept = 0, said = "";

  // The last operation of a lane that has begun, first[lane] - 1 where none has, and the moment.
  function begun(lane) {
    const at_s = Math.min(share, form.last) * whole_s, to = first[lane + 1], next = lower(spans.start_s, at_s, first[lane], to);
    return [next < to && spans.start_s[next] === at_s ? next : next - 1, at_s];
  }

  // What a stage does now: the operation of every lane that has begun and not ended.
  function doing(stage) {
    const found = { text: "", traffic: [] };
    for (const lane of of[stage]) {
      const [i, at_s] = begun(lane);
      if (i < first[lane] || at_s >= spans.start_s[i] + spans.duration_s[i]) continue;
      const title = spans.title[i], size_B = spans.size_B[i], sent = traffic[title];
      if (!families[spans.family[i]].computes) found.traffic.push({ ...sent, size_B, lit: sent.level >= 0 && (sent.kind !== "pp" || size_B > 0) });
      else if (!lanes[lane].waits) found.text = titles[title];
    }
    found.state = found.text ? (form.ways[found.text[0]] ?? "other") : found.traffic.length ? "sending" : "waiting";
    return found;
  }

  // By level that is used, the bytes of all operations before each, so that those of several are a difference.
  function sumsOf() {
    const stageOf = lanes.map((lane) => ranks.findIndex((one) => one.rank === lane.rank)), sends = traffic.map((one) => one.sends && one.level);
    const sum = (level) => {
      const found = new Float64Array(spans.title.length + 1);
      spans.title.forEach((title, i) => (found[i + 1] = found[i] + (sends[title] === level ? spans.size_B[i] * devices[stageOf[spans.lane[i]]] : 0)));
      return [level, found];
    };
    return [-1, ...form.levels.keys()].map(sum).filter(([, found]) => found[found.length - 1] > 0);
  }

  // What the links of each level carry, over all devices: under way, until now, and in the whole step.
  function carried() {
    return sums.map(([level, sum]) => {
      const found = { level, now_B: 0, until_B: 0, whole_B: sum[sum.length - 1] };
      for (const lane of lanes.keys()) {
        const [i, at_s] = begun(lane);
        if (i < first[lane]) continue;
        const size_B = sum[i + 1] - sum[i], done = Math.min(1, (at_s - spans.start_s[i]) / spans.duration_s[i]);
        if (done < 1) found.now_B += size_B;
        found.until_B += sum[i] - sum[first[lane]] + done * size_B;
      }
      return found;
    });
  }

  function frame() {
    const began = performance.now(), context = canvas.getContext("2d"), now = of.map((_, stage) => doing(stage));
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(back, 0, 0);
    context.setTransform(ratio(), 0, 0, ratio(), 0, 0);
    now.forEach((one, stage) => device(context, one, path[stage]));
    for (const level of form.levels.keys()) now.forEach((one, stage) => one.traffic.forEach((sent) => sent.lit && sent.level === level && glow(context, sent, path[stage].links[level])));
    now.forEach((one, stage) => notes(context, one, path[stage]));
    if (crowd) paintAll(now);
    say(now);
    times.frame_ms = performance.now() - began;
    times.most_ms = Math.max(times.most_ms, times.frame_ms);
  }

  function paintAll(now) {
    const context = everyone.getContext("2d");
    context.setTransform(ratio(), 0, 0, ratio(), 0, 0);
    context.clearRect(0, 0, everyone.width, everyone.height);
    paintCrowd(context, many, now, colour);
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

  // A link that is lit, wider where more bytes are under way.
  function glow(context, { kind, size_B }, links) {
    const k = KINDS.indexOf(kind);
    context.strokeStyle = colour.css(`--${kind}`);
    context.globalAlpha = 0.22;
    context.lineWidth = LIGHT.least + LIGHT.more * Math.sqrt(size_B / (most_B || 1));
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

  function rewrite(cell, text) {
    if (cell.textContent !== text) cell.textContent = text;
  }

  // The same in words: how many devices do what, and a row for every stage. Written only where it has changed.
  function say(now) {
    const count = (...states) => now.reduce((sum, one, stage) => sum + (states.includes(one.state) ? devices[stage] : 0), 0).toLocaleString("en");
    status.textContent = `${write.time(share * whole_s)} of ${write.time(whole_s)}: ${count("forward", "backward", "other")} devices compute, ${count("sending")} send with nothing to compute, ${count("waiting")} wait`;
    slider.value = share * slider.max;
    slider.setAttribute("aria-valuetext", `${write.time(share * whole_s)} of ${write.time(whole_s)}`);
    carried().forEach(({ now_B, until_B, whole_B }, at) => [now_B, until_B, whole_B].forEach((size_B, cell) => rewrite(links[at][cell], size_B ? write.size(size_B) : "")));
    const rows = now.map((one) => [one.text ? `${one.text}, ${SAID[one.state]}` : SAID[one.state], one.traffic.map(sends).join("; ")]), text = JSON.stringify(rows);
    if (text === said) return;
    said = text;
    rows.forEach(([does, moves], stage) => {
      rewrite(table.rows[stage][0], does);
      rewrite(table.rows[stage][1], moves);
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
    const names = ["links", "under way", "until now", "in the step"].map((text, at) => make("th", at ? "r" : "", text));
    const levels = sums.map(([at], row) => make("tr", "", make("td", "", at < 0 ? "to the host" : `${form.levels[at].link}, ${form.levels[at].name}`), ...links[row]));
    table.append(make("table", "", head, make("tbody", "", ...rows)));
    if (sums.length) table.append(make("table", "ls-links", make("thead", "", make("tr", "", ...names)), make("tbody", "", ...levels)));
  }

  const ratio = () => window.devicePixelRatio || 1;

  // What does not change while the step moves: nodes, their names, and the links at rest.
  function ground() {
    colour = colours(element);
    const width = Math.max(200, element.clientWidth), context = back.getContext("2d");
    place = lay(form.nodes, width, width < 620 ? 900 : 540);
    path = paths(place, stages, form.levels);
    if (crowd) spreadAll(width);
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

  function spreadAll(width) {
    const found = spread(crowd, width, width < 620 ? 1100 : 640);
    many = { ...crowdPaths(crowd, found, stages), ...found };
    Object.assign(everyone, { width: Math.round(width * ratio()), height: Math.round(found.height * ratio()) });
    Object.assign(everyone.style, { width: `${width}px`, height: `${found.height}px` });
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
  everyone.setAttribute("role", "img");
  everyone.setAttribute("aria-label", form.all);
  element.replaceChildren(tools, status, canvas, legend(), ...(crowd ? [make("p", "ls-crowd", form.all), everyone] : []), table);
  lines();
  ground();
  const asked = parseFloat(options.state?.moment);
  share = Number.isFinite(asked) ? Math.min(1, Math.max(0, asked / 100)) : 0.5;
  frame();
  new ResizeObserver(() => element.clientWidth * ratio() !== canvas.width && (ground(), frame())).observe(element);
  onScheme(element, () => (ground(), frame()));
  return { seek, doing, change, at: () => share, times, carried, place: () => place, many: () => many };
}
