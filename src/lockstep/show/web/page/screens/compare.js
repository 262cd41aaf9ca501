import { blocks, h, heading, place, stack } from "../dom.js";

const side = (one) => h("section", {}, h("p", { class: "ends" }, h("b", {}, one.name), h("span", {}, one.title), h("b", { class: "far" }, one.text)),
  stack(one.parts, `${one.name}: ${one.text} per step`));

function differences(data) {
  const rows = data.rows.map((one) => h("li", {},
    h("span", { class: "name" }, one.label),
    h("span", { class: "track" }, place(h("i", { class: one.kind }), { left: one.start, width: one.width })),
    h("span", { class: "number" }, one.text)));
  rows.push(h("li", {}, h("span", { class: "name dim" }, "interval"),
    h("span", { class: "track" }, place(h("i", { class: "line" }), { left: data.low, width: data.high - data.low })), h("span", {})));
  return h("ol", { class: "tornado three" }, rows);
}

/** Two steps in one scale, and what makes the difference. */
export function draw(element, data, page) {
  element.append(
    h("h1", { class: data.inconclusive ? "yellow" : "" }, data.verdict), ...data.notes.map((one) => h("p", { class: "dim" }, one)),
    ...data.sides.map(side),
    h("section", {}, heading("The difference by part", data.differences.note), differences(data.differences)),
    ...blocks(data.blocks, page));
}
