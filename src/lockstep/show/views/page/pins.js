// Lanes of a timeline that stay in sight below its axis while the others scroll: copies of what is drawn of them.

import { make } from "./parts.js";

const BETWEEN = 2;

export class Pins {
  constructor(rows, changed) {
    Object.assign(this, { rows, changed, places: [], list: make("select") });
    this.list.setAttribute("aria-label", "Pin a lane");
    this.list.addEventListener("change", () => this.toggle(Number(this.list.value)));
    this.fill();
  }

  get height() {
    return this.places.reduce((sum, place) => sum + this.rows[place].height + BETWEEN, 0);
  }

  // Those of `places` that are lanes, from an address.
  set(places) {
    this.places = places.filter((place) => this.can(place));
    this.fill();
  }

  toggle(place) {
    if (!this.can(place)) return;
    this.places = this.places.includes(place) ? this.places.filter((one) => one !== place) : [...this.places, place];
    this.fill();
    this.changed();
  }

  can(place) {
    return ["compute", "moves", "memory"].includes(this.rows[place]?.kind);
  }

  // The lane at a height of the picture.
  at(y) {
    return this.rows.findIndex((row) => y >= row.y && y < row.y + row.height);
  }

  name(row) {
    return `${row.rank.name}, ${row.lane?.name ?? "memory"}`;
  }

  fill() {
    const option = (text, value, kept) => Object.assign(make("option", "", text), { value, disabled: kept });
    const lanes = this.rows.map((row, place) => [row, place]).filter(([, place]) => this.can(place));
    this.list.replaceChildren(option("Pin a lane", "", true),
      ...lanes.map(([row, place]) => option(`${this.places.includes(place) ? "Unpin " : ""}${this.name(row)}${row.timeline.source === "simulated" ? "" : `, ${row.timeline.source}`}`, place)));
    this.list.value = "";
  }

  // Below `top` of the axis; `box` is where the picture of a lane begins.
  draw(context, top, view, box, colour) {
    context.font = `11px ${colour.font}`;
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const place of this.places) {
      const row = this.rows[place], { canvas, ratio } = view;
      context.drawImage(canvas, 0, row.y * ratio, canvas.width, row.height * ratio, 0, top, view.width, row.height);
      context.fillStyle = colour.css("--ground");
      context.fillRect(0, top, box.left - 2, row.height);
      context.fillStyle = colour.css("--ink");
      context.fillText(this.name(row), 2, top + row.height / 2 + 1, box.left - 8);
      top += row.height + BETWEEN;
    }
    context.fillStyle = colour.css("--rule");
    if (this.places.length) context.fillRect(0, top - 1, view.width, 1);
  }
}
