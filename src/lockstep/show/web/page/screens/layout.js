import { blocks, figures, h, heading, memory, paper, place, s, stack } from "../dom.js";

const CELL = 9;
const GAP = 2;

function waterfall(data) {
  const lines = data.parts.map((part) => h("li", {},
    h("span", { class: "name" }, part.label),
    h("span", { class: "track" },
      part.share ? place(h("i", { class: `k-${part.kind}` }), { left: Math.min(part.start, 0.99), width: part.share }) : null,
      part.hidden ? place(h("i", { class: "hidden" }), { left: Math.min(part.start, 1 - part.hidden_share), width: part.hidden_share }) : null),
    h("span", { class: "number" }, part.text),
    h("span", { class: "number dim" }, part.percent),
    h("span", { class: "hides dim" }, part.hidden ? `${part.hidden} more hidden, room for ${part.slack}` : "")));
  return h("ol", { class: "waterfall" }, lines);
}

function stages(data) {
  return h("ol", { class: "stages" }, data.stages.map((one) => h("li", { class: one.fits ? "" : "over" },
    h("span", { class: "name" }, one.label),
    h("span", { class: "stack", role: "img", "aria-label": `${one.label}: ${one.text} of ${one.limit}` },
      one.parts.map((part) => place(h("i", { class: `k-${part.kind}`, title: `${part.label} ${part.text}` }), { width: part.share }))),
    h("span", { class: "number" }, one.text))));
}

/** Ranks as squares in rows of a node; those in the group of the chosen rank are lit. */
function grid(grid, page) {
  const step = CELL + GAP;
  const rows = Math.ceil(grid.ranks / grid.node);
  const across = Math.max(1, Math.min(rows, Math.floor((innerWidth < 620 ? 250 : 640) / (grid.node * step + 6))));
  const down = Math.ceil(rows / across);
  const squares = Array.from({ length: grid.ranks }, (_, rank) => {
    const node = Math.floor(rank / grid.node);
    const x = Math.floor(node / down) * (grid.node * step + 6) + (rank % grid.node) * step;
    return s("rect", { x, y: (node % down) * step, width: CELL, height: CELL, rx: 2, "data-rank": rank });
  });
  // A frame for every node, around its ranks.
  const frames = Array.from({ length: rows }, (_, node) => s("rect", { class: "node", x: Math.floor(node / down) * (grid.node * step + 6) - 1,
    y: (node % down) * step - 1, width: grid.node * step, height: step, rx: 3 }));
  const picture = s("svg", {
    viewBox: `-2 -2 ${across * (grid.node * step + 6)} ${down * step}`, class: "ranks", role: "img",
    "aria-label": `${grid.note} in nodes of ${grid.node}`,
  }, frames, squares);
  const said = h("output", { class: "dim" });
  const slider = h("input", { type: "range", min: 0, max: grid.ranks - 1, value: page.words.rank ?? 0, id: "rank", oninput: () => light(), onchange: () => keep() });
  let kind = grid.kinds.find((one) => one.name === page.words.lit) ?? grid.kinds[0];
  const keep = () => page.mark({ rank: slider.value, lit: kind.name });
  const buttons = grid.kinds.map((one) => h("button", { type: "button", "aria-pressed": one === kind, onclick: () => {
    kind = one;
    light();
    keep();
  } }, one.name));
  function light() {
    const rank = Number(slider.value);
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", grid.kinds[at] === kind));
    squares.forEach((square, at) => square.setAttribute("class", at === rank ? "me" : kind.of[at] === kind.of[rank] ? "with" : ""));
    const lies = Object.entries(grid.axes).map(([axis, of]) => `${axis} ${of[rank]}`).join(", ");
    said.textContent = `rank ${rank} on node ${Math.floor(rank / grid.node)}: ${lies}; ${kind.label}, over ${kind.level}`;
  }
  picture.addEventListener("pointerover", (event) => {
    if (!event.target.dataset.rank) return;
    slider.value = event.target.dataset.rank;
    light();
  });
  if (!grid.kinds.length) return h("p", { class: "dim" }, "Every rank works alone.");
  light();
  return h("div", {}, h("p", { class: "buttons", role: "group", "aria-label": "Kind of group" }, buttons),
    h("p", { class: "slide" }, h("label", { for: "rank" }, "Rank"), slider), h("p", {}, said), picture,
    h("p", { class: "dim" }, `${grid.row}; ${grid.note}`));
}

/** A captured step: where it goes, what fills the memory, what the program asked. */
function captured(element, data, page) {
  const largest = h("p", { class: "dim" });
  element.append(
    h("p", { class: "over" }, data.title), h("h1", { class: data.fits ? undefined : "red" }, data.headline), figures(data.figures), largest,
    data.parts.length ? h("section", {}, heading("Where the step goes", data.total), waterfall(data)) : "",
    h("section", {}, heading("What fills the memory", data.fullest), memory(data.memory)),
    paper(`/layout.svg${location.search}`, `what tensors hold and what runs during the step of ${data.title}`),
    ...blocks(data.blocks, page));
  page.later().then((more) => (largest.textContent = more.largest), () => {}); // another question was asked
}

/** Where the step goes, memory by stage, ranks and their groups. */
export function draw(element, data, page) {
  if (data.captured) return captured(element, data, page);
  element.append(
    h("p", { class: "over" }, data.title), h("h1", {}, data.headline),
    data.fits ? "" : h("p", { class: "red" }, "It does not fit in memory: its times are what they would be if it did."),
    data.tight ? h("p", { class: "yellow" }, data.tight) : "",
    figures(data.figures),
    h("section", {}, heading("Where the step goes", `${data.total}; hidden traffic costs nothing`), waterfall(data)),
    h("section", {}, heading("Memory by pipeline stage", `${data.fullest} is the fullest; the end of a track is the device's ${data.stages[0].limit}`),
      stages(data), stack(data.stages[0].parts.map((part) => ({ ...part, text: "" })), "key").lastChild),
    h("section", {}, heading("Ranks and their groups"), grid(data.grid, page)),
    ...(data.grid.kinds.length ? blocks([data.ranks], page) : []),
    ...blocks(data.blocks, page));
}
