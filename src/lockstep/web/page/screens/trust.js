import { blocks, figures, h, heading, range } from "../dom.js";

/** The interval, what it rests on, published steps like it, assumptions, sources. */
export function draw(element, data, page) {
  const near = h("p", { class: "dim", role: "status" }, "Looking for published steps ...");
  element.append(
    h("p", { class: "over" }, data.title), h("h1", {}, data.layout),
    h("section", {}, heading("Step time", data.level), range(data.interval)),
    figures(data.figures), near,
    h("section", {}, heading("What it takes for granted"), blocks(data.assumptions, page).map((one) => {
      one.open = true;
      return one;
    })),
    h("section", {}, blocks(data.blocks, page)));
  page.later().then((found) => near.replaceWith(...blocks(found.blocks, page)), () => near.remove());
}
