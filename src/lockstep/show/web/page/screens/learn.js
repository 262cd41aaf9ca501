import { blocks, h, paper } from "../dom.js";

const item = (one, page) => h("li", {},
  h("a", { href: page.link("learn", { claim: one.id, run: "" }) }, h("b", {}, one.id), h("span", {}, one.title)),
  h("span", { class: `verdict ${one.style}` }, one.verdict, one.picture ? h("small", {}, "picture") : null));

function card(data, page) {
  const [first, ...rest] = blocks(data.blocks, page);
  return [
    h("p", {}, h("a", { href: page.link("learn", { claim: "", run: "" }) }, "All items")),
    first, data.picture ? paper(`/learn.svg${location.search}`, data.caption) : "", ...rest,
    data.run ? h("p", { class: "run" }, h("button", { type: "button", class: "big", onclick: () => page.go({ run: "yes" }) }, "Run what decides it"),
      h("span", { class: "dim" }, ` ${data.seconds} of computing`)) : "",
  ];
}

/** The list of items, or the card of one. */
export function draw(element, data, page) {
  if (!data.items) element.append(...card(data, page));
  else element.append(h("h1", {}, data.title), h("ul", { class: "items" }, data.items.map((one) => item(one, page))));
}
