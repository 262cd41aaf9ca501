import { blocks, figures, h, heading, place, range } from "../dom.js";

function histogram(days) {
  const bars = days.bars.map((one) => {
    const bar = h("i", { title: one.text });
    bar.style.height = `${100 * one.share}%`;
    return bar;
  });
  return h("figure", { class: "histogram", role: "img", "aria-label": `${days.runs}: ${days.low} to ${days.high}, ${days.mean}` },
    h("p", { class: "mean" }, place(h("b", { class: days.mean_share > 0.5 ? "left" : "" }, days.mean), { left: days.mean_share })),
    h("div", { class: "bins" }, bars, place(h("b", {}), { left: days.mean_share })),
    h("figcaption", { class: "ends" }, h("span", {}, days.low), h("span", { class: "far" }, days.high)));
}

/** The interval of the prediction with all simulated runs in it, on one axis. */
function spread(one, runs) {
  const drawn = range(one);
  if (runs) drawn.querySelector(".track").append(place(h("i", { class: "runs", title: `${runs.runs}: ${runs.low} to ${runs.high}` }), { left: one.runs_share, width: one.runs_width }));
  return drawn;
}

/** Days of single runs, failures, checkpoints, and what to change. */
export function draw(element, data, page) {
  const more = h("p", { class: "dim", role: "status" }, "Planning changes again ...");
  element.append(
    h("p", { class: "over" }, data.title), h("h1", {}, data.headline), figures(data.figures),
    h("section", {}, heading("How long the run takes", `${data.level} of cases lie in the band${data.days ? "; the mark in it is all simulated runs, which differ by their failures alone" : ""}`), spread(data.range, data.days)),
    data.days ? h("details", { class: "small" }, h("summary", {}, "Single runs, enlarged", h("small", {}, data.days.runs)), histogram(data.days))
      : h("p", { class: "dim" }, "No failures are counted: how often these devices fail is not known."),
    ...blocks(data.blocks, page), more);
  page.later().then((found) => more.replaceWith(...blocks(found.blocks, page)), () => more.remove());
}
