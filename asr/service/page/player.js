// Plays stretches of sound, one at a time.

let context = null;
let current = null;

/**
 * buffer: AudioBuffer. from, to: seconds. onTime(seconds): on each picture that the screen shows. onEnd(): once, also
 * where it is stopped.
 */
export async function play(buffer, from, to, onTime, onEnd) {
  stop();
  context ??= new AudioContext();
  const source = context.createBufferSource();
  source.buffer = buffer;
  source.connect(context.destination);
  const playing = { source, onEnd, picture: 0 };
  current = playing;
  await context.resume();
  if (current !== playing) return;
  const began = context.currentTime;
  source.onended = () => current === playing && stop();
  source.start(0, from, Math.max(0.03, to - from));
  const tick = () => {
    if (current !== playing) return;
    onTime(Math.min(to, from + context.currentTime - began));
    playing.picture = requestAnimationFrame(tick);
  };
  tick();
}

export function stop() {
  if (!current) return;
  const { source, onEnd, picture } = current;
  current = null;
  cancelAnimationFrame(picture);
  source.onended = null;
  source.disconnect();
  onEnd();
}
