// node transcribe.mjs model.onnx sound.wav      (16-bit mono WAV of the model's rate: 16 kHz)
// npm install onnxruntime-node, or onnxruntime-web, which is WebAssembly and needs no native library.
import { readFile } from "node:fs/promises";

const [model, sound] = process.argv.slice(2);
if (!sound) refuse("usage: node transcribe.mjs model.onnx sound.wav");
const ort = await import("onnxruntime-node").catch(() => import("onnxruntime-web"));

function refuse(message) {
  console.error(message);
  process.exit(1);
}

function samples(file) { // the chunk "data" of a WAV file, full scale ±1
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const chunk = file.toString("latin1", 0, 4) === "RIFF" && file.toString("latin1", 8, 12) === "WAVE" ? 12 : file.length;
  for (let at = chunk; at + 8 <= file.length; at += 8 + view.getUint32(at + 4, true) + (view.getUint32(at + 4, true) & 1)) {
    const name = file.toString("latin1", at, at + 4);
    if (name === "fmt ") {
      const [kind, channels, rate, bits] = [view.getUint16(at + 8, true), view.getUint16(at + 10, true),
        view.getUint32(at + 12, true), view.getUint16(at + 22, true)];
      if (kind !== 1 || channels !== 1 || rate !== 16000 || bits !== 16) {
        refuse(`${sound}: ${channels} channel(s) of ${bits} bits at ${rate} Hz, format ${kind}; ` +
          "convert it to 16-bit mono PCM at 16000 Hz");
      }
    }
    if (name !== "data") continue;
    const count = Math.min(view.getUint32(at + 4, true), file.length - at - 8) >> 1;
    return Float32Array.from({ length: count }, (_, i) => view.getInt16(at + 8 + 2 * i, true) / 32768);
  }
  return refuse(`${sound}: no WAV file`);
}

const read = (path) => readFile(path).catch((error) => refuse(`${path}: can't be read (${error.code})`));
const heard = samples(await read(sound));
const session = await ort.InferenceSession.create(await read(model));
const found = await session.run({ samples: new ort.Tensor("float32", heard, [1, heard.length]) });
console.log(found.pieces.data.join("").trim());
const sure = found.log_probs.data.reduce((sum, value) => sum + value, 0) / Math.max(1, found.log_probs.data.length);
console.error(`${found.count.data[0]} tokens, confidence ${Math.exp(sure).toFixed(2)}`);
