import { timeline } from "/views/timeline.js";
import { blocks, figures, h, heading, place } from "../dom.js";

/** The predicted interval, with the predicted and the measured step in it. */
function scale(one) {
  const mark = (kind, share) => place(h("i", { class: kind }), { left: share });
  const band = place(h("i", { class: "band" }), { left: one.low_share, width: one.high_share - one.low_share });
  const entry = (kind, name, text) => h("li", {}, h("i", { class: kind }), h("span", {}, name), h("b", {}, text));
  return h("section", { class: "range" }, heading("Step time", `${one.level} of predictions like this one lie in the band`),
    h("div", { class: "track", role: "img", "aria-label": `predicted ${one.text}, ${one.low} to ${one.high}; measured ${one.measured}` },
      band, mark("dot", one.share), mark("dot measured", one.measured_share)),
    h("ul", { class: "key" }, entry("band", "predicted between", `${one.low} and ${one.high}`), entry("dot", "predicted", one.text),
      entry("dot measured", "measured", one.measured)));
}

/** From the predicted step to the measured one: each bar begins where the one above it ends. */
const gap = (one) => h("section", {}, heading("From predicted to measured", one.note),
  h("ol", { class: "waterfall gap" }, one.rows.map((row) => h("li", { class: row.kind },
    h("span", { class: "name" }, row.label),
    h("span", { class: "track" }, place(h("i", { class: row.kind }), { left: row.start, width: row.width })),
    h("span", { class: "number" }, row.text)))));

const recipe = (one) => h("section", {}, h("h2", {}, one.title), h("p", {}, one.text), one.code ? h("pre", { tabindex: "0" }, one.code) : null);

/** Nothing is chosen yet: what may be, how it is recorded, and the prediction that it will be held against. */
function invite(element, data) {
  const choose = h("button", { type: "button", class: "big", onclick: () => document.getElementById("files-file").click() }, "Choose files");
  element.append(
    h("p", { class: "over" }, data.title), h("h1", {}, "Hold a measured run against this prediction"),
    h("p", {}, "Drop files anywhere on this page, or type one number into the form. Several files may be of one run: all of its ranks, its log, a memory snapshot. Leave the model empty to see what traces show by themselves."),
    h("p", { class: "run" }, choose), h("p", { class: "dim" }, data.limits), figures(data.figures),
    h("div", { class: "recipes" }, data.recording.map(recipe)));
}

/** The verdict, both steps, the gap, causes and changes; then the lanes of both. */
export function draw(element, data, page) {
  if (data.recording) return invite(element, data);
  const rest = data.blocks.findIndex((one) => !["title", "text"].includes(one.kind));
  const top = rest < 0 ? data.blocks : data.blocks.slice(0, rest), lower = rest < 0 ? [] : data.blocks.slice(rest);
  const drawn = h("div");
  if (data.refused) {
    element.append(h("div", { class: "refused", role: "alert" }, h("h2", {}, "Not held against a prediction"), h("p", {}, data.refused),
      h("p", { class: "dim" }, "Below: what was measured, by itself.")));
    document.getElementById(`f-${data.where}`)?.setAttribute("aria-invalid", "true");
  }
  element.append(h("p", { class: "over" }, data.title), ...blocks(top, page), figures(data.figures),
    data.scale ? scale(data.scale) : "", data.gap ? gap(data.gap) : "", ...blocks(lower, page), drawn);
  if (!data.lanes) return undefined;
  const waiting = h("p", { class: "dim", role: "status" }, "Drawing a measured step ...");
  drawn.append(h("section", {}, heading("One measured step", data.gap ? "of each pipeline stage, under the predicted one" : ""), waiting));
  const view = h("div");
  page.later().then((found) => {
    waiting.replaceWith(view);
    return timeline(view, found.form, { state: page.words, mark: page.mark });
  }, () => drawn.remove());
  return undefined;
}
