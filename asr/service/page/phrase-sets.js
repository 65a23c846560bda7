// Phrase sets: which is listened for, what may be said in it, and changing it.

import { ServiceFault } from "./api.js";
import { confirmed } from "./dialogs.js";
import { byId, el, icon } from "./dom.js";
import { Editor } from "./editor.js";
import { counted } from "./format.js";
import { STARTERS } from "./starters.js";

const SAMPLES = 8;

export class PhraseSets {
  #service;
  #say;
  #select = byId("listen-for");
  #panel = byId("phrase-set");
  #sets = [];
  #editor = null;
  #shown = "";

  constructor(service, say) {
    this.#service = service;
    this.#say = say;
    this.#select.addEventListener("change", () => this.#choose(this.#select.value));
    byId("new-set").addEventListener("click", () => this.#edit(null));
  }

  /** The name of the chosen set, or null for free text. */
  get chosen() {
    return this.#select.value || null;
  }

  /** Asks the service what there is. Throws ServiceFault. */
  async load(choose = this.#shown) {
    this.#sets = await this.#service.phraseSets();
    const options = this.#sets.map(({ name }) => el("option", { value: name }, name));
    this.#select.replaceChildren(el("option", { value: "" }, "Anything (free text)"), ...options);
    this.#select.value = this.#sets.some(({ name }) => name === choose) ? choose : "";
    await this.#show(this.#select.value);
  }

  async #choose(name) {
    if (!(await this.#leaves())) {
      this.#select.value = this.#shown;
      return;
    }
    await this.#attempt(() => this.#show(name));
  }

  /** Whether the editor may be left. */
  async #leaves() {
    if (!this.#editor?.changed) return true;
    return confirmed("Leave the changes to this phrase set unsaved?", "Don't save", "Go on editing");
  }

  async #attempt(what) {
    try {
      await what();
    } catch (error) {
      if (!(error instanceof ServiceFault)) throw error;
      this.#say(error.message, "bad");
    }
  }

  async #show(name) {
    this.#editor = null;
    this.#shown = name;
    if (!name) {
      this.#panel.replaceChildren(...this.#introduction());
      return;
    }
    const set = await this.#service.phraseSet(name);
    if (this.#shown !== name) return; // another was chosen meanwhile
    const actions = set.fixed
      ? [el("p", { class: "quiet small" }, "Given when the service was started; it can't be changed here."), el("button", { type: "button", onclick: () => this.#edit(null, set) }, icon("edit"), "Edit a copy")]
      : [
          el("button", { type: "button", onclick: () => this.#edit(set) }, icon("edit"), "Edit"),
          el("button", { type: "button", class: "plain", onclick: () => this.#remove(name) }, icon("delete"), "Delete"),
        ];
    this.#panel.replaceChildren(
      el("h3", {}, name),
      el("p", { class: "quiet" }, `${counted(set.sentences, "sentence")}, ${counted(set.intents.length, "intent")}`),
      el("h4", {}, "Try saying"),
      el("ul", { class: "samples" }, ...set.samples.slice(0, SAMPLES).map((sentence) => el("li", {}, sentence))),
      el("div", { class: "actions" }, ...actions),
    );
  }

  #introduction() {
    const what = el(
      "p", {}, this.#sets.length
        ? "Any words are written down. Choose a phrase set above, and only its sentences are listened for; the answer is then a command."
        : "Any words are written down. With a phrase set, only its sentences are listened for, and the answer is a command. Begin with one of these, or an empty one:",
    );
    if (this.#sets.length) return [what];
    const starters = STARTERS.map((starter) => el("button", { type: "button", onclick: () => this.#edit(null, starter) }, starter.title));
    return [what, el("div", { class: "actions" }, ...starters)];
  }

  /** set: as the service gives it, or null for a new one. */
  async #edit(set, starter = null) {
    if (!(await this.#leaves())) return;
    this.#editor = new Editor({
      set,
      starter,
      taken: this.#sets.map(({ name }) => name),
      save: (name, text) => this.#save(name, text),
      cancel: async () => {
        if (await this.#leaves()) await this.#attempt(() => this.#show(this.#shown));
      },
    });
    this.#panel.replaceChildren(this.#editor.node);
    this.#editor.focus();
  }

  /** Throws ServiceFault where the text has faults. */
  async #save(name, text) {
    const set = await this.#service.savePhrases(name, text);
    this.#editor = null;
    this.#say(`Saved “${name}”: ${counted(set.sentences, "sentence")}. It is now listened for.`, "good");
    await this.#attempt(() => this.load(name));
    this.#panel.querySelector("button")?.focus();
  }

  async #remove(name) {
    if (!(await confirmed(`Delete the phrase set “${name}”? Nobody can use it any more.`, "Delete", "Keep it"))) return;
    await this.#attempt(async () => {
      await this.#service.deletePhrases(name);
      this.#say(`Deleted “${name}”.`, "good");
      await this.load("");
      this.#select.focus();
    });
  }
}
