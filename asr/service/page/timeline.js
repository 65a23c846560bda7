// The picture of a recording: words, waveform and spectrogram on one time axis, with a cursor where it plays.

import { el } from "./dom.js";
import { clock, seconds } from "./format.js";
import { MARKED_HZ, drawSpectrogram, drawWaveform, heightOf } from "./spectrogram.js";

const VIEW = 10; // seconds at a time of a longer recording
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5]; // seconds between marks of the axis
const MARK_ROOM = 52; // pixels

export class Timeline {
  #sound;
  #duration;
  #from = 0;
  #length;
  #words;
  #strip = el("div", { class: "strip" });
  #wave = el("canvas", { class: "wave", role: "img" });
  #spectrum = el("canvas", { class: "spectrum", role: "img" });
  #axis = el("div", { class: "axis", "aria-hidden": "true" });
  #cursor = el("div", { class: "cursor", hidden: true });
  #shift = null;
  #closed = new AbortController();
  #stack;

  /** sound: of sound.js. words: [{word, start, end}]. onPlay(from, to): seconds; asked for by pointing. */
  constructor(sound, words, onPlay) {
    this.#sound = sound;
    this.#duration = sound.played.duration;
    this.#length = Math.max(0.05, Math.min(VIEW, this.#duration));
    this.#words = words;
    const marks = MARKED_HZ.map((hz) => {
      const mark = el("span", { class: "hz" }, hz < 1000 ? `${hz} Hz` : `${hz / 1000} kHz`);
      mark.style.top = `${100 * heightOf(hz)}%`;
      return mark;
    });
    const picture = el("div", { class: "picture" }, this.#spectrum, el("div", { "aria-hidden": "true" }, ...marks));
    this.#stack = el("div", { class: "stack" }, this.#strip, this.#wave, picture, this.#cursor);
    this.#strip.setAttribute("aria-hidden", "true"); // the same words, as buttons, stand in the text
    for (const canvas of [this.#wave, picture]) {
      canvas.addEventListener("click", (event) => {
        const { left, width } = canvas.getBoundingClientRect();
        onPlay(this.#from + ((event.clientX - left) / width) * this.#length, this.#duration);
      });
    }
    this.#strip.addEventListener("click", (event) => {
      const word = this.#words[event.target.dataset?.index];
      if (word) onPlay(word.start, word.end);
    });
    this.node = el("div", { class: "timeline" }, this.#stack, this.#axis);
    if (this.#duration > this.#length) this.node.append(this.#slider());
    new ResizeObserver(() => this.#draw()).observe(this.#stack);
    const { signal } = this.#closed;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw(), { signal });
  }

  #slider() {
    this.#shift = el("input", {
      type: "range", min: 0, max: Math.ceil(this.#duration - this.#length), step: 1, value: 0,
      "aria-label": "Which part of the recording is shown, from",
      oninput: () => this.#look(Number(this.#shift.value)),
    });
    return el("div", { class: "shift" }, this.#shift);
  }

  #look(from) {
    this.#from = Math.max(0, Math.min(from, this.#duration - this.#length));
    if (this.#shift) {
      this.#shift.value = this.#from;
      this.#shift.setAttribute("aria-valuetext", clock(this.#from));
    }
    this.#draw();
  }

  /** It is needed no longer. */
  close() {
    this.#closed.abort();
  }

  /** Where it plays, seconds; null: nowhere. */
  cursor(time) {
    this.#cursor.hidden = time === null;
    this.#strip.querySelector(".now")?.classList.remove("now");
    if (time === null) return;
    if (time < this.#from || time > this.#from + this.#length) this.#look(time);
    this.#cursor.dataset.time = time.toFixed(3);
    this.#cursor.style.left = `${(100 * (time - this.#from)) / this.#length}%`;
    const now = this.#words.findIndex(({ start, end }) => start <= time && time < end);
    this.#strip.querySelector(`[data-index="${now}"]`)?.classList.add("now");
  }

  #draw() {
    if (!this.#stack.clientWidth) return; // closed
    const to = this.#from + this.#length;
    const what = `${seconds(this.#from)} to ${seconds(Math.min(to, this.#duration))}`;
    this.#wave.setAttribute("aria-label", `Waveform, ${what}`);
    this.#spectrum.setAttribute("aria-label", `Mel spectrogram, ${what}`);
    drawWaveform(this.#wave, this.#sound.samples, this.#from, to);
    drawSpectrogram(this.#spectrum, this.#sound.samples, this.#from, to);
    const shown = this.#words.map((word, index) => ({ ...word, index })).filter(({ start, end }) => end > this.#from && start < to);
    this.#strip.replaceChildren(
      ...shown.map(({ word, start, end, index }) => {
        const label = el("span", { "data-index": index, title: word }, word);
        const [left, right] = [Math.max(start, this.#from), Math.min(end, to)];
        label.style.left = `${(100 * (left - this.#from)) / this.#length}%`;
        label.style.width = `${(100 * (right - left)) / this.#length}%`;
        return label;
      }),
    );
    this.#marks(to);
  }

  #marks(to) {
    const room = (this.#stack.clientWidth / this.#length) || 1;
    const step = STEPS.find((each) => each * room >= MARK_ROOM) ?? STEPS.at(-1);
    const marks = [];
    for (let i = Math.ceil(this.#from / step - 1e-9); i * step < to - 0.3 * (MARK_ROOM / room); i++) {
      const mark = el("span", {}, this.#duration > 60 ? clock(i * step) : `${(i * step).toFixed(step < 1 ? 1 : 0)} s`);
      mark.style.left = `${(100 * (i * step - this.#from)) / this.#length}%`;
      marks.push(mark);
    }
    this.#axis.replaceChildren(...marks);
  }
}
