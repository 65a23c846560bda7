// Questions that need an answer before anything goes on.

import { byId, el } from "./dom.js";

/** Resolves to whether the person agrees. */
export function confirmed(question, yes, no = "Cancel") {
  return new Promise((answer) => {
    const close = (value) => {
      answer(value);
      dialog.remove();
    };
    const id = "question";
    const dialog = el(
      "dialog", { "aria-labelledby": id, oncancel: () => close(false) },
      el("p", { id }, question),
      el(
        "div", { class: "actions" },
        el("button", { type: "button", autofocus: true, onclick: () => close(false) }, no),
        el("button", { type: "button", class: "danger", onclick: () => close(true) }, yes),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** message: why the last one was refused, or null. Resolves to a key, or null. */
export function askForKey(message) {
  return new Promise((answer) => {
    const input = el("input", { id: "key", type: "password", autocomplete: "current-password", spellcheck: "false", required: true });
    const close = (value) => {
      answer(value);
      dialog.remove();
    };
    const dialog = el(
      "dialog", { "aria-labelledby": "key-title", oncancel: () => close(null) },
      el("h2", { id: "key-title" }, "The service asks for a key"),
      el("p", {}, message ?? "Whoever started it has one. It stays in this tab, and is forgotten with it."),
      el(
        "form", { onsubmit: (event) => { event.preventDefault(); close(input.value.trim()); } },
        el("label", { for: "key" }, "Key"), input,
        el("div", { class: "actions" }, el("button", { type: "button", onclick: () => close(null) }, "Cancel"), el("button", { class: "primary" }, "Go on")),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
    input.focus();
  });
}

/** A line that is read out; "" empties it. kind: "", "good", "bad", or "read" for what stands elsewhere on the page. */
export function say(text, kind = "") {
  const line = byId("status");
  line.textContent = text;
  line.dataset.kind = kind;
}
