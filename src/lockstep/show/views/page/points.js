// The layouts of a search: columns that grow chunk by chunk, painted as pixels, found by place.

import { column } from "./columns.js";

// Where a text stands in a list, which it is added to.
function place(list, text) {
  const known = list.indexOf(text);
  return known >= 0 ? known : list.push(text) - 1;
}

export class Cloud {
  constructor(head) {
    this.fields = head.fields.map((field) => ({ ...field, texts: [], words: [], of: new Uint16Array(0) }));
    this.count = 0;
    for (const name of ["x", "y", "time_s", "memory_B"]) this[name] = new Float64Array(0);
    this.why = new Uint16Array(0);
    this.exceeds = head.why.length;
    this.refusals = [];
    this.bounds = { x0: Infinity, x1: -Infinity, y0: Infinity, y1: -Infinity };
  }

  async add(chunk) {
    const [time_s, memory_B, why] = await Promise.all([chunk.step_time_s, chunk.memory_B, chunk.why].map(column));
    const places = await Promise.all(chunk.columns.map(column));
    const refused = chunk.refusals.map((text) => place(this.refusals, text) + this.exceeds);
    const joined = (before, more) => {
      const all = new before.constructor(this.count + more.length);
      all.set(before);
      all.set(more, this.count);
      return all;
    };
    this.x = joined(this.x, memory_B.map(Math.log10));
    this.y = joined(this.y, time_s.map(Math.log10));
    [this.time_s, this.memory_B, this.why] = [joined(this.time_s, time_s), joined(this.memory_B, memory_B), joined(this.why, why.map((code) => refused[code - this.exceeds] ?? code))];
    this.fields.forEach((field, f) => {
      const here = chunk.texts[f].map((text, at) => {
        const known = field.texts.indexOf(text);
        return known >= 0 ? known : field.words.push(chunk.words[f][at]) && field.texts.push(text) - 1;
      });
      field.of = joined(field.of, Uint16Array.from(places[f], (place) => here[place]));
    });
    for (let i = this.count; i < this.x.length; i++) {
      this.bounds.x0 = Math.min(this.bounds.x0, this.x[i]);
      this.bounds.x1 = Math.max(this.bounds.x1, this.x[i]);
      this.bounds.y0 = Math.min(this.bounds.y0, this.y[i]);
      this.bounds.y1 = Math.max(this.bounds.y1, this.y[i]);
    }
    this.count = this.x.length;
  }

  // Without its points, which come again.
  clear() {
    for (const name of ["x", "y", "time_s", "memory_B", "why"]) this[name] = new this[name].constructor(0);
    for (const field of this.fields) field.of = new Uint16Array(0);
    this.count = 0;
  }

  // A layout as the library writes it.
  name(i) {
    return this.fields.map((field) => field.texts[field.of[i]]).filter(Boolean).join(" ");
  }

  // The same as keywords of the library.
  words(i) {
    return Object.assign({}, ...this.fields.map((field) => field.words[field.of[i]]));
  }

  // Squares of pixels: first what does not fit, then what does. `shows(i)` leaves points out.
  paint(context, window, width, height, ratio, look) {
    const image = context.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
    const across = width / (window.x1 - window.x0), up = height / (window.y1 - window.y0), size = Math.round(2 * ratio);
    const { x, y, why, count } = this, { of } = look.field;
    for (let fitting = 0; fitting < 2; fitting++) {
      const palette = fitting ? look.palette : look.pale;
      if (!fitting && look.fitting) continue;
      for (let i = 0; i < count; i++) {
        if ((why[i] === 0) !== (fitting === 1) || (look.only >= 0 && of[i] !== look.only)) continue;
        const left = Math.round((x[i] - window.x0) * across), top = Math.round((window.y1 - y[i]) * up);
        if (left < 0 || top < 0 || left + size > width || top + size > height) continue;
        const colour = palette[of[i]];
        for (let row = top * width + left, last = row + size * width; row < last; row += width) {
          for (let at = row; at < row + size; at++) pixels[at] = colour;
        }
      }
    }
    context.putImageData(image, 0, 0);
  }

  shows(i, look) {
    return (this.why[i] === 0 || !look.fitting) && (look.only < 0 || look.field.of[i] === look.only);
  }

  // The point nearest to a place, at most so far away along both axes; -1 without one.
  nearest(at, dx, dy, look) {
    let found = -1, least = 1;
    for (let i = 0; i < this.count; i++) {
      const right = (this.x[i] - at.x) / dx, up = (this.y[i] - at.y) / dy, far = right * right + up * up;
      if (far < least && this.shows(i, look)) [found, least] = [i, far];
    }
    return found;
  }

  within({ x0, x1, y0, y1 }, look) {
    const found = [];
    for (let i = 0; i < this.count; i++) {
      if (this.x[i] >= x0 && this.x[i] <= x1 && this.y[i] >= y0 && this.y[i] <= y1 && this.shows(i, look)) found.push(i);
    }
    return found.sort((one, two) => this.time_s[one] - this.time_s[two] || this.memory_B[one] - this.memory_B[two]);
  }
}
