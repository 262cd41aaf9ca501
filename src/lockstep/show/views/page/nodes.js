// Where nodes lie in a picture of a machine, and the paths of their devices and links, which are filled and lit by stage.

const LEFT = 14, APART = 10, TITLE = 17, FRAME = 15, BUS = 32, LARGEST = 44, SMALLEST = 4, WRITTEN = 34;
export const BAR = 5;
export const DASHES = { tp: [], cp: [8, 3], ep: [2, 2], pp: [5, 2], dp: [10, 3, 2, 3], host: [1, 3] };
export const KINDS = Object.keys(DASHES);
export const GLYPHS = { forward: "▶", backward: "◀", other: "■", sending: "◆", waiting: "□" };

/** Devices of a node beside one another. */
export function acrossOf(unit) {
  const root = Math.sqrt(unit);
  for (let d = Math.ceil(root); d <= 2 * root; d++) if (unit % d === 0) return d;
  return Math.ceil(root);
}

/** Where nodes lie in a picture of so many pixels: the largest devices for which it is not too tall. */
export function lay(nodes, width, most) {
  const unit = nodes[0].stages.length, across = acrossOf(unit), down = Math.ceil(unit / across), framed = nodes.some((one) => one.frame) ? FRAME : 0;
  for (let cell = LARGEST; ; cell--) {
    const step = cell + Math.max(1, Math.round(cell / 9)), wide = across * step + 9, tall = TITLE + down * step + BAR + 8;
    const fit = Math.max(1, Math.floor((width - LEFT) / (wide + APART))), rows = Math.ceil(nodes.length / fit), each = framed + tall + BUS;
    if ((rows * each > most || wide + APART + LEFT > width) && cell > SMALLEST) continue;
    const columns = Math.ceil(nodes.length / rows);
    const boxes = nodes.map((node, at) => ({ node, x: LEFT + (at % columns) * (wide + APART), y: framed + Math.floor(at / columns) * each, row: Math.floor(at / columns) }));
    return { boxes, cell, step, across, wide, tall, framed, height: rows * each + 14, written: cell >= WRITTEN };
  }
}

/** For every stage the paths of its devices, of the signs in them, and of the links that its nodes have at every level. */
export function paths(place, stages, levels) {
  const of = Array.from({ length: stages }, () => ({ cells: new Path2D(), signs: Object.fromEntries(Object.keys(GLYPHS).map((one) => [one, new Path2D()])), places: [], links: levels.map(() => KINDS.map(() => new Path2D())), notes: [] }));
  const { cell, step } = place;
  for (const { node, x, y } of place.boxes) {
    node.stages.forEach((stage, at) => {
      if (!of[stage]) return;
      const left = x + 5 + (at % place.across) * step, top = y + TITLE + Math.floor(at / place.across) * step, path = of[stage];
      path.cells.roundRect(left, top, cell, cell, Math.min(4, cell / 5));
      path.places.push([left + cell / 2, top + 0.75 * cell]);
      for (const [state, mark] of Object.entries(path.signs)) sign(mark, state, left + cell / 2, top + cell * (place.written && state !== "sending" ? 0.33 : 0.5), cell * (state === "sending" ? 0.38 : 0.2));
    });
    for (const { stage, from, long, out, foot } of parts(place, node, x, y).filter((one) => one.stage < stages)) {
      levels.forEach((_, level) => KINDS.forEach((kind, k) => {
        const path = of[stage].links[level][k], shift = (k - KINDS.length / 2) * 2, low = foot + 20 + shift;
        if (level === 0) polyline(path, [[from, foot - BAR - 2 + shift / 4], [from + long - 1, foot - BAR - 2 + shift / 4]]);
        else if (level < levels.length - 1) polyline(path, [[out + shift, foot], [out + shift, foot + 5]]);
        else polyline(path, [[4 + shift / 2, low], [out + shift, low], [out + shift, foot]]);
      }));
      of[stage].notes.push([from, foot + 12, long]);
    }
  }
  return of;
}

// The parts of a node's links, one for each stage that it holds: its share of the node's own, and where one leaves it.
export function parts({ wide, tall }, node, x, y) {
  const here = [...new Set(node.stages)].filter((stage) => stage >= 0), long = (wide - 8) / here.length;
  return here.map((stage, at) => ({ stage, long, from: x + 4 + at * long, out: x + 4 + (at + 1) * long - Math.min(9, long / 2), foot: y + tall }));
}

export function polyline(path, points) {
  points.forEach(([x, y], at) => (at ? path.lineTo(x, y) : path.moveTo(x, y)));
}

function sign(path, state, x, y, r) {
  if (state === "forward") polyline(path, [[x - r * 0.8, y - r], [x + r, y], [x - r * 0.8, y + r]]);
  else if (state === "backward") polyline(path, [[x + r * 0.8, y - r], [x - r, y], [x + r * 0.8, y + r]]);
  else if (state === "sending") polyline(path, [[x, y - r], [x + r, y], [x, y + r], [x - r, y]]);
  else if (state === "other") path.rect(x - r * 0.8, y - r * 0.8, r * 1.6, r * 1.6);
  path.closePath();
}
