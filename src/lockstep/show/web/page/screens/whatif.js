import { blocks, figures, h, heading, place } from "../dom.js";

/** A slider over the factors of one number; every step time was sent with the page. */
function slider(one, at, now, page) {
  const bar = h("i", {});
  const said = h("output", { for: `w-${at}` });
  const input = h("input", {
    type: "range", id: `w-${at}`, min: 0, max: one.rungs.length - 1, step: 1, value: page.words[at] ?? one.now, oninput: () => move(),
    onchange: () => page.mark({ [at]: Number(input.value) === one.now ? "" : input.value }),
  });
  function move() {
    const rung = one.rungs[Number(input.value)];
    place(bar, { width: rung.share });
    input.setAttribute("aria-valuetext", `${rung.factor}: ${rung.text}`);
    said.replaceChildren(h("b", {}, rung.text), ` ${rung.change}, `, h("span", { class: "dim" }, rung.factor));
  }
  move();
  const shares = one.rungs.map((rung) => rung.share), least = Math.min(...shares), reach = place(h("i", { class: "reach" }), { left: least, width: Math.max(...shares) - least });
  return h("li", {}, h("label", { for: `w-${at}` }, one.label), input,
    h("span", { class: "track" }, bar, reach, place(h("i", { class: "now" }), { left: now })), said);
}

function tornado(bars) {
  const titles = h("li", { class: "dim titles" }, h("span", {}), h("span", {}), h("span", { class: "number" }, "lower"), h("span", { class: "number" }, "higher"));
  return h("ol", { class: "tornado" }, titles, bars.map((one) => h("li", {},
    h("span", { class: "name" }, one.label),
    h("span", { class: "track" }, one.ends.map((end) => place(h("i", { class: end.kind }), { left: end.start, width: end.width }))),
    one.ends.map((end) => h("span", { class: `number ${end.kind}` }, end.text)))));
}

const other = (runs, page) => h("section", {}, heading("Throughput of this layout in another run", "one change at a time; more is better"),
  h("ol", { class: "sliders" }, runs.map((one, at) => slider(one, `r${at}`, one.now_share, page))));

/** Sliders and the tornado, and then what had to be asked again. */
export function draw(element, data, page) {
  const more = h("p", { class: "dim", role: "status" }, "Planning upgrades again ...");
  element.append(
    h("p", { class: "over" }, data.title), h("h1", {}, data.headline), figures(data.figures),
    h("section", {}, heading("Sensitivity", data.swing),
      h("ul", { class: "key" }, h("li", {}, h("i", { class: "less" }), h("span", {}, "20 % lower")),
        h("li", {}, h("i", { class: "more" }), h("span", {}, "20 % higher"))),
      tornado(data.tornado)),
    h("section", {}, heading("Step time of this layout on other hardware", "one number at a time; the frame is how far it goes"),
      h("ol", { class: "sliders" }, data.sliders.map((one, at) => slider(one, `h${at}`, data.now_share, page)))),
    more);
  page.later().then((found) => {
    const [verdict, ...tables] = found.blocks.filter((one) => one.kind === "title" || one.kind === "table");
    more.replaceWith(other(found.runs, page), h("p", { class: "green lead" }, verdict.text), ...blocks(tables, page));
  }, () => more.remove());
}
