// Draws stretches of sound: waveform and mel spectrogram.

import { colour } from "./colours.js";
import { FRAME, HOP, MELS, RATE, filterAt, frameCount, logMel } from "./mel.js";

const RANGE = Math.log(1e6); // 60 dB from the darkest to the brightest
const DIMMEST_TOP = Math.log(1e-2); // what is no louder than this is not made to look loud
export const MARKED_HZ = [250, 1000, 4000];

/** Where a frequency lies in the picture, 0 top to 1 bottom. */
export const heightOf = (hz) => 1 - (filterAt(hz) + 0.5) / MELS;

function prepared(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  return { context, width, height };
}

/** samples: at RATE. from, to: seconds, of which some may lie behind the end. */
export function drawWaveform(canvas, samples, from, to) {
  const { context, width, height } = prepared(canvas);
  context.fillStyle = getComputedStyle(canvas).color;
  const perPixel = ((to - from) * RATE) / width;
  for (let x = 0; x < width; x += 0.5) {
    let [low, high] = [0, 0];
    const end = Math.min(samples.length, (from * RATE + (x + 0.5) * perPixel) | 0);
    for (let n = (from * RATE + x * perPixel) | 0; n < end; n++) {
      low = Math.min(low, samples[n]);
      high = Math.max(high, samples[n]);
    }
    const tall = Math.max(0.5, ((high - low) * height) / 2);
    context.fillRect(x, Math.max(0, (height * (1 - high)) / 2), 0.5, Math.min(tall, height));
  }
}

/** As drawWaveform; low frequencies are at the bottom. */
export function drawSpectrogram(canvas, samples, from, to) {
  const { context, width, height } = prepared(canvas);
  context.fillStyle = `rgb(${colour(0).join(" ")})`;
  context.fillRect(0, 0, width, height);
  const all = frameCount(samples.length);
  const first = Math.max(0, Math.floor((from * RATE - FRAME) / HOP));
  const count = Math.min(all, Math.ceil((to * RATE) / HOP)) - first;
  if (count <= 0) return;
  const rows = logMel(samples, first, count);
  const top = rows.reduce((most, value) => Math.max(most, value), DIMMEST_TOP);
  const image = new ImageData(count, MELS);
  for (let frame = 0; frame < count; frame++) {
    for (let filter = 0; filter < MELS; filter++) {
      const shade = colour(1 - (top - rows[frame * MELS + filter]) / RANGE);
      image.data.set([...shade, 255], 4 * ((MELS - 1 - filter) * count + frame));
    }
  }
  const small = document.createElement("canvas");
  [small.width, small.height] = [count, MELS];
  small.getContext("2d").putImageData(image, 0, 0);
  // A frame's column is about its middle, one hop wide
  const place = (frame) => (((frame * HOP + (FRAME - HOP) / 2) / RATE - from) / (to - from)) * width;
  context.imageSmoothingQuality = "high";
  context.drawImage(small, place(first), 0, place(first + count) - place(first), height);
}
