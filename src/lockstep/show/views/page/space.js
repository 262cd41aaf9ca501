// Every layout of a search on a canvas: memory across, step time up, the front lit, colours by a field of the layout.
//
//   space(element, form, options)      form of space.py, or its head alone; add(message) takes what is streamed

import { formatter, ticks } from "./format.js";
import { button, colours, make, hint, onScheme, tablePlace, toggle } from "./parts.js";
import { Cloud } from "./points.js";
import { Viewport } from "./viewport.js";

const LEFT = 62, TOP = 20, BOTTOM = 40, NEAR = 8, ROWS = 40, TIMES = [1, 2, 5, 10, 20, 50, 100, 200, 500];

export async function space(element, form, options = {}) {
  const { head } = form, cloud = new Cloud(head), write = formatter(head.units), capacity = Math.log10(head.capacity_B);
  const tools = make("div", "ls-tools"), canvas = make("canvas", "ls-canvas"), status = make("p", "ls-status");
  const table = tablePlace("Selected layouts"), legend = make("div", "ls-legend"), tip = hint(element);
  canvas.setAttribute("role", "img");
  status.setAttribute("aria-live", "polite");
  element.replaceChildren(tools, legend, make("div", "ls-plot", canvas), status, table, tip.box);
  element.classList.add("ls-view");

  let found = null, front = new Map(), colour, hovered = -1, counted = 0, wanted = options.colour;
  const look = { field: cloud.fields[0], only: -1, fitting: false, palette: [], pale: [] };
  const time = (value) => write.time(value, head.digits), size = (value) => write.size(value, head.digits);
  const view = new Viewport(canvas, {
    limits: { x0: 0, x1: 1, y0: 0, y1: 1 },
    both: true,
    box: () => ({ left: LEFT, top: TOP, width: Math.max(10, view.width - LEFT - 10), height: view.height - BOTTOM - TOP }),
    paint: (context, window, width, height, ratio) => cloud.paint(context, window, width, height, ratio, look),
    overlay,
    hover,
    brush,
    key: (name) => name === "Enter" && (brush(view.window), true),
  });

  function refresh() {
    colour = colours(element);
    const paper = colour.pixel("--ground"), blend = (pixel) => [0, 8, 16].reduce(
      (made, bits) => made | (Math.round(0.28 * ((pixel >>> bits) & 255) + 0.72 * ((paper >>> bits) & 255)) << bits), 0xff000000) >>> 0;
    look.palette = look.field.texts.map((_, place) => colour.pixel(shade(place)));
    look.pale = look.palette.map(blend);
    drawLegend();
    view.stale();
  }

  // Colours go up with a degree, in the order of the numbers that its texts end with, as far apart as there is room.
  function shade(place) {
    const number = (text) => Number(text.match(/\d+$/)?.[0] ?? 0);
    const ordered = look.field.texts.map((text, i) => [number(text), text, i]).sort((one, two) => one[0] - two[0] || (one[1] < two[1] ? -1 : 1));
    const at = ordered.findIndex(([, , i]) => i === place), last = ordered.length - 1;
    return `--s${last > 9 ? at % 10 : Math.round((9 * at) / Math.max(1, last))}`;
  }

  function drawLegend() {
    const shown = look.field.texts.map((text, place) => [shade(place), text, place]).sort((one, two) => (one[0] < two[0] ? -1 : 1));
    legend.replaceChildren(...shown.slice(0, 24).map(([name, text, place]) => {
      const mark = make("i"), entry = button("", `Show only ${text || look.field.absent}`, () => {
        look.only = look.only === place ? -1 : place;
        refresh();
      });
      mark.style.background = `var(${name})`;
      entry.append(mark, text || look.field.absent);
      entry.setAttribute("aria-pressed", String(look.only === place));
      return entry;
    }));
  }

  function overlay(context, box) {
    const right = box.left + box.width, bottom = box.top + box.height;
    context.font = `11px ${colour.font}`;
    context.lineWidth = 1;
    context.fillStyle = context.strokeStyle = colour.css("--quiet");
    context.strokeRect(box.left + 0.5, box.top + 0.5, box.width - 1, box.height - 1);
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const { at, text } of logTicks(view.window.x0, view.window.x1, head.units.size, box.width / 70)) {
      const [x] = view.pixel(at, 0);
      context.fillRect(x, bottom, 1, 4);
      context.fillText(text, Math.min(x, right - 16), bottom + 7);
    }
    context.fillText("memory of the fullest device", box.left + box.width / 2, bottom + 24);
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const { at, text } of logTicks(view.window.y0, view.window.y1, head.units.time, box.height / 34)) {
      const [, y] = view.pixel(0, at);
      context.fillRect(box.left - 4, y, 4, 1);
      context.fillText(text, box.left - 7, y);
    }
    context.save();
    context.beginPath();
    context.rect(box.left, box.top, box.width, box.height);
    context.clip();
    limit(context, box);
    drawFront(context);
    if (hovered >= 0) ring(context, cloud.x[hovered], cloud.y[hovered], 5, colour.css("--ink"));
    context.restore();
    context.textAlign = "left";
    context.textBaseline = "top";
    context.fillStyle = colour.css("--quiet");
    context.fillText("step time", 4, 3);
  }

  function limit(context, box) {
    const [x] = view.pixel(capacity, 0), left = x > box.left + box.width / 2;
    context.fillStyle = colour.css("--limit");
    context.fillRect(x, box.top, 1.5, box.height);
    context.textBaseline = "top";
    context.textAlign = "left";
    const said = `${head.device}, ${size(head.capacity_B)}`, wide = context.measureText(said).width, from = left ? x - wide - 8 : x + 8;
    context.fillStyle = colour.css("--ground"); // on a plate, as there are points everywhere
    context.fillRect(from - 4, box.top + 2, wide + 8, 17);
    context.fillStyle = colour.css("--limit");
    context.fillText(said, from, box.top + 5);
  }

  function drawFront(context) {
    if (!found) return;
    const places = found.front.map((one) => view.pixel(Math.log10(one.memory_B), Math.log10(one.step_time_s)));
    context.strokeStyle = context.fillStyle = colour.css("--front");
    context.lineWidth = 1.5;
    context.beginPath();
    places.forEach(([x, y], i) => (i ? (context.lineTo(x, places[i - 1][1]), context.lineTo(x, y)) : context.moveTo(x, y)));
    context.stroke();
    for (const [x, y] of places) {
      context.beginPath();
      context.arc(x, y, 3, 0, 7);
      context.fill();
    }
    ring(context, Math.log10(found.best.memory_B), Math.log10(found.best.step_time_s), 7, colour.css("--front"));
  }

  function ring(context, x, y, radius, ink) {
    context.strokeStyle = ink;
    context.lineWidth = 2;
    context.beginPath();
    context.arc(...view.pixel(x, y), radius, 0, 7);
    context.stroke();
  }

  function hover(x, y) {
    const box = view.plane.box(), wide = view.window.x1 - view.window.x0, tall = view.window.y1 - view.window.y0;
    const inside = x !== null && x >= box.left && x <= box.left + box.width && y >= box.top && y <= box.top + box.height;
    const near = inside ? cloud.nearest(view.point(x, y), (NEAR * wide) / box.width, (NEAR * tall) / box.height, look) : -1;
    if (near < 0) tip.hide();
    else tip.show(canvas, x, y, [cloud.name(near), text(near), why(near)]);
    if (near !== hovered) view.ask();
    hovered = near;
  }

  const text = (i) => `${time(cloud.time_s[i])}, ${size(cloud.memory_B[i])}`;

  // Why a layout was not chosen.
  function why(i) {
    if (cloud.why[i] >= cloud.exceeds) return `${head.software} cannot run it: ${cloud.refusals[cloud.why[i] - cloud.exceeds]}`;
    if (cloud.why[i]) return `does not fit: ${head.why[cloud.why[i]]} of ${size(head.capacity_B)} is exceeded`.replace(
      /host memory of .* is/, "host memory is");
    const name = cloud.name(i);
    if (!found) return "fits";
    if (name === found.best.layout) return "chosen";
    if (front.has(name)) return "on the Pareto front";
    const better = found.front.find((one) => one.memory_B <= cloud.memory_B[i] && one.step_time_s <= cloud.time_s[i]);
    return better ? `${better.layout} is as fast or faster and needs no more` : "fits";
  }

  function brush(window) {
    const inside = cloud.within(window, look), head_ = ["layout", "step", "memory", ""].map((text) => make("th", "", text));
    const linked = (i) => options.link ? Object.assign(make("a", "", cloud.name(i)), { href: options.link(cloud.words(i)) }) : cloud.name(i);
    const rows = inside.slice(0, ROWS).map((i) => make("tr", "", make("td", "", linked(i)), make("td", "r", time(cloud.time_s[i])),
      make("td", "r", size(cloud.memory_B[i])), make("td", "", why(i))));
    const more = inside.length > ROWS ? `, the ${ROWS} fastest of them below` : "";
    status.textContent = `${inside.length.toLocaleString("en")} layout${inside.length === 1 ? "" : "s"} selected${more}`;
    table.replaceChildren(...(rows.length ? [make("table", "", make("thead", "", make("tr", "", ...head_)), make("tbody", "", ...rows))] : []));
  }

  // Where one looks first: what fits, up to several times slower than the fastest.
  function frame() {
    const { x0, x1, y0, y1 } = cloud.bounds, dx = 0.03 * (x1 - x0) + 0.01, dy = 0.03 * (y1 - y0) + 0.01;
    view.plane.limits = { x0: x0 - dx, x1: Math.max(x1, capacity) + dx, y0: y0 - dy, y1: y1 + dy };
    const home = { x0: x0 - dx, x1: Math.min(view.plane.limits.x1, capacity + 0.25), y0: y0 - 0.02, y1: Math.min(y1 + dy, y0 + 0.9) };
    view.plane.home = home;
    if (!view.touched) view.fit();
  }

  async function add(message) {
    if (message.error) return (status.textContent = message.error);
    if (message.again) cloud.clear();
    counted = message.counted ?? counted;
    if (message.chunk) {
      await cloud.add(message.chunk);
      frame();
    }
    if (message.found) {
      found = message.found;
      front = new Map(found.front.map((one) => [one.layout, one]));
    }
    fillColours();
    refresh();
    report();
  }

  function report() {
    const said = (count) => count.toLocaleString("en"), drawn = cloud.count;
    const text = `${said(found ? drawn + found.left_out : Math.max(counted, drawn))} layouts keep the rules`;
    const fit = found ? `, ${said(found.feasible)} fit${found.run === null ? "" : `, ${said(found.run)} of these ${head.software} can run`}` : ", searching";
    const left = found?.left_out ? `. Drawn are ${said(drawn)}: what can be chosen first, and of that the fastest` : "";
    const broken = found ? found.rejected.filter((one) => !head.why.includes(one.why)) : [];
    const listed = broken.map((one) => `${one.why} ${said(one.count)}`).join(", ");
    status.textContent = `${text}${fit}${left}${listed ? `. Broken rules: ${listed}` : ""}`;
    canvas.setAttribute("aria-label", `Step time over memory: ${text}. Arrow keys move, plus and minus zoom, 0 shows what fits, Enter lists what is shown.`);
  }

  const by = make("select");
  by.setAttribute("aria-label", "Colour by");
  by.addEventListener("change", () => {
    Object.assign(look, { field: cloud.fields.find((field) => field.name === by.value), only: -1 });
    wanted = by.value;
    options.coloured?.(wanted);
    refresh();
  });

  function fillColours() {
    const several = cloud.fields.filter((field) => field.texts.length > 1);
    look.field = several.find((field) => field.name === wanted) || (several.includes(look.field) ? look.field : several[0]) || look.field;
    by.replaceChildren(...several.map((field) => Object.assign(make("option", "", field.name.replaceAll("_", " ")), { value: field.name })));
    by.value = look.field.name;
  }

  const marks = toggle("Select area", "Drag to select layouts (or drag with Shift)", () => (view.select = !view.select));
  const fits = toggle("Only what fits", "Leave out what does not fit", () => (view.stale(), (look.fitting = !look.fitting)));
  tools.append(make("label", "", "Colour ", by), marks, fits, button("−", "Zoom out", () => view.zoom(1 / 2)),
    button("+", "Zoom in", () => view.zoom(2)), button("Near", "Show what fits", () => view.fit()),
    button("All", "Show every layout", () => view.show(view.plane.limits)));

  function resize() {
    const width = Math.max(200, canvas.parentElement.clientWidth);
    view.resize(width, Math.round(Math.min(560, Math.max(320, width * 0.5))));
  }

  for (const chunk of form.chunks || []) await cloud.add(chunk);
  if (cloud.count) frame();
  await add({ found: form.found });
  resize();
  new ResizeObserver(() => canvas.parentElement.clientWidth !== view.width && resize()).observe(canvas.parentElement);
  onScheme(element, refresh);
  return { view, cloud, add, text, why, brush, look, times: view.times };
}

// Round numbers on a logarithmic axis, thinned to about as many as asked; far inside, those of a linear one.
function logTicks(low, high, unit, count) {
  const { steps } = unit, found = [];
  for (let s = steps.length - 1; s >= 0; s--) {
    const [above, factor, name] = steps[s], below = s ? steps[s - 1][0] : Infinity;
    for (const times of TIMES) {
      const value = times * factor, at = Math.log10(value);
      if (value >= above && value < below && at >= low && at <= high) found.push({ at, text: `${times} ${name}` });
    }
  }
  if (found.length < 3) return ticks(10 ** low, 10 ** high, count, steps, 1).map(({ at, text }) => ({ at: Math.log10(at), text }));
  const every = Math.ceil(found.length / Math.max(2, count));
  return found.filter((_, i) => i % every === 0);
}
