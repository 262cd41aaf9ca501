// Numbers as the command line writes them; the steps of units come with the data (shown.py).

export function formatter(units) {
  const write = (kind) => (number, digits = 3) => {
    if (!Number.isFinite(number)) return "unknown";
    if (number === 0) return units[kind].zero;
    const steps = units[kind].steps;
    const [, factor, name] = steps.find(([above]) => Math.abs(number) >= above * units.from) || steps[steps.length - 1];
    return `${significant(number / factor, digits)} ${name}`;
  };
  return { time: write("time"), size: write("size") };
}

function significant(number, digits) {
  const places = Math.min(12, Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(number)))));
  const text = fixed(number, places);
  return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
}

// Halves go to the even digit, as in Python; toFixed takes them up.
function fixed(number, places) {
  const halves = number * 2 ** (places + 1);
  const below = Math.floor(number * 10 ** places);
  const tie = Number.isInteger(halves) && (below + 0.5) / 10 ** places === number;
  return (tie && below % 2 === 0 ? below / 10 ** places : number).toFixed(places);
}

// Round numbers between two ends, about as many as asked, in units of the larger end.
export function ticks(low, high, count, steps, from) {
  const largest = Math.max(Math.abs(low), Math.abs(high));
  const [, factor, name] = steps.find(([above]) => largest >= above * from) || steps[steps.length - 1];
  const rough = (high - low) / factor / count, ten = 10 ** Math.floor(Math.log10(rough));
  const every = ten * ([1, 2, 5].find((times) => times * ten >= rough) || 10);
  const places = Math.min(12, Math.max(0, -Math.floor(Math.log10(every))));
  const found = [];
  for (let i = Math.ceil(low / factor / every); i * every * factor <= high && found.length < 40; i++) {
    found.push({ at: i * every * factor, text: `${(i * every).toFixed(places)} ${name}` });
  }
  return found.length < 2 && count < 64 ? ticks(low, high, 2 * count, steps, from) : found;
}
