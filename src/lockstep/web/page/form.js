// The controls of a screen: a field for each word, and a place to drop a config.json.

import { h } from "./dom.js";

const root = document.getElementById("form");
const summary = document.querySelector("#question > summary");

function control(field, value, page) {
  const changed = (event) => {
    event.target.removeAttribute("aria-invalid");
    const words = { [field.name]: event.target.value.trim() };
    if (field.instead && words[field.name]) words[field.instead] = "";
    page.soon(words);
  };
  const own = { id: `f-${field.name}`, name: field.name, oninput: changed };
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
  h("p", { class: "field" }, h("label", { for: `f-${field.name}` }, field.label), control(field, words[field.name] ?? "", page));

async function dropped(file, page) {
  const reply = await fetch(`/drop?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file });
  const found = await reply.json();
  const note = document.getElementById("dropped");
  note.textContent = reply.ok ? `${found.name}: read, kept in memory` : `${file.name}: ${found.error}`;
  note.className = reply.ok ? "dim" : "red";
  if (reply.ok) page.go({ model: found.word });
}

function drop(page) {
  const input = h("input", { type: "file", id: "f-file", accept: ".json", onchange: async () => {
    await dropped(input.files[0], page);
    input.value = ""; // the same file may come again
  } });
  return h("p", { class: "field drop" }, h("label", { for: "f-file" }, "or drop a config.json"), input, h("output", { id: "dropped" }));
}

/** Builds the form of a screen, or brings its values up to the address, without touching the field in use. */
export function form(fields, words, page) {
  const names = fields.map((one) => one.name).join();
  const asked = fields.slice(0, 4).map((one) => words[one.name]).filter(Boolean).join(", ");
  summary.replaceChildren("Question", h("small", {}, asked));
  document.querySelector("aside").hidden = fields.length === 0;
  if (root.dataset.names === names) {
    for (const field of fields) {
      const one = root.elements[field.name];
      if (one === document.activeElement) continue;
      one.value = words[field.name] ?? "";
      one.removeAttribute("aria-invalid");
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
  document.ondrop = (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length && document.getElementById("f-file")) dropped(event.dataTransfer.files[0], page);
  };
}
