// A file as the browser decodes it: to look at, and to play.

import { RATE } from "./mel.js";

const PLAYED_RATE = 48000; // Hz
const LONG = 600; // seconds; at the full rate longer ones would need too much memory

const decodeAt = async (blob, rate) => new OfflineAudioContext(1, 1, rate).decodeAudioData(await blob.arrayBuffer());

/** All channels as one, as the service mixes them. */
function mixed(buffer) {
  const samples = buffer.getChannelData(0).slice();
  for (let channel = 1; channel < buffer.numberOfChannels; channel++) {
    const others = buffer.getChannelData(channel);
    for (let n = 0; n < samples.length; n++) samples[n] += others[n];
  }
  if (buffer.numberOfChannels > 1) for (let n = 0; n < samples.length; n++) samples[n] /= buffer.numberOfChannels;
  return samples;
}

/** duration: seconds. Returns {samples at mel.js's RATE, played: AudioBuffer}, or null where the browser can't. */
export async function decode(blob, duration) {
  try {
    const buffer = await decodeAt(blob, RATE);
    const played = duration > LONG ? buffer : await decodeAt(blob, PLAYED_RATE);
    return { samples: mixed(buffer), played };
  } catch {
    return null;
  }
}
