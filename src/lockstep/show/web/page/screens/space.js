import { space } from "/views/space.js";
import { h } from "../dom.js";

/** Every layout, as the search gives them. */
export function draw(element, data, page) {
  const place = h("div"), waiting = h("p", { class: "dim", role: "status" }, "Searching ...");
  element.append(h("p", { class: "over" }, data.title), h("h1", {}, "Every layout"), h("p", { class: "dim" }, data.size), place, waiting);
  const link = (words) => page.link("layout", Object.fromEntries(Object.entries(words).map(([name, value]) => [name, String(value)])));
  space(place, data.form, { link, colour: page.words.colour, coloured: (colour) => page.mark({ colour }) }).then((view) => page.stream((message) => view.add(message))).then(() => waiting.remove(),
    (error) => error.name === "AbortError" || waiting.replaceWith(h("p", { class: "red" }, error.message)));
}
