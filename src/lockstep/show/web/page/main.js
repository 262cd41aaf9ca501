// The page: the address is the state. A change of the form changes the address, and the address is asked and drawn.

import { h } from "./dom.js";
import { form } from "./form.js";

const WAIT_MS = 150; // after the last key
const answer = document.getElementById("answer");
const same = document.getElementById("same");
const drawn = { screen: "", fields: "" };
let asking = new AbortController();
let leave = null;
let known = { of: null, screens: null }; // the screens and their controls, which are others for a capture

const here = () => ({
  screen: location.pathname.slice(1),
  words: Object.fromEntries([...new URLSearchParams(location.search)].filter(([, value]) => value !== "")),
});

const link = (screen, words) => {
  const said = new URLSearchParams(Object.entries({ ...here().words, ...words }).filter(([, value]) => value));
  return `/${screen}${said.size ? `?${said}` : ""}`;
};

/** Changes words of the address and asks it. */
function go(words, { screen = here().screen, keep = false } = {}) {
  history[keep ? "replaceState" : "pushState"](null, "", link(screen, words));
  show();
}

function copied(text) {
  const button = h("button", { type: "button", onclick: async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  } }, "Copy");
  return button;
}

function foot(found) {
  const { screen } = here();
  const file = (ending, text) => h("a", { href: `/${screen}.${ending}${location.search}`, download: ending === "json" ? undefined : true }, text);
  const block = (title, text, parts) => h("div", {}, h("h2", {}, title, copied(text)), h("pre", { tabindex: "0" }, parts));
  const flags = found.shell.split(/ (?=-)/).flatMap((one) => [h("span", {}, one), " "]); // a flag stays with its value
  same.replaceChildren(
    block("The same in the shell", found.shell, flags), block("The same in Python", found.python, found.python),
    h("p", {}, file("html", "Save as one file"), file("json", "JSON"), file("csv", "CSV")));
}

function refused(found) {
  const text = found.no ?? (found.where ? `${found.where.replaceAll("_", " ")}: ${found.error}` : found.error);
  answer.replaceChildren(h("div", { class: "refused", role: "alert" },
    h("h1", {}, found.no ? "Not possible" : "That cannot be asked"), h("p", {}, text.replace(/^at\./, "")), found.levers ? h("pre", { tabindex: "0" }, found.levers) : null));
  const field = document.getElementById("form").elements[found.where];
  if (field) field.setAttribute("aria-invalid", "true");
}

/** Asks what the address says, and draws it unless another address was asked meanwhile. */
async function show() {
  asking.abort();
  const mine = (asking = new AbortController());
  const { screen, words } = here();
  answer.setAttribute("aria-busy", "true");
  const of = words.model?.endsWith(".capture") ? words.model : "";
  if (known.of !== of) known = { of, screens: fetch(of ? `/screens?${new URLSearchParams({ model: of })}` : "/screens").then((one) => one.json()) };
  const code = import(`/static/screens/${screen}.js`);
  try {
    const asked = fetch(`/data/${screen}${location.search}`, { signal: mine.signal });
    const one = (await known.screens).screens.find((each) => each.name === screen);
    tabs(screen);
    if (drawn.screen !== screen) {
      form(one.fields, words, page);
      drawn.screen = screen;
      document.title = `${one.title} · Lockstep`;
    }
    const reply = await asked;
    const found = await reply.json();
    const { draw, update } = await code;
    if (mine.signal.aborted) return;
    form(one.fields, words, page);
    if (reply.ok && update?.(answer.querySelector(`.screen.${screen}`), found.data)) return foot(found);
    leave?.();
    leave = null;
    if (!reply.ok) return refused(found);
    const into = h("div", { class: `screen ${screen}` });
    answer.replaceChildren(into);
    const later = async () => {
      const more = await fetch(`/later/${screen}${location.search}`, { signal: mine.signal });
      return more.ok ? (await more.json()).data : new Promise(() => {}); // a refusal has been shown by the first answer
    };
    const stream = (take) => lines(`/stream/${screen}${location.search}`, mine.signal, take);
    const again = async () => (await fetch(`/data/${screen}${location.search}`, { signal: mine.signal })).json();
    leave = draw(into, found.data, { ...page, words, later, stream, again }) ?? null;
    foot(found);
    document.getElementById("said").textContent = into.querySelector("h1")?.textContent ?? ""; // for who does not see it change
  } catch (error) {
    if (error.name === "AbortError") return;
    known = { of: null, screens: null };
    answer.replaceChildren(h("div", { class: "refused", role: "alert" }, h("h1", {}, "No answer"),
      h("p", {}, "The server has ended or was started again. Start lockstep ui, and open the address that it prints.")));
  } finally {
    if (!mine.signal.aborted) answer.removeAttribute("aria-busy");
  }
}

/** Takes every line of JSON of an address when it is there. */
async function lines(address, signal, take) {
  const reader = (await fetch(address, { signal })).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const whole = (rest + part.value).split("\n");
    rest = whole.pop();
    for (const line of whole) if (!signal.aborted) await take(JSON.parse(line));
  }
}

function tabs(screen) {
  for (const tab of document.querySelectorAll("nav a")) {
    tab.href = link(tab.dataset.screen, {});
    if (tab.dataset.screen === screen) {
      tab.setAttribute("aria-current", "page");
      tab.parentElement.scrollLeft = tab.offsetLeft - tab.parentElement.offsetLeft - 40; // on a phone, a tab's end before it
    } else tab.removeAttribute("aria-current");
  }
}

let waiting = 0, wanted = {}; // of several fields, all that changed meanwhile
const page = {
  link,
  go,
  /** Keeps in the address what changes only how an answer is looked at. */
  mark: (words) => {
    history.replaceState(null, "", link(here().screen, words));
    tabs(here().screen);
  },
  /** The same a moment after the last change. */
  soon: (words) => {
    clearTimeout(waiting);
    wanted = { ...wanted, ...words };
    waiting = setTimeout(() => {
      const said = wanted;
      wanted = {};
      go(said, { keep: true });
    }, WAIT_MS);
  },
};

document.addEventListener("click", (event) => {
  const anchor = event.target.closest("a[href^='/']");
  if (!anchor || anchor.hasAttribute("download") || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  if (new URL(anchor.href).pathname.includes(".")) return;
  event.preventDefault();
  history.pushState(null, "", anchor.href);
  window.scrollTo(0, 0);
  show();
});
addEventListener("popstate", show);
document.getElementById("question").open = innerWidth > 860;
show();
