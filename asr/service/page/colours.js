// The spectrogram's colours: lightness rises in equal steps as eyes see them (Oklab), from night blue over sea green
// to pale yellow, so that twice as far apart looks twice as different, in grey and to the colour-blind too.

const STEPS = 256;

/** Oklab (Ottosson 2020) to bytes of sRGB. */
function bytes(lightness, a, b) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((linear) => {
    const clipped = Math.max(0, Math.min(1, linear));
    return Math.round(255 * (clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * clipped ** (1 / 2.4) - 0.055));
  });
}

/** STEPS colours, [red, green, blue] each 0 to 255, darkest first. */
export const COLOURS = Array.from({ length: STEPS }, (_, i) => {
  const t = i / (STEPS - 1);
  const hue = ((275 - 170 * t) * Math.PI) / 180;
  const chroma = 0.035 + 0.085 * Math.sin(Math.PI * t) ** 0.8;
  return bytes(0.17 + 0.79 * t, chroma * Math.cos(hue), chroma * Math.sin(hue));
});

/** t: 0 to 1; beyond these the ends. */
export function colour(t) {
  return COLOURS[Math.max(0, Math.min(STEPS - 1, Math.round(t * (STEPS - 1))))];
}
