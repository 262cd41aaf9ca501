// What lies in an area of a timeline: seconds by class of work and by lane, and what of them is exposed, as tables.

import { lower } from "./lanes.js";
import { make } from "./parts.js";

// Of the lanes between two heights, from x0 to x1 seconds; a span counts as far as it lies inside.
export function sums(rows, { x0, x1, top, bottom }) {
  const classes = new Map(), lanes = [];
  for (const row of rows) {
    if (!row.lane || row.y + row.height <= top || row.y >= bottom) continue;
    const { spans, exposed, families, first, firstExposed } = row.timeline, [from, to] = [first[row.at], first[row.at + 1]];
    const lane = { row, busy_s: 0, exposed_s: 0, count: 0 };
    const of = (i) => {
      const { name, computes } = families[spans.family[i]], key = `${row.timeline.source} ${computes} ${name}`;
      if (!classes.has(key)) classes.set(key, { name, computes, source: row.timeline.source, busy_s: 0, exposed_s: 0, count: 0 });
      return classes.get(key);
    };
    const inside = (part, i) => Math.min(x1, part.start_s[i] + part.duration_s[i]) - Math.max(x0, part.start_s[i]);
    for (let i = from; i < to && spans.start_s[i] < x1; i++) {
      const length_s = inside(spans, i);
      if (length_s > 0) for (const one of [lane, of(i)]) Object.assign(one, { busy_s: one.busy_s + length_s, count: one.count + 1 });
    }
    for (let i = firstExposed[row.at]; i < firstExposed[row.at + 1] && exposed.start_s[i] < x1; i++) {
      const length_s = inside(exposed, i), next = lower(spans.start_s, exposed.start_s[i], from, to);
      const owner = next < to && spans.start_s[next] === exposed.start_s[i] ? next : next - 1;
      if (length_s > 0) for (const one of [lane, of(owner)]) one.exposed_s += length_s;
    }
    lanes.push(lane);
  }
  const found = [...classes.values()].sort((one, two) => two.busy_s - one.busy_s);
  const sum = (computes) => found.filter((one) => one.computes === computes).reduce((s, one) => s + one.busy_s, 0);
  return { classes: found, lanes, computing_s: sum(true), traffic_s: sum(false), exposed_s: lanes.reduce((s, one) => s + one.exposed_s, 0) };
}

// The sums in words, and as two tables.
export function sumTables(found, area, several, write) {
  const time = (seconds) => (seconds ? write.time(seconds) : "-"), count = found.lanes.length;
  const told = `${write.time(area.x1 - area.x0)} from ${write.time(area.x0)} on, ${count} lane${count === 1 ? "" : "s"}: ` +
    `${write.time(found.computing_s)} of computing and ${write.time(found.traffic_s)} of traffic, ${write.time(found.exposed_s)} of it exposed`;
  const head = (title) => make("thead", "", make("tr", "", ...[title, "time", "exposed", "spans"].map((text, at) => make("th", at ? "r" : "", text))));
  const line = (name, one, moves) => make("tr", "", make("td", "", name), make("td", "r", time(one.busy_s)),
    make("td", "r", moves || one.exposed_s ? time(one.exposed_s) : ""), make("td", "r", one.count.toLocaleString("en")));
  const before = (source) => (several ? `${source}: ` : "");
  const classes = found.classes.map((one) => line(before(one.source) + one.name, one, !one.computes));
  const lanes = found.lanes.map((one) => line(`${before(one.row.timeline.source)}${one.row.rank.name}, ${one.row.lane.name}`, one, one.row.lane.moves));
  const table = (title, rows) => make("table", "", head(title), make("tbody", "", ...rows));
  return { told, tables: count ? [table("class", classes), table("lane", lanes)] : [] };
}
