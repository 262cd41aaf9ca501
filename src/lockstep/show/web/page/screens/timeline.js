import { timeline } from "/views/timeline.js";
import { figures, h } from "../dom.js";

/** One step in lanes; a measured one below it. */
export function draw(element, data, page) {
  const place = h("div");
  element.append(h("p", { class: "over" }, data.title), h("h1", {}, data.headline), figures(data.figures), data.note ? h("p", { class: "yellow" }, data.note) : "", place);
  if (!data.form) return;
  element.append(h("p", {}, h("a", { href: `/timeline.trace${location.search}`, download: true }, "Download for Perfetto"),
    h("span", { class: "dim" }, `, ${data.operations}`)));
  place.append(h("p", { class: "dim", role: "status" }, "Drawing the step ..."));
  timeline(place, data.form, { state: page.words, mark: page.mark }).then((made) => (place.lockstep = made));
}
