import { blocks, h, paper, place } from "../dom.js";

const AGAIN_MS = 2000;

function fill(element, data, page) {
  const { text, share, at } = data.progress, picture = new URLSearchParams({ sweep: data.name, at });
  const bar = h("div", { class: "stack", role: "img", "aria-label": text }, place(h("i", { class: "k-compute" }), { width: share }));
  element.replaceChildren(
    h("p", { class: "over" }, data.folder), h("h1", {}, data.name),
    h("p", { class: "ends", "aria-live": "polite" }, h("b", {}, text)), bar,
    data.picture ? paper(`/sweeps.svg?${picture}`, data.name) : "",
    ...blocks(data.blocks, page), ...blocks([data.sweeps], page));
}

/** The sweeps of a folder and the answer of one, read again while they grow. */
export function draw(element, data, page) {
  let shown = JSON.stringify(data);
  fill(element, data, page);
  const timer = setInterval(async () => {
    if (document.hidden) return;
    const found = await page.again().catch(() => ({})), text = JSON.stringify(found.data);
    if (!found.data || text === shown) return;
    shown = text;
    fill(element, found.data, page);
  }, AGAIN_MS);
  return () => clearInterval(timer);
}
