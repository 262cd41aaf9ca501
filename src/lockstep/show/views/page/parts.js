// What both views are made of: elements, buttons, a hint at the pointer, and the colours of the page.

export function make(name, kind = "", ...children) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  made.append(...children);
  return made;
}

export function button(text, title, press) {
  const made = make("button", "", text);
  Object.assign(made, { type: "button", title });
  // What is spoken begins with what is written, where that is a word.
  made.setAttribute("aria-label", /\p{L}/u.test(text) ? `${text}: ${title}` : title);
  made.addEventListener("click", press);
  return made;
}

// A button that stays pressed; `change` says whether it is now.
export function toggle(text, title, change) {
  const made = button(text, title, () => made.setAttribute("aria-pressed", String(change())));
  made.setAttribute("aria-pressed", "false");
  return made;
}

// A place for tables that may be wider than the page.
export function tablePlace(said) {
  const place = make("div", "ls-table wide");
  for (const [name, value] of [["role", "region"], ["aria-label", said], ["tabindex", "0"]]) place.setAttribute(name, value);
  return place;
}

// A box of lines near the pointer, inside the element.
export function hint(parent) {
  const box = make("div", "ls-hint");
  box.hidden = true;
  return {
    box,
    hide: () => (box.hidden = true),
    show(canvas, x, y, lines) {
      box.replaceChildren(...lines.map((line) => make("div", "", line)));
      box.hidden = false;
      const inner = canvas.getBoundingClientRect(), outer = parent.getBoundingClientRect();
      const left = inner.left - outer.left + x, top = inner.top - outer.top + y;
      box.style.left = `${Math.max(0, Math.min(left + 14, outer.width - box.offsetWidth))}px`;
      box.style.top = `${top + 18}px`;
    },
  };
}

// Of the letters on a pixel's colour: dark on a bright one (luminance by the weights of ITU-R BT.709).
export const inkOn = (pixel) =>
  (0.2126 * (pixel & 255) + 0.7152 * ((pixel >> 8) & 255) + 0.0722 * ((pixel >> 16) & 255) < 140 ? "#ffffff" : "#00131f");

const watched = new Map();
for (const media of ["(prefers-color-scheme: dark)", "print"]) {
  matchMedia(media).addEventListener("change", () => watched.forEach((refresh, view) => view.isConnected && refresh()));
}

// Draws a view anew when the page turns dark or light, or goes to paper, which is light, as long as it is on the page.
export function onScheme(view, refresh) {
  for (const one of watched.keys()) if (!one.isConnected) watched.delete(one);
  watched.set(view, refresh);
}

// The variables of the style sheet, as CSS and as pixels of an image.
export function colours(of) {
  const style = getComputedStyle(of), known = new Map();
  const css = (name) => style.getPropertyValue(name).trim();
  const pixel = (name) => {
    if (!known.has(name)) {
      const [red, green, blue] = css(name).match(/[0-9a-f]{2}/gi).map((digits) => parseInt(digits, 16));
      known.set(name, (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0);
    }
    return known.get(name);
  };
  return { css, pixel, font: style.fontFamily };
}
