// Collects what the microphone gives, in the audio thread, and hands it on in pieces.

const PIECE = 2048; // samples, some 40 ms

class Recorder extends AudioWorkletProcessor {
  #piece = new Float32Array(PIECE);
  #filled = 0;
  #done = false;

  constructor() {
    super();
    this.port.onmessage = () => {
      this.#hand();
      this.#done = true;
      this.port.postMessage(null);
    };
  }

  #hand() {
    const piece = this.#piece.slice(0, this.#filled);
    this.#filled = 0;
    if (piece.length) this.port.postMessage(piece, [piece.buffer]);
  }

  process([channels]) {
    if (this.#done) return false;
    const length = channels[0]?.length ?? 0;
    for (let n = 0; n < length; n++) {
      let sum = 0;
      for (const channel of channels) sum += channel[n];
      this.#piece[this.#filled++] = sum / channels.length;
      if (this.#filled === PIECE) this.#hand();
    }
    return true;
  }
}

registerProcessor("recorder", Recorder);
