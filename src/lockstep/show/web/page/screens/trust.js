import { blocks, figures, h, heading, range } from "../dom.js";

/** The interval, what it rests on, published steps like it, assumptions, sources. */
export function draw(element, data, page) {
  const near = h("p", { class: "dim", role: "status" }, "Looking for published steps ...");
  const [assumed] = blocks([data.assumptions], page);
  assumed.open = true;
  element.append(
    h("p", { class: "over" }, data.title), h("h1", {}, data.headline),
    h("section", {}, heading("Step time", data.level), range(data.interval)),
    figures(data.figures), near, assumed,
    h("section", {}, heading("Where its numbers come from"), blocks(data.sources, page)));
  page.later().then((found) => near.replaceWith(...blocks(found.blocks, page)), () => near.remove());
}
