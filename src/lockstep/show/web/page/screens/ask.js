import { blocks, figures, h, heading, memory, stack } from "../dom.js";

/** The best layout in figures, then its alternatives. */
export function draw(element, data, page) {
  element.append(
    h("p", { class: "over" }, data.title),
    h("h1", {}, data.headline),
    ...data.remarks.map((one) => h("p", { class: "dim" }, one)),
    figures(data.figures),
    h("div", { class: "pair" },
      h("section", {}, heading("Memory of the fullest device"), memory(data.memory)),
      h("section", {}, heading("Time of a step"), h("p", { class: "ends" }, h("b", {}, data.figures[0].value)), stack(data.parts, "Time of a step by part"))),
    h("p", {}, h("a", { href: page.link("layout", data.words) }, "Look inside this layout")),
    ...blocks(data.blocks, page));
}
