// The text of a phrase set, with what the service finds wrong in it shown where it is.

import { ServiceFault } from "./api.js";
import { el, icon } from "./dom.js";

const NAME = "[a-z0-9][a-z0-9_\\-]{0,63}";
const SHOWN = 34; // characters of a faulty line
const BEFORE = 20; // of them before the fault
const PLACE = /(?:^|:)(\d+):(\d+): ([^]*)$/; // name:line:column: fault; remedy

/** What stands about a column, on one line, and below it where the column is. */
function excerpt(line, column) {
  const from = Math.max(0, Math.min(column - 1, line.length) - BEFORE);
  const lead = from ? "…" : "";
  return `${lead}${line.slice(from, from + SHOWN)}${line.length > from + SHOWN ? "…" : ""}\n${" ".repeat(lead.length + column - 1 - from)}^`;
}

export class Editor {
  #name;
  #text;
  #saved;
  #fault = el("div", { class: "fault-box", id: "set-fault", role: "alert" });

  /** set: to change, or null. starter: to begin a new one with, or null. taken: names. save(name, text), cancel(). */
  constructor({ set, starter, taken, save, cancel }) {
    this.#saved = set?.text ?? starter?.text ?? "";
    this.#text = el("textarea", {
      id: "set-text", rows: 14, spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off", "aria-describedby": "set-fault",
      placeholder: "turn on the lights\nturn off the lights [in the (kitchen|hall)]",
    });
    this.#text.value = this.#saved;
    this.#name = el("input", {
      id: "set-name", required: true, pattern: NAME, maxlength: 64, autocomplete: "off", autocapitalize: "off", spellcheck: "false",
      "aria-describedby": "set-name-rule", value: starter && !taken.includes(starter.name) ? starter.name : "",
    });
    const named = set
      ? [el("h3", {}, `Edit ${set.name}`)]
      : [
          el("h3", {}, "New phrase set"), el("label", { for: "set-name" }, "Name"), this.#name,
          el("p", { class: "quiet small", id: "set-name-rule" }, "Small letters, digits, - and _, beginning with a letter or digit."),
        ];
    const submit = async (event) => {
      event.preventDefault();
      const name = set?.name ?? this.#name.value;
      if (!set && taken.includes(name)) {
        this.#show(`There is a set “${name}” already; take another name, or edit that one.`, this.#name);
        return;
      }
      await this.#send(() => save(name, this.#text.value));
    };
    this.node = el(
      "form", { class: "editor", onsubmit: submit },
      ...named,
      el("label", { for: "set-text" }, "Sentences"), this.#text, this.#fault,
      el("div", { class: "actions" }, el("button", { class: "primary" }, "Save"), el("button", { type: "button", onclick: cancel }, "Cancel")),
    );
    this.#text.addEventListener("input", () => this.#clear());
  }

  get changed() {
    return this.#text.value !== this.#saved;
  }

  focus() {
    (this.#name.isConnected && !this.#name.value ? this.#name : this.#text).focus();
  }

  #clear() {
    this.#fault.replaceChildren();
    this.#text.removeAttribute("aria-invalid");
  }

  async #send(save) {
    this.#clear();
    try {
      await save();
    } catch (error) {
      if (!(error instanceof ServiceFault)) throw error;
      this.#show(error.message, this.#text);
    }
  }

  #show(message, field) {
    const place = PLACE.exec(message);
    field.focus();
    if (!place) {
      this.#fault.replaceChildren(el("p", { class: "fault" }, icon("fault"), el("span", {}, message)));
      return;
    }
    const [line, column] = [Number(place[1]), Number(place[2])];
    const lines = this.#text.value.split("\n");
    const source = lines[line - 1] ?? "";
    this.#text.setAttribute("aria-invalid", "true");
    this.#fault.replaceChildren(
      el("p", { class: "fault" }, icon("fault"), el("span", {}, el("b", {}, `Line ${line}, column ${column}: `), place[3])),
      el("pre", { "aria-hidden": "true" }, excerpt(source, column)),
    );
    const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    const caret = Math.min(start + column - 1, this.#text.value.length);
    this.#text.setSelectionRange(caret, caret);
    this.#text.scrollTop = Math.max(0, line - 4) * parseFloat(getComputedStyle(this.#text).lineHeight);
  }
}
