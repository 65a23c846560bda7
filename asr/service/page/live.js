// How loud it is while recording: a level, and the last seconds' waveform.

const SECONDS = 6; // in the picture
const BARS_PER_CHUNK = 4;
const QUIET = -60; // dB of full scale, the meter's lower end
const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Live {
  #canvas;
  #meter;
  #fill;
  #label;
  #bars = [];
  #drawn = 0;
  #shown = QUIET;

  constructor(canvas, meter, label) {
    this.#canvas = canvas;
    this.#meter = meter;
    this.#fill = meter.firstElementChild;
    this.#label = label;
  }

  reset() {
    this.#bars = [];
    this.#shown = QUIET;
    this.#show(QUIET, 0);
    this.#draw();
  }

  /** A chunk of samples, full scale ±1, and their rate (Hz). */
  add(chunk, rate) {
    const size = Math.ceil(chunk.length / BARS_PER_CHUNK);
    let squares = 0;
    let peak = 0;
    for (let start = 0; start < chunk.length; start += size) {
      let most = 0;
      for (let n = start; n < Math.min(chunk.length, start + size); n++) {
        most = Math.max(most, Math.abs(chunk[n]));
        squares += chunk[n] ** 2;
      }
      this.#bars.push(most);
      peak = Math.max(peak, most);
    }
    this.#bars.splice(0, this.#bars.length - Math.ceil((SECONDS * rate) / size));
    const level = Math.max(QUIET, 10 * Math.log10(squares / chunk.length + 1e-12));
    this.#shown = Math.max(level, this.#shown - 2); // it falls slower than it rises, as meters do
    if (performance.now() - this.#drawn < (still.matches ? 400 : 0)) return;
    this.#drawn = performance.now();
    this.#show(this.#shown, peak);
    requestAnimationFrame(() => this.#draw((SECONDS * rate) / size));
  }

  #show(level, peak) {
    this.#fill.style.width = `${(100 * (level - QUIET)) / -QUIET}%`;
    this.#meter.classList.toggle("loud", peak > 0.98);
    const decibels = `${Math.round(level)} dB`.replace("-", "−");
    this.#meter.setAttribute("aria-valuenow", String(Math.round(level)));
    this.#meter.setAttribute("aria-valuetext", decibels);
    this.#label.textContent = peak > 0.98 ? `${decibels}, too loud` : decibels;
  }

  #draw(room = 1) {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const scale = devicePixelRatio || 1;
    this.#canvas.width = width * scale;
    this.#canvas.height = height * scale;
    const context = this.#canvas.getContext("2d");
    context.scale(scale, scale);
    context.fillStyle = getComputedStyle(this.#canvas).color;
    const step = width / room;
    const first = width - this.#bars.length * step;
    this.#bars.forEach((bar, i) => {
      const tall = Math.max(1, Math.min(1, bar ** 0.8) * height);
      context.fillRect(first + i * step, (height - tall) / 2, Math.max(0.75, step * 0.7), tall);
    });
  }
}
