// Numbers as people read them.

const POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const grouped = new Intl.NumberFormat("en-GB");

export const percent = (share) => `${Math.round(100 * share)} %`;
export const seconds = (value) => `${value.toFixed(2)} s`;

/** 75.2 -> "1:15", for clocks. */
export function clock(value) {
  const whole = Math.floor(value);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** How long a recording is: "2.4 s", or "3:05". */
export const lasting = (value) => (value < 60 ? `${value.toFixed(1)} s` : `${clock(value)} min`);

/** A count, of any size: a number, or a string of digits. 2489 -> "2,489"; 458000000000 -> "4.58 × 10¹¹". */
export function count(value) {
  let mantissa;
  let power;
  if (typeof value === "string" && /^\d+$/.test(value)) {
    const digits = value.replace(/^0+(?=\d)/, "");
    power = digits.length - 1;
    mantissa = Number(`${digits[0]}.${digits.slice(1, 6) || "0"}`);
    if (power < 7) return grouped.format(Number(digits));
  } else {
    const number = Number(value);
    if (number < 1e7) return grouped.format(number);
    if (!Number.isFinite(number)) return Number.isNaN(number) ? String(value) : "more than 10³⁰⁸";
    power = Math.floor(Math.log10(number));
    mantissa = number / 10 ** power;
  }
  let shown = mantissa.toFixed(2);
  if (shown === "10.00") [shown, power] = ["1.00", power + 1];
  return `${shown.replace(/\.?0+$/, "")} × 10${[...String(power)].map((digit) => POWERS[digit]).join("")}`;
}

/** "1 sentence", "2,489 sentences". */
export const counted = (value, noun) => `${count(value)} ${noun}${String(value) === "1" ? "" : "s"}`;
