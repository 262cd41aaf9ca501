// A window on a plane: dragged, zoomed, pinched and moved by keys, drawn from a bitmap of it and of what lies around.
//
// plane = { limits: {x0, x1, y0, y1}, both, box(), paint(context, window, width, height), overlay(context, box),
//           hover(x, y), brush(window, {top, bottom}), click(x, y), moved() }
// `paint` draws the window into width x height pixels; it is called when the bitmap does not hold what is shown, and not
// while a drag stays inside it. With `both` the window moves up and down too.

const MARGIN = 0.5, SETTLED_MS = 90, CLOSEST = 1e-7, STILL = 3;

export class Viewport {
  constructor(canvas, plane) {
    Object.assign(this, { canvas, plane, cache: null, pointers: new Map(), brushing: null, select: false });
    this.times = { paint_ms: 0, frame_ms: 0 };
    this.window = { ...plane.limits };
    canvas.tabIndex = 0;
    canvas.style.touchAction = plane.both ? "none" : "pan-y";
    for (const kind of ["pointerdown", "pointermove", "pointerup", "pointercancel", "pointerleave", "dblclick", "wheel", "keydown"])
      canvas.addEventListener(kind, (event) => this[kind](event), { passive: false });
  }

  resize(width, height) {
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    Object.assign(this, { width, height, ratio, cache: null });
    this.ask();
  }

  ask() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => this.frame());
  }

  stale() {
    this.cache = null;
    this.ask();
  }

  frame() {
    this.asked = 0;
    if (!this.width) return;
    const began = performance.now(), box = this.plane.box(), context = this.canvas.getContext("2d");
    if (!this.holds()) this.repaint(box);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const { window: held, bitmap } = this.cache, now = this.window;
    const across = box.width / (now.x1 - now.x0), up = box.height / (now.y1 - now.y0);
    context.save();
    context.beginPath();
    context.rect(box.left, box.top, box.width, box.height);
    context.clip();
    context.imageSmoothingEnabled = false;
    context.drawImage(bitmap, box.left + (held.x0 - now.x0) * across, box.top + (now.y1 - held.y1) * up,
      (held.x1 - held.x0) * across, (held.y1 - held.y0) * up);
    context.restore();
    this.plane.overlay(context, box);
    if (this.brushing) this.outline(context);
    this.times.frame_ms = performance.now() - began;
  }

  // Whether the bitmap shows the window; while it is being zoomed, a scaled one will do.
  holds() {
    if (!this.cache) return false;
    const { window: held, scale } = this.cache, now = this.window;
    const inside = held.x0 <= now.x0 && held.x1 >= now.x1 && held.y0 <= now.y0 && held.y1 >= now.y1;
    const same = Math.abs(scale * (now.x1 - now.x0) - 1) < 1e-9;
    return inside && (same || performance.now() - this.zoomed < SETTLED_MS);
  }

  repaint(box) {
    const began = performance.now(), { x0, x1, y0, y1 } = this.window, up = this.plane.both ? MARGIN : 0;
    const dx = (x1 - x0) * MARGIN, dy = (y1 - y0) * up;
    const around = { x0: x0 - dx, x1: x1 + dx, y0: y0 - dy, y1: y1 + dy };
    const bitmap = this.spare || (this.spare = document.createElement("canvas"));
    const width = Math.max(1, Math.round(box.width * (1 + 2 * MARGIN) * this.ratio));
    const height = Math.max(1, Math.round(box.height * (1 + 2 * up) * this.ratio));
    if (bitmap.width !== width || bitmap.height !== height) Object.assign(bitmap, { width, height });
    const context = bitmap.getContext("2d");
    context.clearRect(0, 0, width, height);
    this.plane.paint(context, around, width, height, this.ratio);
    this.cache = { bitmap, window: around, scale: 1 / (x1 - x0) };
    this.times.paint_ms = performance.now() - began;
  }

  show(to) {
    const { limits, both } = this.plane, now = this.window, wide = limits.x1 - limits.x0, tall = limits.y1 - limits.y0;
    const fit = (low, high, least, most, whole) => {
      const span = Math.min(whole, Math.max(high - low, whole * CLOSEST)), start = Math.min(Math.max(low, least), most - span);
      return [start, start + span];
    };
    const [x0, x1] = fit(to.x0, to.x1, limits.x0, limits.x1, wide);
    const [y0, y1] = both ? fit(to.y0 ?? now.y0, to.y1 ?? now.y1, limits.y0, limits.y1, tall) : [limits.y0, limits.y1];
    this.window = { x0, x1, y0, y1 };
    this.plane.moved?.();
    this.ask();
  }

  fit() {
    this.show(this.plane.home || this.plane.limits);
  }

  pan(dx, dy) {
    this.touched = true;
    const box = this.plane.box(), { x0, x1, y0, y1 } = this.window;
    const right = -dx * (x1 - x0) / box.width, up = dy * (y1 - y0) / box.height;
    this.show({ x0: x0 + right, x1: x1 + right, y0: y0 + up, y1: y1 + up });
  }

  zoom(factor, x, y) {
    const box = this.plane.box(), { x0, x1, y0, y1 } = this.window;
    const at = (x ?? box.left + box.width / 2) - box.left, from = (y ?? box.top + box.height / 2) - box.top;
    const px = x0 + (at / box.width) * (x1 - x0), py = y1 - (from / box.height) * (y1 - y0);
    this.zoomed = performance.now();
    this.touched = true;
    clearTimeout(this.settle);
    this.settle = setTimeout(() => this.ask(), SETTLED_MS + 10);
    this.show({ x0: px - (px - x0) / factor, x1: px + (x1 - px) / factor, y0: py - (py - y0) / factor, y1: py + (y1 - py) / factor });
  }

  // The point of the plane at a pixel of the canvas.
  point(x, y) {
    const box = this.plane.box(), { x0, x1, y0, y1 } = this.window;
    return { x: x0 + ((x - box.left) / box.width) * (x1 - x0), y: y1 - ((y - box.top) / box.height) * (y1 - y0) };
  }

  pixel(x, y) {
    const box = this.plane.box(), { x0, x1, y0, y1 } = this.window;
    return [box.left + ((x - x0) / (x1 - x0)) * box.width, box.top + ((y1 - y) / (y1 - y0)) * box.height];
  }

  place(event) {
    const edge = this.canvas.getBoundingClientRect();
    return { x: event.clientX - edge.left, y: event.clientY - edge.top };
  }

  pointerdown(event) {
    const at = this.place(event);
    this.pointers.set(event.pointerId, at);
    this.pressed = this.pointers.size === 1 ? at : null;
    this.canvas.setPointerCapture(event.pointerId);
    if (this.plane.brush && (event.shiftKey || this.select) && this.pointers.size === 1) this.brushing = { from: at, to: at };
    if (this.pointers.size > 1) this.brushing = null;
  }

  pointermove(event) {
    const at = this.place(event), before = this.pointers.get(event.pointerId);
    if (!before) return this.plane.hover(at.x, at.y);
    if (this.pressed && Math.hypot(at.x - this.pressed.x, at.y - this.pressed.y) > STILL) this.pressed = null;
    if (this.brushing) {
      this.brushing.to = at;
      this.ask();
    } else if (this.pointers.size === 1) this.pan(at.x - before.x, at.y - before.y);
    else {
      const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      const apart = (one) => Math.max(12, Math.hypot(one.x - other.x, one.y - other.y));
      this.zoom(apart(at) / apart(before), (at.x + other.x) / 2, (at.y + other.y) / 2);
    }
    this.pointers.set(event.pointerId, at);
  }

  pointerup(event) {
    if (this.brushing) {
      const { from, to } = this.brushing, [one, two] = [this.point(from.x, from.y), this.point(to.x, to.y)];
      this.brushing = null;
      this.plane.brush({ x0: Math.min(one.x, two.x), x1: Math.max(one.x, two.x), y0: Math.min(one.y, two.y), y1: Math.max(one.y, two.y) },
        { top: Math.min(from.y, to.y), bottom: Math.max(from.y, to.y) });
      this.ask();
    } else if (this.pressed && this.plane.click) this.plane.click(this.pressed.x, this.pressed.y);
    this.pointers.delete(event.pointerId);
  }

  pointercancel(event) {
    this.brushing = null;
    this.pointers.delete(event.pointerId);
  }

  pointerleave() {
    this.plane.hover(null, null);
  }

  dblclick(event) {
    const at = this.place(event);
    this.zoom(2, at.x, at.y);
  }

  // A page scrolls under the wheel; with Ctrl it zooms, sideways or with Shift it pans.
  wheel(event) {
    const at = this.place(event), aside = event.shiftKey ? event.deltaY : event.deltaX;
    if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY / 250), at.x, at.y);
    else if (Math.abs(aside) > (event.shiftKey ? 0 : Math.abs(event.deltaY))) this.pan(-aside, 0);
    else return;
    event.preventDefault();
  }

  keydown(event) {
    const step = this.plane.box().width / 10;
    const moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    const zooms = { "+": 1.5, "=": 1.5, "-": 1 / 1.5 };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.plane.key && this.plane.key(event.key)) event.preventDefault();
    else if (moves[event.key] && (this.plane.both || moves[event.key][0])) this.pan(...moves[event.key]);
    else if (zooms[event.key]) this.zoom(zooms[event.key]);
    else if (event.key === "0" || event.key === "Home") this.fit();
    else return;
    event.preventDefault();
  }

  outline(context) {
    const { from, to } = this.brushing;
    context.strokeStyle = context.fillStyle = "#0072b2";
    context.strokeRect(from.x, from.y, to.x - from.x, to.y - from.y);
    context.globalAlpha = 0.12;
    context.fillRect(from.x, from.y, to.x - from.x, to.y - from.y);
    context.globalAlpha = 1;
  }
}
