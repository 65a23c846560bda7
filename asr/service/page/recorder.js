// A recording from the microphone, at the device's own rate: the service resamples better than a page would.

const WORKLET = "/page/recorder-worklet.js";
// What calls need harms recognition: cancelling echoes and noise cuts words. An even level does no harm.
const WANTED = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: true };

const REASONS = {
  NotAllowedError: "The microphone is not allowed to this page. Allow it in the browser's settings for this site, then record again.",
  NotFoundError: "There is no microphone. Plug one in, or choose a file.",
  NotReadableError: "The microphone is in use by another program. Close that, then record again.",
};

export class Recording {
  #stream;
  #context;
  #node;
  #chunks = [];
  #samples = 0;

  /** onChunk(samples, seconds): each piece and how long it is by then. onLost(): the microphone went away. Throws Error in words. */
  static async start(onChunk, onLost) {
    if (!navigator.mediaDevices || !window.AudioWorkletNode) {
      throw new Error("Browsers record only at https:// addresses and on this computer (http://localhost). Choosing a file works here too.");
    }
    const recording = new Recording();
    try {
      recording.#stream = await navigator.mediaDevices.getUserMedia({ audio: WANTED });
      recording.#context = new AudioContext({ latencyHint: "interactive" });
      await recording.#context.audioWorklet.addModule(WORKLET);
      await recording.#context.resume();
      recording.#connect(onChunk, onLost);
      return recording;
    } catch (error) {
      recording.#release();
      throw new Error(REASONS[error.name] ?? `The microphone can't be used (${error.message}).`, { cause: error });
    }
  }

  /** Hz */
  get rate() {
    return this.#context.sampleRate;
  }

  #connect(onChunk, onLost) {
    const node = new AudioWorkletNode(this.#context, "recorder");
    node.port.onmessage = ({ data }) => {
      if (!data) return;
      this.#chunks.push(data);
      this.#samples += data.length;
      onChunk(data, this.#samples / this.rate);
    };
    this.#context.createMediaStreamSource(this.#stream).connect(node);
    node.connect(this.#context.destination); // silent, but nothing is processed that leads nowhere
    this.#stream.getAudioTracks()[0].addEventListener("ended", onLost);
    this.#node = node;
  }

  /** Ends it. Returns its chunks, Float32Arrays. */
  async stop() {
    await new Promise((done) => {
      this.#node.port.addEventListener("message", ({ data }) => data === null && done());
      this.#node.port.postMessage("stop");
      setTimeout(done, 500); // a context that the browser has put to sleep answers nothing
    });
    this.#release();
    return this.#chunks;
  }

  #release() {
    this.#stream?.getTracks().forEach((track) => track.stop());
    this.#context?.close();
  }
}
