// node transcribe.mjs model.onnx sound.wav      (16-bit mono WAV of the model's rate: 16 kHz)
// npm install onnxruntime-node, or onnxruntime-web, which is WebAssembly and needs no native library.
import { readFile } from "node:fs/promises";

const ort = await import("onnxruntime-node").catch(() => import("onnxruntime-web"));
const [model, sound] = process.argv.slice(2);

function samples(file) { // the chunk "data" of a WAV file, full scale ±1
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  for (let at = 12; at + 8 <= file.length; at += 8 + view.getUint32(at + 4, true)) {
    if (file.toString("latin1", at, at + 4) !== "data") continue;
    const count = Math.min(view.getUint32(at + 4, true), file.length - at - 8) >> 1;
    return Float32Array.from({ length: count }, (_, i) => view.getInt16(at + 8 + 2 * i, true) / 32768);
  }
  throw new Error(`${sound}: no WAV file`);
}

const session = await ort.InferenceSession.create(await readFile(model));
const heard = samples(await readFile(sound));
const found = await session.run({ samples: new ort.Tensor("float32", heard, [1, heard.length]) });
console.log(found.pieces.data.join("").trim());
const sure = found.log_probs.data.reduce((sum, value) => sum + value, 0) / Math.max(1, found.log_probs.data.length);
console.error(`${found.count.data[0]} tokens, confidence ${Math.exp(sure).toFixed(2)}`);
