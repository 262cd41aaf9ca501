import { machine } from "/views/machine.js";
import { figures, h } from "../dom.js";

/** The step moving over the machine. */
export function draw(element, data, page) {
  const place = h("div", {}, h("p", { class: "dim", role: "status" }, "Drawing the machine ...")), at = () => new URLSearchParams({ ...page.words, moment: new URLSearchParams(location.search).get("moment") ?? data.moment });
  const saved = h("a", { download: true, href: "#", onclick: () => (saved.href = `/machine.svg?${at()}`) }, "Save this moment as a picture");
  element.append(h("p", { class: "over" }, data.title), h("h1", {}, data.headline), figures(data.figures), h("p", { class: "dim" }, data.note), place, h("p", {}, saved));
  machine(place, data.form, { state: page.words, mark: page.mark }).then((made) => (place.lockstep = made));
}
