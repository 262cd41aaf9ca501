import { timeline } from "/views/timeline.js";
import { blocks, h, paper } from "../dom.js";

/** A slider over listed values, or a list of them. */
function knob(one, page) {
  const id = `knob-${one.name}`;
  if (!one.slides) {
    return h("p", { class: "slide" }, h("label", { for: id }, one.label), h("select", { id, onchange: (event) => page.soon({ [one.name]: event.target.value }) },
      one.values.map((value) => h("option", { value, selected: value === one.value }, value))));
  }
  const at = one.values.indexOf(one.value), said = h("output", { for: id }, one.texts[at]);
  const moved = (event) => {
    said.textContent = one.texts[event.target.value];
    event.target.setAttribute("aria-valuetext", said.textContent);
    page.soon({ [one.name]: one.values[event.target.value] });
  };
  const slider = h("input", { id, type: "range", min: 0, max: one.values.length - 1, value: at, "aria-valuetext": one.texts[at], oninput: moved });
  return h("p", { class: "slide" }, h("label", { for: id }, one.label), slider, said);
}

/** Only the answer is drawn again where the same thing is played, so that a knob stays in the hand. */
export function update(screen, data) {
  if (screen?.querySelector(".played")?.dataset.play !== data.play) return false;
  answer(screen.querySelector(".played"), data);
  return true;
}

function answer(into, data) {
  into.dataset.play = data.play;
  const [first, ...rest] = blocks(data.blocks, null);
  const drawn = data.picture ? paper(`/play.svg${location.search}`, data.title) : h("div");
  into.replaceChildren(first, drawn, ...rest);
  if (data.form) timeline(drawn, data.form);
}

export function draw(element, data, page) {
  const tabs = data.plays.map((one) => h("a", { href: `/play?play=${one.name}`, "aria-current": one.name === data.play ? "true" : undefined }, one.title));
  const played = h("div", { class: "played" });
  element.append(h("p", { class: "buttons plays" }, tabs), h("p", { class: "over" }, data.about),
    h("div", { class: "knobs" }, data.knobs.map((one) => knob(one, page))), played);
  answer(played, data);
}
