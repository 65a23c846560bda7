import * as ort from "./node_modules/onnxruntime-web/dist/ort.wasm.min.mjs";

const RATE = 16000; // Hz: what the model hears (sample_rate in its metadata)
const LONGEST = 30; // seconds of a recording: a graph takes one utterance

const [record, file, text, status] = ["record", "file", "text", "status"].map((id) => document.getElementById(id));
// Several threads need a page that is cross-origin isolated, and a short command gains little by them
ort.env.wasm.numThreads = 1;
let session;
let recorder = null;

async function load() {
  const start = performance.now();
  const answer = await fetch("model.onnx");
  if (!answer.ok) throw new Error("model.onnx isn't here; make it with: cepstra export --graph all-in-one -o model.onnx");
  session = await ort.InferenceSession.create(await answer.arrayBuffer(), { executionProviders: ["wasm"] });
  record.disabled = file.disabled = false;
  document.body.dataset.ready = "";
  say(`model.onnx is loaded (${Math.round(performance.now() - start)} ms); the network is needed no more`);
}

/** Mono samples at the model's rate out of whatever the browser can decode. */
async function samplesOf(bytes) {
  const sound = await new OfflineAudioContext(1, 1, RATE).decodeAudioData(bytes); // resamples as it decodes
  const mono = new Float32Array(sound.length);
  for (let channel = 0; channel < sound.numberOfChannels; channel++) {
    sound.getChannelData(channel).forEach((value, i) => { mono[i] += value / sound.numberOfChannels; });
  }
  return mono;
}

async function transcribe(blob) {
  let samples;
  try {
    samples = await samplesOf(await blob.arrayBuffer());
  } catch {
    text.textContent = ""; // what stands there was said in another file
    return say("that is no sound that this browser can read; open a WAV, FLAC, Ogg or MP3 file");
  }
  const start = performance.now();
  const found = await session.run({ samples: new ort.Tensor("float32", samples, [1, samples.length]) });
  const took = Math.round(performance.now() - start);
  const logProbs = found.log_probs.data;
  const confidence = Math.exp(logProbs.reduce((sum, value) => sum + value, 0) / Math.max(1, logProbs.length));
  text.textContent = found.pieces.data.join("").trim();
  const length = `${(samples.length / RATE).toFixed(1)} s of sound in ${took} ms`;
  say(text.textContent ? `${length}, confidence ${confidence.toFixed(2)}` : `${length}: nothing to write`);
}

async function start() {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
  const parts = [];
  recorder = new MediaRecorder(stream);
  recorder.ondataavailable = (event) => parts.push(event.data);
  recorder.onstop = () => {
    stream.getTracks().forEach((track) => track.stop());
    attempt(() => transcribe(new Blob(parts)));
  };
  recorder.start();
  setTimeout(stop, 1000 * LONGEST, recorder);
  show(true);
  say("listening …");
}

function stop(which) {
  if (recorder !== which || which === null) return;
  recorder = null;
  which.stop();
  show(false);
}

function show(recording) {
  record.textContent = recording ? "Stop" : "Record";
  record.setAttribute("aria-pressed", String(recording));
}

function say(message) {
  status.textContent = message;
}

async function attempt(work) {
  try {
    await work();
  } catch (error) {
    say(error.name === "NotAllowedError" ? "the microphone isn't allowed here" : String(error.message ?? error));
  }
}

record.addEventListener("click", () => (recorder ? stop(recorder) : attempt(start)));
file.addEventListener("change", () => file.files.length && attempt(() => transcribe(file.files[0])));
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  const [dropped] = event.dataTransfer.files;
  if (dropped && session) attempt(() => transcribe(dropped));
});
attempt(load);
