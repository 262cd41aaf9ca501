// The controls of a screen: a field for each word, and places to drop a config.json, a capture and measured files.

import { h } from "./dom.js";

const root = document.getElementById("form");
const summary = document.querySelector("#question > summary");
const MARK = /^dropped:[0-9a-f]+-/; // before the name of a dropped file in its word

/** A field is not what was refused. */
export function unmark(field) {
  field.removeAttribute("aria-invalid");
  field.parentElement.querySelector(".why")?.remove();
}

function control(field, value, page) {
  let said = value;
  const changed = (event) => {
    unmark(event.target);
    said = event.target.value.trim();
    page.soon({ [field.name]: said, ...(field.instead && said ? { [field.instead]: "" } : {}) });
  };
  const done = (event) => {
    if (event.target.value.trim() !== said) changed(event); // what fills forms in does not always say each letter
    page.done();
  };
  const own = { id: `f-${field.name}`, name: field.name, oninput: changed, onchange: done };
  if (field.files) return [filesInput(field, page), h("ul", { class: "files" }, chosen(field, value, page)), h("output", { id: `read-${field.name}` })];
  if (field.choices.length) {
    return h("select", own, h("option", { value: "" }, field.example),
      field.choices.map((one) => h("option", { value: one, selected: one === value }, one)));
  }
  const list = field.offers.length ? `l-${field.name}` : undefined;
  return [
    h("input", { ...own, value, placeholder: field.example, list, spellcheck: "false" }),
    list ? h("datalist", { id: list }, field.offers.map((one) => h("option", { value: one }))) : null,
  ];
}

const row = (field, words, page) =>
  h(field.files ? "div" : "p", { class: field.files ? "field drop" : "field" }, h("label", { for: `${field.files ? "files" : "f"}-${field.name}` }, field.label),
    control(field, words[field.name] ?? "", page));

async function sent(address, name, body) {
  try {
    const reply = await fetch(`${address}?name=${encodeURIComponent(name)}`, { method: "POST", body });
    return await reply.json();
  } catch {
    return { error: "could not be sent" };
  }
}

function say(id, text, bad) {
  const note = document.getElementById(id);
  note.textContent = text;
  note.className = bad ? "red" : "dim";
}

async function dropped(file, page) {
  const found = await sent("/drop", file.name, file);
  say("dropped", found.word ? `${found.name}: read, kept in memory` : `${file.name}: ${found.error}`, !found.word);
  if (!found.word) return;
  // A capture is shown on few screens, and first on the machine that it was captured for.
  const screens = found.screens ?? [], here = location.pathname.slice(1);
  page.go({ model: found.word, ...(screens.length ? { cluster: "" } : {}) }, screens.length && !screens.includes(here) ? { screen: screens[0] } : {});
}

/** Measured files that are chosen: by name, each with a button that leaves it out. */
function chosen(field, value, page) {
  const words = value.split(" ").filter(Boolean);
  return words.map((word) => {
    const name = word.replace(MARK, "");
    const leave = () => page.go({ [field.name]: words.filter((one) => one !== word).join(" ") });
    return h("li", {}, h("span", {}, name), h("button", { type: "button", "aria-label": `Leave ${name} out`, onclick: leave }, "×"));
  });
}

function few(value = "") {
  const names = value.split(" ").map((one) => one.replace(MARK, ""));
  return names.length > 1 ? `${names[0]} and ${names.length - 1} more` : names[0];
}

function filesInput(field, page) {
  return h("input", { type: "file", id: `files-${field.name}`, name: field.name, multiple: true, onchange: async (event) => {
    const input = event.target;
    await measured([...input.files], field, page);
    input.value = "";
  } });
}

/** Sends measured files one after the other; large ones are compressed first. */
async function measured(files, field, page) {
  const [most, unpacked] = field.files, words = [], refused = [], stated = {};
  for (const file of files) {
    say(`read-${field.name}`, `Reading ${file.name} ...`);
    let body = file;
    if (file.size > most && file.size <= unpacked) body = await new Response(file.stream().pipeThrough(new CompressionStream("gzip"))).blob();
    const found = body.size > most ? { error: "is too large" } : await sent("/drop/measured", file.name, body);
    if (found.word) words.push(found.word);
    for (const name of found.states ?? []) stated[name] = ""; // a log that says its run stands for these fields
    if (!found.word) refused.push(`${file.name}: ${found.error}`);
  }
  say(`read-${field.name}`, refused.join("; "), true);
  const had = (new URLSearchParams(location.search).get(field.name) ?? "").split(" ").filter(Boolean);
  if (words.length) page.go({ ...(field.name === "file" ? stated : {}), [field.name]: [...new Set([...had, ...words])].join(" ") });
}

function drop(page) {
  const input = h("input", { type: "file", id: "f-file", accept: ".json,.capture", onchange: async () => {
    await dropped(input.files[0], page);
    input.value = ""; // the same file may come again
  } });
  return h("p", { class: "field drop" }, h("label", { for: "f-file" }, "or drop a config.json or a step.capture"), input, h("output", { id: "dropped" }));
}

/** Builds the form of a screen, or brings its values up to the address, without touching the field in use. */
export function form(fields, words, page) {
  const names = fields.map((one) => one.name).join();
  const asked = fields.slice(0, 6).map((one) => (one.files || one.name === "model" ? few(words[one.name]) : words[one.name]));
  summary.replaceChildren("Question", h("small", {}, asked.filter(Boolean).slice(0, 4).join(", ")));
  document.querySelector("aside").hidden = fields.length === 0;
  if (root.dataset.names === names) {
    for (const field of fields) {
      const one = root.elements[field.name];
      if (!field.files && page.waits(one)) continue;
      if (field.files) one.parentElement.querySelector("ul").replaceChildren(...chosen(field, words[field.name] ?? "", page));
      else one.value = words[field.name] ?? "";
      unmark(one);
    }
    return;
  }
  root.dataset.names = names;
  const groups = [...new Set(fields.map((one) => one.group))].filter(Boolean);
  root.replaceChildren(
    ...fields.filter((one) => !one.group).map((one) => row(one, words, page)),
    ...(fields.some((one) => one.name === "model") ? [drop(page)] : []),
    ...groups.map((group) => {
      const inside = fields.filter((one) => one.group === group);
      return h("details", { open: inside.some((one) => words[one.name]) }, h("summary", {}, group),
        inside.map((one) => row(one, words, page)));
    }));
  root.onsubmit = (event) => event.preventDefault();
  document.ondragover = (event) => event.preventDefault();
  document.ondrop = async (event) => {
    event.preventDefault();
    const files = [...event.dataTransfer.files], field = fields.find((one) => one.files);
    const lone = field && files.length > 1 ? /\.capture$/i : /config[^/]*\.json$|\.capture$/i;
    const model = document.getElementById("f-file") && (files.find((one) => lone.test(one.name)) ?? (field ? null : files[0]));
    const rest = files.filter((one) => one !== model);
    if (model) await dropped(model, page);
    if (field && rest.length) await measured(rest, field, page);
  };
}
