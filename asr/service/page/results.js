// Recordings and files, each with its answer: a list, of which each can be opened.

import { commandLine, commandView } from "./command.js";
import { el, icon } from "./dom.js";
import { lasting } from "./format.js";
import * as player from "./player.js";
import { decode } from "./sound.js";
import { Timeline } from "./timeline.js";
import { legend, wordList } from "./words.js";

let ids = 0;

export class Result {
  #blob;
  #sound = null;
  #timeline = null;
  #button;
  #title;
  #state;
  #body;
  #playAll = null;

  /** again(result): wanted once more, as is chosen now. */
  constructor(blob, name, again) {
    this.#blob = blob;
    this.name = name;
    const id = `result-${++ids}`;
    this.#title = el("span", { class: "title" }, "Waiting…");
    this.#state = el("span", { class: "name" }, name);
    this.#button = el(
      "button", { type: "button", class: "head", "aria-expanded": "false", "aria-controls": id, onclick: () => this.open(this.#body.hidden) },
      this.#title, this.#state, icon("more"),
    );
    this.#body = el("div", { class: "body", id, hidden: true });
    this.#again = again;
    this.node = el("li", { class: "result" }, el("h3", {}, this.#button), this.#body);
  }

  #again;

  /** In one line, for those who listen. */
  get summary() {
    return `${this.#title.textContent}. ${this.#state.textContent}`;
  }

  get busy() {
    return this.node.dataset.state === "working";
  }

  get blob() {
    return this.#blob;
  }

  open(wanted = true) {
    this.#body.hidden = !wanted;
    this.#button.setAttribute("aria-expanded", String(wanted));
    if (!wanted) this.#quiet();
  }

  /** It is needed no longer. */
  close() {
    this.#quiet();
    this.#timeline?.close();
  }

  #quiet() {
    if (this.node.dataset.playing) player.stop();
  }

  #become(kind, title, ...details) {
    this.#quiet();
    this.node.dataset.state = kind;
    this.#title.textContent = title;
    this.#state.textContent = [this.name, ...details].join(" · ");
  }

  working(text = "Listening…") {
    this.#become("working", text);
  }

  failed(message) {
    this.#become("failed", "Not transcribed");
    this.#body.replaceChildren(el("p", { class: "fault" }, icon("fault"), el("span", {}, message)), this.#footer());
  }

  /** answer: of the service. phrases: the set's name, or null for free text. */
  async done(answer, phrases) {
    const title = phrases ? (answer.command?.sentence ?? commandLine(answer)) : answer.text || "Nobody speaks in it";
    this.#become("working", title, lasting(answer.duration), phrases ? `“${phrases}”` : "free text");
    this.#sound ??= await decode(this.#blob, answer.duration);
    const { node, buttons } = wordList(answer, this.#sound && ((from, to, button) => this.#play(from, to, button)));
    this.#timeline?.close();
    this.#timeline = this.#sound && new Timeline(this.#sound, answer.words, (from, to) => this.#play(from, to));
    this.#body.replaceChildren(
      ...[
        phrases ? commandView(answer, phrases) : null,
        buttons.length ? node : null,
        buttons.length ? legend() : null,
        !phrases && !buttons.length ? el("p", { class: "quiet" }, "No words were heard.") : null,
        this.#timeline?.node ?? el("p", { class: "quiet" }, "The browser can't decode this kind of file, so there is no picture of it and nothing to play. The service can: this is its answer."),
        this.#footer(),
      ].filter(Boolean),
    );
    this.node.dataset.state = "done";
  }

  #footer() {
    const again = el("button", { type: "button", class: "plain", title: "For what is chosen at “Listen for”", onclick: () => this.#again(this) }, icon("again"), "Listen again");
    const play = el("button", { type: "button", class: "plain play", onclick: () => this.#playOrStop() }, icon("play"), el("span", {}, "Play"));
    this.#playAll = this.#sound ? play : null;
    return el("div", { class: "foot" }, ...[this.#playAll, again].filter(Boolean));
  }

  #playOrStop() {
    if (this.node.dataset.playing) this.#quiet();
    else this.#play(0, this.#sound.played.duration);
  }

  #play(from, to, button = null) {
    const label = this.#playAll.querySelector("span");
    const shown = (playing) => {
      this.#playAll.querySelector("use").setAttribute("href", playing ? "#icon-stop" : "#icon-play");
      label.textContent = playing ? "Stop" : "Play";
      if (playing) this.node.dataset.playing = "true";
      else delete this.node.dataset.playing;
      button?.classList.toggle("playing", playing);
    };
    player.play(this.#sound.played, from, to, (time) => this.#timeline.cursor(time), () => {
      shown(false);
      this.#timeline.cursor(null);
    });
    shown(true);
  }
}
