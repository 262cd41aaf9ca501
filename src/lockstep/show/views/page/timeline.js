// One step on a canvas: lanes of every rank class, computing and communication, hidden and exposed, memory in bytes.
//
//   timeline(element, form, options)      form of timeline.py; resolves to { view, search(text), times }
//
// options.state has { zoom, area, find, pins } as an address has them, options.mark(words) keeps them there.

import { sums, sumTables } from "./area.js";
import { formatter, ticks } from "./format.js";
import { fullest, held, SAID } from "./held.js";
import { layRows, lower, paintRows, readTimelines, under } from "./lanes.js";
import { button, colours, hint, inkOn, make, onScheme, tablePlace, toggle } from "./parts.js";
import { Pins } from "./pins.js";
import { Viewport } from "./viewport.js";

const AXIS = 26, LABELS = 900, MARKED_MS = 250;

export async function timeline(element, form, options = {}) {
  const timelines = await readTimelines(form), { rows, height } = layRows(timelines);
  const write = formatter(form.units), longest_s = Math.max(...timelines.map((one) => one.makespan_s));
  const most_B = 1.04 * Math.max(form.capacity_B, 1, ...rows.filter((row) => row.kind === "memory").map((row) => Math.max(row.rank.reserved_B ?? 0, largest(row.rank.used_B))));
  const tools = make("div", "ls-tools"), axis = make("canvas", "ls-axis"), canvas = make("canvas", "ls-canvas");
  const crowd = make("p", "ls-crowd", "Spans are narrower than a few pixels: heights are shares of the time. Zoom in for single ones.");
  const scroll = make("div", "ls-scroll", axis, canvas), status = make("p", "ls-status"), tip = hint(element), table = tablePlace("Sums of the selected area");
  status.setAttribute("aria-live", "polite");
  canvas.setAttribute("role", "img");
  const named = timelines.map((one) => `${one.source}, ${write.time(one.makespan_s)}`).join("; ");
  canvas.setAttribute("aria-label", `Timeline of a step: ${named}. Arrow keys move, plus and minus zoom, 0 shows all, n goes to the next match, Enter sums what is shown, Escape ends that.`);
  element.replaceChildren(tools, scroll, crowd, status, table, tip.box);
  element.classList.add("ls-view");

  let wanted = "", masks = null, colour, look, hovered = null, at = -1, area = null, shown = null;
  const gutter = () => Math.round(Math.min(112, view.width * 0.24));
  const view = new Viewport(canvas, {
    limits: { x0: 0, x1: longest_s || 1, y0: 0, y1: 1 },
    both: false,
    box: () => ({ left: gutter(), top: 0, width: Math.max(10, view.width - gutter() - 6), height: view.height }),
    paint(context, window, width, tall, ratio) {
      paintRows(context, rows, window, width, tall, ratio, look);
      label(context, window, width, ratio);
      crowd.style.visibility = look.shares ? "" : "hidden";
    },
    overlay,
    hover,
    brush,
    click: (x, y) => (x < gutter() ? pins.toggle(pins.at(y)) : holds(under(rows, view.point(x, 0).x, y, 0))),
    moved: () => mark("zoom", () => (whole() ? "" : `${share(view.window.x0)}-${share(view.window.x1)}`)),
    key: (name) => ({ n: () => step(1), Enter: () => brush(view.window, { top: 0, bottom: height }), Escape: clear })[name]?.() ?? false,
  });
  const pins = new Pins(rows, () => (mark("pins", () => pins.places.join("-")), resize()));

  // What an address keeps are shares of the step and numbers of rows.
  const share = (time_s) => (time_s / longest_s).toFixed(8).replace(/\.?0+$/, "");
  const whole = () => view.window.x0 <= 0 && view.window.x1 >= (longest_s || 1);
  const numbers = (name) => (options.state?.[name] ?? "").split("-").filter(Boolean).map(Number).filter(Number.isFinite);
  const waiting = new Map();
  function mark(name, value) {
    clearTimeout(waiting.get(name));
    if (options.mark) waiting.set(name, setTimeout(() => element.isConnected && options.mark({ [name]: value() }), MARKED_MS));
  }

  // What is called the same in both timelines has one colour.
  const names = [...new Set(timelines.flatMap((one) => one.families.filter((family) => family.computes).map((family) => family.name)))];
  const colourOf = (name) => `--c${names.indexOf(name) % 7}`;

  function refresh() {
    colour = colours(element);
    const palette = (one) => one.families.map((family) => colour.pixel(family.computes ? colourOf(family.name) : "--hidden"));
    const families = new Map(timelines.map((one) => [one, palette(one)]));
    const inks = new Map(timelines.map((one) => [one, families.get(one).map(inkOn)]));
    look = {
      inks: (one) => inks.get(one), families: (one) => families.get(one), found: (one, title) => !masks || masks.get(one)[title], all: !masks,
      hidden: colour.pixel("--hidden"), exposed: colour.pixel("--exposed"), dim: colour.pixel("--dim"),
      category: (name) => colour.css(`--m-${name}`) || colour.css("--memory"), reserved: colour.css("--ink"), memory: colour.css("--memory"), held: colour.css("--held"), limit: colour.css("--limit"), capacity_B: form.capacity_B, most_B,
    };
    view.stale();
  }

  // Titles inside the spans that are wide enough for them.
  function label(context, window, width, ratio) {
    const scale = width / (window.x1 - window.x0), letter = 6.1 * ratio;
    context.font = `${11 * ratio}px ${colour.font}`;
    context.textBaseline = "middle";
    let left = LABELS;
    for (const row of rows) {
      if (row.kind !== "compute") continue;
      const { spans, first, titles } = row.timeline, end = first[row.at + 1];
      for (let i = Math.max(first[row.at], lower(spans.start_s, window.x0, first[row.at], end) - 1); i < end && left; i++) {
        const x = (spans.start_s[i] - window.x0) * scale, wide = spans.duration_s[i] * scale, text = titles[spans.title[i]];
        if (x > width) break;
        if (wide < text.length * letter + 6 * ratio || !look.found(row.timeline, spans.title[i])) continue;
        context.fillStyle = look.inks(row.timeline)[spans.family[i]];
        context.fillText(text, x + 3 * ratio, (row.y + row.height / 2) * ratio);
        left--;
      }
    }
  }

  function overlay(context, box) {
    context.font = `11px ${colour.font}`;
    context.textBaseline = "middle";
    for (const row of rows) {
      const middle = row.y + row.height / 2 + 1;
      context.textAlign = row.kind === "rank" ? "left" : "right";
      if (row.kind === "rank") {
        const of = row.rank.devices > 1 ? `, the same on ${row.rank.devices.toLocaleString("en")} devices` : "";
        context.fillStyle = colour.css("--rule");
        context.fillRect(0, row.y, view.width, 1);
        context.fillStyle = colour.css("--ink");
        context.fillText(row.rank.name + of, 2, middle + 1);
      } else {
        context.fillStyle = colour.css(row.kind === "source" ? "--ink" : "--quiet");
        const name = row.kind === "source" ? source(row) : row.kind === "memory" ? "memory" : row.lane.name;
        context.fillText(name, box.left - 6, middle, box.left - 8);
      }
    }
    context.textAlign = "left";
    if (hovered && hovered.span !== undefined) {
      const { row, span } = hovered, { start_s, duration_s } = row.timeline.spans;
      const [from] = view.pixel(start_s[span], 0), [to] = view.pixel(start_s[span] + duration_s[span], 0), low = Math.max(box.left, from);
      context.strokeStyle = colour.css("--ink");
      context.lineWidth = 1.5;
      context.strokeRect(low, row.y, Math.max(2, Math.min(box.left + box.width, to) - low), row.height);
    }
    if (shown) {
      const [x] = view.pixel(shown.time_s, 0);
      context.fillStyle = colour.css("--ink");
      if (x >= box.left) context.fillRect(x - 1, shown.row.y, 2, shown.row.height);
    }
    if (area) {
      const [left] = view.pixel(area.x0, 0), [right] = view.pixel(area.x1, 0);
      context.strokeStyle = colour.css("--lit");
      context.lineWidth = 1.5;
      context.strokeRect(Math.max(left, box.left - 3), area.top, Math.min(right, box.left + box.width + 3) - Math.max(left, box.left - 3), area.bottom - area.top);
    }
    drawAxis(box);
  }

  // Sums of the lanes between two heights, as whole lanes.
  function brush({ x0, x1 }, { top, bottom }) {
    const inside = rows.filter((row) => row.lane && row.y + row.height > top && row.y < bottom), last = inside[inside.length - 1];
    if (!last || x1 <= x0) return clear();
    shown = null;
    area = { x0: Math.max(0, x0), x1: Math.min(longest_s, x1), top: inside[0].y, bottom: last.y + last.height };
    const { told, tables } = sumTables(sums(rows, area), area, timelines.length > 1, write);
    status.textContent = told;
    table.replaceChildren(...tables);
    mark("area", () => [share(area.x0), share(area.x1), rows.indexOf(inside[0]), rows.indexOf(last)].join("-"));
    view.ask();
    return true;
  }

  // What memory holds at a moment, below the picture.
  function holds(found) {
    if (found?.place === undefined || !found.row.rank.stack) return;
    const { told, elements } = held(found.row.rank, found.place, write, (place) => holds({ row: found.row, place }));
    shown = { time_s: found.row.rank.times_s[found.place], row: found.row };
    status.textContent = told;
    table.replaceChildren(...elements);
    view.ask();
  }

  function clear() {
    area = shown = null;
    status.textContent = "";
    table.replaceChildren();
    mark("area", () => "");
    view.ask();
    return true;
  }

  // Of a class of ranks one is measured, which has a name of its own.
  function source({ timeline: one, rank }) {
    const drawn = timelines[0].ranks.find((each) => each.rank === rank.rank);
    return drawn.name === rank.name ? one.source : `${one.source}, ${rank.name}`;
  }

  function drawAxis(box) {
    const context = axis.getContext("2d"), { x0, x1 } = view.window;
    context.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
    context.fillStyle = colour.css("--ground");
    context.fillRect(0, 0, view.width, AXIS + pins.height);
    context.font = `11px ${colour.font}`;
    context.fillStyle = colour.css("--quiet");
    for (const { at: time_s, text } of ticks(x0, x1, box.width / 90, form.units.time.steps, form.units.from)) {
      const [x] = view.pixel(time_s, 0);
      context.fillRect(x, AXIS - 5, 1, 5);
      context.textAlign = x > view.width - 30 ? "right" : "center";
      context.fillText(text, x, 12);
    }
    context.fillRect(box.left, AXIS - 1, box.width, 1);
    pins.draw(context, AXIS, view, box, colour);
  }

  function hover(x, y) {
    const box = view.plane.box(), slack_s = (2 * (view.window.x1 - view.window.x0)) / box.width;
    const found = x === null || x < box.left ? null : under(rows, view.point(x, 0).x, y, slack_s);
    if (!found) tip.hide();
    else tip.show(canvas, x, y, describe(found));
    if (found?.span !== hovered?.span || found?.row !== hovered?.row) view.ask();
    hovered = found;
  }

  function describe({ row, span, place }) {
    const where = `${row.rank.name}${timelines.length > 1 ? `, ${row.timeline.source}` : ""}`;
    if (place !== undefined) {
      const parts = (row.rank.stack ?? []).filter((one) => one.used_B[place]).map((one) => `${SAID[one.name] ?? one.name} ${write.size(one.used_B[place])}`).reverse();
      return [`${write.size(row.rank.used_B[place])} in use`, ...parts, `from ${write.time(row.rank.times_s[place])} on`, where];
    }
    const { spans, titles } = row.timeline, lines = [titles[spans.title[span]]];
    lines.push(`${write.time(spans.duration_s[span])}, from ${write.time(spans.start_s[span])} on`);
    if (row.kind === "moves") {
      const seen = spans.exposed_s[span];
      lines.push(seen ? `exposed for ${write.time(seen)}` : "hidden by computation");
      if (spans.size_B[span]) lines.push(write.size(spans.size_B[span]));
    }
    return [...lines, `${where}, ${row.lane.name}`];
  }

  function search(text) {
    wanted = text.trim().toLowerCase();
    at = -1;
    masks = wanted && new Map(timelines.map((one) => [one, one.titles.map((title) => title.toLowerCase().includes(wanted))]));
    const count = wanted ? matches().length : 0;
    status.textContent = wanted ? `${count.toLocaleString("en")} span${count === 1 ? "" : "s"} named “${text.trim()}”` : "";
    refresh();
    return count;
  }

  function matches() {
    return rows.filter((row) => row.lane).flatMap((row) => {
      const { spans, first } = row.timeline, found = [];
      for (let i = first[row.at]; i < first[row.at + 1]; i++) if (look.found(row.timeline, spans.title[i])) found.push({ row, span: i });
      return found;
    });
  }

  // Goes to the next span that matches, in order of time.
  function step(by) {
    const found = matches().sort((one, two) => one.row.timeline.spans.start_s[one.span] - two.row.timeline.spans.start_s[two.span]);
    if (!found.length) return;
    at = (at + by + found.length) % found.length;
    hovered = found[at];
    const { spans } = hovered.row.timeline, start = spans.start_s[hovered.span], wide = view.window.x1 - view.window.x0;
    const middle = start + spans.duration_s[hovered.span] / 2;
    if (start < view.window.x0 || middle > view.window.x1) view.show({ x0: middle - wide / 2, x1: middle + wide / 2 });
    scroll.scrollTop = Math.max(0, hovered.row.y - scroll.clientHeight / 2);
    status.textContent = describe(hovered).join("; ");
    view.ask();
  }

  const field = make("input");
  Object.assign(field, { type: "search", placeholder: "Search spans" });
  field.setAttribute("aria-label", "Search spans");
  field.addEventListener("input", () => (search(field.value), mark("find", () => field.value.trim())));
  field.addEventListener("keydown", (event) => event.key === "Enter" && step(event.shiftKey ? -1 : 1));
  tools.append(field, button("Next", "Next match", () => step(1)), pins.list, toggle("Select area", "Drag to sum what is inside (or drag with Shift)", () => (view.select = !view.select)),
    button("−", "Zoom out", () => view.zoom(1 / 2)), button("+", "Zoom in", () => view.zoom(2)), button("All", "Show the whole step", () => view.fit()),
    ...(rows.some((row) => row.kind === "memory" && row.rank.stack) ? [button("Memory", "What the fullest rank holds at its fullest moment (or click on any memory)", () => holds(peak()))] : []), legend());

  function peak() {
    const memories = rows.filter((row) => row.kind === "memory" && row.rank.stack), most = (row) => row.rank.used_B[fullest(row.rank)];
    const row = memories.reduce((one, two) => (most(two) > most(one) ? two : one));
    return { row, place: fullest(row.rank) };
  }

  function legend() {
    const known = new Set(), entries = [];
    for (const one of timelines) {
      const shown = one.families.filter((family) => family.computes && !known.has(family.name)).slice(0, 8);
      if (shown.length && known.size) entries.push(["", `${one.source}:`]);
      entries.push(...shown.map(({ name }) => [colourOf(name), name]));
      shown.forEach(({ name }) => known.add(name));
    }
    if (rows.some((row) => row.kind === "moves")) entries.push(["--exposed", "traffic, exposed"], ["--hidden", "traffic, hidden"]);
    const memories = rows.filter((row) => row.kind === "memory"), stacked = new Set(memories.flatMap(({ rank }) => (rank.stack ?? []).map((one) => one.name)));
    if (memories.some(({ rank }) => !rank.stack)) entries.push(["--memory", "memory"]);
    if (memories.some(({ rank }) => !rank.stack && rank.held_B)) entries.push(["--held", "of it held all the time"]);
    if (stacked.size) entries.push(["", "memory:"]);
    entries.push(...[...stacked].reverse().map((name) => [`--m-${name}`, SAID[name] ?? name]));
    if (memories.some(({ rank }) => rank.reserved_B)) entries.push(["--ink", "dashed: most that is reserved"]);
    if (form.capacity_B) entries.push(["--limit", "memory of the device"]);
    return make("span", "ls-legend", ...entries.slice(0, 28).map(([name, text]) => {
      if (!name) return make("span", "", text);
      const mark = make("i");
      mark.style.background = `var(${name})`;
      return make("span", "", mark, text);
    }));
  }

  function resize() {
    const width = Math.max(200, scroll.clientWidth);
    view.resize(width, height);
    const tall = AXIS + pins.height;
    Object.assign(axis, { width: Math.round(width * view.ratio), height: Math.round(tall * view.ratio) });
    Object.assign(axis.style, { width: `${width}px`, height: `${tall}px` });
  }

  pins.set(numbers("pins"));
  refresh();
  resize();
  if (options.state?.find) search((field.value = options.state.find));
  const [from, to] = numbers("zoom"), [x0, x1, first, end] = numbers("area");
  if (to > from) view.show({ x0: from * longest_s, x1: to * longest_s });
  if (x1 > x0 && rows[first] && rows[end]) brush({ x0: x0 * longest_s, x1: x1 * longest_s }, { top: rows[first].y, bottom: rows[end].y + 1 });
  new ResizeObserver(() => scroll.clientWidth !== view.width && resize()).observe(scroll);
  onScheme(element, refresh);
  const { left_out: ranks, left_out_spans: later } = form.timelines[0];
  status.textContent = [[ranks, "more ranks are"], [later, "later spans are"]].filter(([count]) => count)
    .map(([count, said]) => `${count.toLocaleString("en")} ${said} not drawn`).join("; ");
  return { view, search, describe, holds, rows, timelines, write, pins, sums: () => area && sums(rows, area), times: view.times };
}

function largest(values) {
  let most = 0;
  for (const value of values) if (value > most) most = value;
  return most;
}
