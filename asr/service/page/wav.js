// Recorded samples as a WAV file: 16 bits, mono.

/** chunks: Float32Arrays of full scale ±1, one after the other. rate: Hz. Returns a Blob. */
export function encodeWav(chunks, rate) {
  const samples = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  const view = new DataView(new ArrayBuffer(44 + 2 * samples));
  const name = (offset, text) => [...text].forEach((letter, i) => view.setUint8(offset + i, letter.charCodeAt(0)));
  name(0, "RIFF");
  view.setUint32(4, 36 + 2 * samples, true);
  name(8, "WAVEfmt ");
  view.setUint32(16, 16, true); // bytes of the format that follows
  view.setUint16(20, 1, true); // PCM
  view.setUint16(22, 1, true); // channels
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true); // bytes per second
  view.setUint16(32, 2, true); // bytes per sample
  view.setUint16(34, 16, true); // bits per sample
  name(36, "data");
  view.setUint32(40, 2 * samples, true);
  let offset = 44;
  for (const chunk of chunks) {
    for (const sample of chunk) {
      view.setInt16(offset, Math.max(-32768, Math.min(32767, Math.round(sample * 32768))), true);
      offset += 2;
    }
  }
  return new Blob([view], { type: "audio/wav" });
}
