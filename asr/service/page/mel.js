// Log mel powers, the numbers of audio.mfcc.log_mel with the default MfccSpec: 25 ms frames each 10 ms, 40 filters.

export const RATE = 16000; // Hz
export const FRAME = 400; // samples
export const HOP = 160; // samples
export const MELS = 40;
const FFT = 512;
const LOW = 20; // Hz
const HIGH = 8000; // Hz
const PRE_EMPHASIS = 0.97;
const FLOOR = 1e-6; // of a filter's power

const mel = (hz) => 1127 * Math.log1p(hz / 700);

/** Where a frequency (Hz) lies among the filters: 0 is the middle of the first, MELS - 1 that of the last. */
export function filterAt(hz) {
  return ((mel(hz) - mel(LOW)) / (mel(HIGH) - mel(LOW))) * (MELS + 1) - 1;
}

/** How many frames fit into so many samples; there is always one, padded with zeros if need be. */
export function frameCount(samples) {
  return samples < FRAME ? 1 : 1 + Math.floor((samples - FRAME) / HOP);
}

// Kaldi's "povey" window
const WINDOW = Float64Array.from({ length: FRAME }, (_, n) => (0.5 - 0.5 * Math.cos((2 * Math.PI * n) / (FRAME - 1))) ** 0.85);

// Each filter as its first bin and the weights from there on
const FILTERS = Array.from({ length: MELS }, (_, filter) => {
  const weights = [];
  let first = -1;
  for (let bin = 0; bin < FFT / 2; bin++) {
    const place = filterAt((bin * RATE) / FFT) - filter;
    const weight = 1 - Math.abs(place);
    if (weight <= 0) continue;
    if (first < 0) first = bin;
    weights.push(weight);
  }
  return { first, weights };
});

const TURNS = Array.from({ length: FFT / 2 }, (_, k) => [Math.cos((2 * Math.PI * k) / FFT), -Math.sin((2 * Math.PI * k) / FFT)]);
const REVERSED = Uint16Array.from({ length: FFT }, (_, i) => {
  let reversed = 0;
  for (let bit = 1, place = FFT >> 1; place; bit <<= 1, place >>= 1) if (i & bit) reversed |= place;
  return reversed;
});

/** In place: FFT complex numbers in bit-reversed order to their spectrum. */
function transform(re, im) {
  for (let size = 2; size <= FFT; size <<= 1) {
    const half = size >> 1;
    const step = FFT / size;
    for (let start = 0; start < FFT; start += size) {
      for (let k = 0; k < half; k++) {
        const [cos, sin] = TURNS[k * step];
        const upper = start + k;
        const lower = upper + half;
        const real = re[lower] * cos - im[lower] * sin;
        const imaginary = re[lower] * sin + im[lower] * cos;
        re[lower] = re[upper] - real;
        im[lower] = im[upper] - imaginary;
        re[upper] += real;
        im[upper] += imaginary;
      }
    }
  }
}

/**
 * samples: Float32Array of full scale ±1 at RATE. Returns Float32Array (count * MELS), natural logarithms of power,
 * of the frames from `first` on, one row after the other.
 */
export function logMel(samples, first = 0, count = frameCount(samples.length) - first) {
  const rows = new Float32Array(count * MELS);
  const re = new Float64Array(FFT);
  const im = new Float64Array(FFT);
  const frame = new Float64Array(FRAME);
  for (let row = 0; row < count; row++) {
    const start = (first + row) * HOP;
    let sum = 0;
    for (let n = 0; n < FRAME; n++) {
      frame[n] = samples[start + n] ?? 0;
      sum += frame[n];
    }
    const mean = sum / FRAME;
    re.fill(0);
    im.fill(0);
    for (let n = 0; n < FRAME; n++) {
      const before = n ? frame[n - 1] : frame[n];
      re[REVERSED[n]] = (frame[n] - mean - PRE_EMPHASIS * (before - mean)) * WINDOW[n];
    }
    transform(re, im);
    for (let filter = 0; filter < MELS; filter++) {
      const { first: bin, weights } = FILTERS[filter];
      let power = 0;
      for (let i = 0; i < weights.length; i++) power += weights[i] * (re[bin + i] ** 2 + im[bin + i] ** 2);
      rows[row * MELS + filter] = Math.log(Math.max(power, FLOOR));
    }
  }
  return rows;
}
