// The parts that screens are made of. Text is always text: nothing here reads HTML.

const SVG = "http://www.w3.org/2000/svg";
const LEAST = 0.7; // of a picture's own width, below which its letters are too small: it is scrolled instead

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== ""));
  return element;
}

/** An element of HTML: h("p", {class: "quiet"}, "text", child). */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** An element of SVG. */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Sets places of an element as shares of its surroundings: place(element, {left: 0.2, width: 0.5}). */
export function place(element, shares) {
  for (const [name, share] of Object.entries(shares)) element.style[name] = `${100 * share}%`;
  return element;
}

export const heading = (title, note) => h("h2", {}, title, note ? h("small", {}, note) : null);

/** Numbers that are shown large. */
export const figures = (list) =>
  h("dl", { class: "figures" }, list.map((one) => h("div", {},
    h("dt", {}, one.label), h("dd", { class: "value" }, one.value), one.note ? h("dd", { class: "note" }, one.note) : null)));

const key = (part) => h("li", {}, h("i", { class: `k-${part.kind}` }), h("span", {}, part.label), part.text ? h("b", {}, part.text) : null);

/** Parts of a whole in one bar, with a key of their numbers. */
export function stack(parts, label) {
  const bar = h("div", { class: "stack", role: "img", "aria-label": label },
    parts.map((part) => place(h("i", { class: `k-${part.kind}`, title: `${part.label} ${part.text}` }), { width: part.share })));
  return h("div", {}, bar, h("ul", { class: "key" }, parts.map(key)));
}

/** Memory of one rank by kind; the end of the track is what the device has. */
export function memory(one) {
  const said = `${one.text} of ${one.limit}, ${one.percent}`;
  return h("div", { class: one.fits ? "memory" : "memory over" },
    h("p", { class: "ends" }, h("b", {}, one.text), h("span", {}, `of ${one.limit}`), h("span", { class: "far" }, one.percent)),
    stack(one.parts, `Memory: ${said}`), one.tight ? h("p", { class: "yellow" }, one.tight) : "");
}

/** A scale with an interval and the value in it, all as shares. */
export function range(one) {
  const band = place(h("i", { class: "band" }), { left: one.low_share, width: one.high_share - one.low_share });
  const dot = place(h("i", { class: "dot" }), { left: one.share });
  return h("div", { class: "range" },
    h("div", { class: "track", role: "img", "aria-label": `${one.low} to ${one.high}, predicted ${one.text}` }, band, dot),
    h("p", { class: "ends" }, place(h("span", {}, one.low), { left: one.low_share }), place(h("b", {}, one.text), { left: one.share }),
      place(h("span", {}, one.high), { left: one.high_share })));
}

/** A picture that the server draws, and words until it is there. */
export function paper(address, said) {
  const waiting = h("p", { class: "dim", role: "status" }, "Drawing the picture ..."), around = h("div", { class: "paper", tabindex: "0", role: "region", "aria-label": said }, waiting);
  const image = h("img", { src: address, alt: `Picture: ${said}`, onerror: () => around.remove(), onload: () => {
    image.style.minWidth = `${LEAST * image.naturalWidth}px`;
    waiting.replaceWith(image);
  } });
  return around;
}

function cell(one) {
  if (typeof one === "string") return one;
  if (one.share !== undefined) return h("span", { class: "bar" }, place(h("i", {}), { width: one.share }));
  return h("span", { class: one.style }, one.text);
}

/** A table; rows lead to an address where it has links. */
export function table(block, page) {
  const kind = (at) => [["right", "r"], ["line", "line"], ["wraps", "wraps"]].find(([name]) => block.columns[at][name])?.[1];
  const first = (row, link) => (link ? h("a", { href: page.link(link.screen, link.words) }, cell(row[0])) : cell(row[0]));
  const head = block.columns.some((one) => one.title)
    ? h("thead", {}, h("tr", {}, block.columns.map((one, at) => h("th", { scope: "col", class: kind(at) }, one.title)))) : null;
  const body = block.rows.map((row, line) => h("tr", {}, row.map((one, at) =>
    h("td", { class: kind(at), title: kind(at) === "line" ? (one.text ?? one) : undefined }, at ? cell(one) : first(row, block.links?.[line])))));
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": block.title || "table" },
    h("table", {}, head, h("tbody", {}, body)));
}

/** What a command prints, block by block; lists are folded. */
export function blocks(list, page) {
  return list.map((one) => {
    if (one.kind === "table") return h("section", {}, one.title ? heading(one.title, one.note) : null, table(one, page));
    if (one.kind === "list") {
      return h("details", { class: "small" }, h("summary", {}, one.title, h("small", {}, `${one.items.length}`)),
        h("ul", {}, one.items.map((item) => h("li", {}, item))));
    }
    if (one.kind === "heading") return h("div", { class: "titled" }, heading(one.title, one.note));
    if (one.kind === "title") return h("h1", {}, one.text);
    const kind = { class: one.style || undefined };
    return h("div", {}, one.text.split("\n").map((line) => h("p", kind, line)));
  });
}
