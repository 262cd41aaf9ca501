// The page: the address is the state. A change of the form changes the address, and the address is asked and drawn.

import { h } from "./dom.js";
import { form, unmark } from "./form.js";

const WAIT_MS = 150; // after the last key
const answer = document.getElementById("answer");
const same = document.getElementById("same");
const root = document.getElementById("form");
const QUESTION = "question"; // where the last one is kept, for screens that have none
const drawn = { screen: "", answer: ["", ""] };
let asking = new AbortController();
let leave = null;
let lost = false; // whether the server was not there
let known = { of: null, screens: null }; // the screens and their controls, which are others for a capture

const here = () => ({
  screen: location.pathname.slice(1),
  words: Object.fromEntries([...new URLSearchParams(location.search)].filter(([, value]) => value !== "")),
});

const address = (screen, words) => {
  const said = new URLSearchParams(Object.entries(words).filter(([, value]) => value));
  return `/${screen}${said.size ? `?${said}` : ""}`;
};

const link = (screen, words) => address(screen, { ...here().words, ...words });

/** Changes words of the address, those of the form that wait among them, and asks it. */
function go(words, { screen = here().screen, keep = false } = {}) {
  const address = link(screen, { ...taken(), ...words });
  if (address !== location.pathname + location.search) history[keep ? "replaceState" : "pushState"](null, "", address);
  edited = "";
  retab();
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
  drawn.answer = [screen, location.search];
  const file = (ending, text) => h("a", { href: `/${screen}.${ending}${location.search}`, download: ending === "json" ? undefined : true }, text);
  const block = (title, text, parts) => h("div", {}, h("h2", {}, title, copied(text)), h("pre", { tabindex: "0" }, parts));
  const flags = found.shell.split(/ (?=-)/).flatMap((one) => [h("span", {}, one), " "]); // a flag stays with its value
  same.replaceChildren(
    block("The same in the shell", found.shell, flags), block("The same in Python", found.python, found.python),
    h("p", {}, file("html", "Save as one file"), file("json", "JSON"), file("csv", "CSV")));
}

/** A button beside the answer that shows its headline as one picture, as `--card` draws it. */
function card() {
  const open = () => {
    const [file, search] = drawn.answer, why = h("p", { role: "status" }, "Drawing the card ...");
    const of = (ending) => `/${file}.card.${ending}${search}`, link = (ending, text) => h("a", { href: of(ending), download: `lockstep-${file}.${ending}` }, text);
    const image = h("img", { src: of("png"), width: 1200, height: 630, alt: `Card: ${answer.querySelector("h1").textContent}`, onload: () => why.remove(),
      onerror: async () => why.replaceChildren((await (await fetch(of("png"))).json()).error ?? "It could not be drawn.") });
    const box = h("dialog", { class: "card", "aria-label": "The headline on a card", onclose: () => box.remove(), onclick: (event) => event.target === box && box.close() },
      h("form", { method: "dialog", class: "buttons" }, h("button", { type: "submit" }, "Close"), link("png", "Save as PNG"), link("svg", "Save as SVG")), why, image);
    document.body.append(box);
    box.showModal();
  };
  return h("button", { type: "button", class: "card", title: "The headline on one picture, to show or to send", onclick: open }, "Card");
}

/** Why there is no answer, above the last one of this screen, which stays. */
function refused(found, fields) {
  const label = fields.find((one) => one.name === found.where)?.label ?? found.where?.replaceAll("_", " ");
  const text = found.no ?? (label ? `${label}: ${found.error}` : found.error);
  instead(found.no ? "Not possible" : "That cannot be asked", text.replace(/^at\./, ""), found.levers ? h("pre", { tabindex: "0" }, found.levers) : null);
  const field = root.elements[found.where];
  if (!field) return;
  unmark(field);
  field.parentElement.append(h("span", { class: "red why", "aria-hidden": "true" }, found.error)); // where the answer is far below
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-errormessage", "why");
  const folded = field.closest("details:not(#question)");
  if (folded) folded.open = true;
}

/** Puts words where the answer would be; one that is there is the last answer, and is said to be. */
function instead(title, text, more, any = false) {
  const last = answer.querySelector(any ? ".screen" : `.screen.${here().screen}`);
  const box = h("div", { class: "refused", role: "alert", id: "why" }, h(last ? "h2" : "h1", {}, title), h("p", {}, text), more);
  if (last) {
    fresh();
    answer.prepend(box, h("p", { class: "dim last" }, "Below: the last answer, to what was asked before."));
    for (const one of [last, same]) one.classList.add("old");
    return;
  }
  leave?.();
  leave = null;
  same.replaceChildren();
  answer.replaceChildren(box);
}

/** What is shown is the answer to what is asked. */
function fresh() {
  answer.querySelectorAll(".refused, .last").forEach((one) => one.remove());
  document.querySelectorAll(".old").forEach((one) => one.classList.remove("old"));
  lost = false;
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
    const answered = fetch(`/data/${screen}${location.search}`, { signal: mine.signal });
    const one = (await known.screens).screens.find((each) => each.name === screen);
    if (one.fields.length) sessionStorage.setItem(QUESTION, JSON.stringify(words));
    tabs(screen, one.fields.length ? words : asked());
    if (drawn.screen !== screen) {
      form(one.fields, words, page);
      drawn.screen = screen;
      document.title = `${one.title} · Lockstep`;
    }
    const reply = await answered;
    const found = await reply.json();
    const { draw, update } = await code;
    if (mine.signal.aborted) return;
    form(one.fields, words, page);
    if (!reply.ok) return refused(found, one.fields);
    fresh();
    if (update?.(answer.querySelector(`.screen.${screen}`), found.data)) return foot(found);
    leave?.();
    leave = null;
    const into = h("div", { class: `screen ${screen}` });
    answer.replaceChildren(into);
    const later = async () => {
      const more = await fetch(`/later/${screen}${location.search}`, { signal: mine.signal });
      return more.ok ? (await more.json()).data : new Promise(() => {}); // a refusal has been shown by the first answer
    };
    const stream = (take) => lines(`/stream/${screen}${location.search}`, mine.signal, take);
    const again = async () => (await fetch(`/data/${screen}${location.search}`, { signal: mine.signal })).json();
    leave = draw(into, found.data, { ...page, words, later, stream, again }) ?? null;
    into.prepend(card());
    foot(found);
    document.getElementById("said").textContent = into.querySelector("h1")?.textContent ?? ""; // for who does not see it change
  } catch (error) {
    if (error.name === "AbortError") return;
    known = { of: null, screens: null };
    instead("No answer", "The server has ended or was started again. What you asked stays here and in the address: start lockstep ui with the same --port, open the address that it prints, and come back.",
      h("p", { class: "run" }, h("button", { type: "button", onclick: show }, "Try again")), true);
    lost = true;
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

/** The question of the last screen that has one. */
const asked = () => JSON.parse(sessionStorage.getItem(QUESTION) ?? "{}");

/** Tabs lead on with what is asked, as soon as it is. */
const retab = () => root.dataset.names && tabs(here().screen, here().words);

function tabs(screen, words) {
  for (const tab of document.querySelectorAll("nav a")) {
    tab.href = address(tab.dataset.screen, words);
    if (tab.dataset.screen === screen) {
      tab.setAttribute("aria-current", "page");
      tab.parentElement.scrollLeft = tab.offsetLeft - tab.parentElement.offsetLeft - 40; // on a phone, a tab's end before it
    } else tab.removeAttribute("aria-current");
  }
}

let waiting = 0, wanted = {}; // of several fields, all that changed meanwhile
let undone = false; // whether Back or Forward led here, and nothing was typed since
let edited = ""; // the fields whose change is the newest state, so that further letters belong to it

function taken() {
  clearTimeout(waiting);
  const said = wanted;
  wanted = {};
  return said;
}

function flush() {
  const said = taken(), names = Object.keys(said).sort().join();
  if (!names) return;
  go(said, { keep: names === edited });
  edited = names;
}

const page = {
  link,
  go,
  /** Whether a field is in use, or has what nobody was asked yet. */
  waits: (field) => field.name in wanted || (field === document.activeElement && !undone),
  /** Keeps in the address what changes only how an answer is looked at. */
  mark: (words) => {
    history.replaceState(null, "", link(here().screen, words));
    retab();
  },
  /** Changes words a moment after the last change. Back undoes a field, not a letter. */
  soon: (words) => {
    clearTimeout(waiting);
    wanted = { ...wanted, ...words };
    undone = false;
    waiting = setTimeout(flush, WAIT_MS);
  },
  /** A field is done: its next change is another state. */
  done: () => {
    flush();
    edited = "";
  },
};

document.addEventListener("click", (event) => {
  const anchor = event.target.closest("a[href^='/']");
  if (!anchor || anchor.hasAttribute("download") || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const { pathname, search } = new URL(anchor.href);
  if (pathname.includes(".") || (!search && anchor.closest("nav"))) return; // without a question the server gives one
  event.preventDefault();
  page.done();
  history.pushState(null, "", anchor.href);
  window.scrollTo(0, 0);
  show();
});
addEventListener("popstate", () => {
  taken();
  edited = "";
  undone = true;
  show();
});
addEventListener("focus", () => lost && show());
document.getElementById("question").open = innerWidth > 860;
show();
