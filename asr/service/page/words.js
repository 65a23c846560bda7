// A text's words as buttons that play them, each with its time and how sure it is.

import { el } from "./dom.js";
import { clock, percent, seconds } from "./format.js";

const MANY = 60; // more words than that show their facts only when asked
// How sure a word is, in whole per cent, shows in its line too: whole, broken, or dots
const LEVELS = [
  { least: 85, name: "sure", said: "sure" },
  { least: 60, name: "fair", said: "fairly sure" },
  { least: 0, name: "unsure", said: "unsure" },
];
const levelOf = (confidence) => LEVELS.find(({ least }) => Math.round(100 * confidence) >= least) ?? LEVELS.at(-1);

/** What the three kinds of lines mean, for people. */
export const legend = () =>
  el("p", { class: "legend" }, ...LEVELS.map(({ name, said }) => el("span", {}, el("i", { class: name }), said)));

/** answer: {words, segments}. onPlay(from, to, button), or null where nothing can be played. */
export function wordList(answer, onPlay) {
  const { words, segments = [] } = answer;
  const list = el("div", { class: words.length > MANY ? "words many" : "words" });
  const buttons = words.map((word) => button(word, onPlay));
  if (segments.length < 2) {
    list.append(el("p", {}, ...buttons));
    return { node: list, buttons };
  }
  let next = 0;
  segments.forEach((segment, i) => {
    const until = segments[i + 1]?.start ?? Infinity;
    const first = next;
    while (next < words.length && words[next].start < until) next++;
    const time = el("span", { class: "when" }, clock(segment.start));
    list.append(el("p", { class: "segment" }, time, ...buttons.slice(first, next)));
  });
  return { node: list, buttons };
}

function button({ word, start, end, confidence }, onPlay) {
  const level = levelOf(confidence);
  const said = `${word}, ${seconds(start)} to ${seconds(end)}, ${percent(confidence)}, ${level.said}`;
  const facts = el("span", { class: "facts" }, `${start.toFixed(2)}–${seconds(end)}`, el("b", {}, percent(confidence)));
  const node = el(
    "button", { type: "button", class: `word ${level.name}`, "aria-label": onPlay ? `${said}; plays it` : said, disabled: !onPlay },
    el("span", { class: "said" }, word), facts,
  );
  if (onPlay) node.addEventListener("click", () => onPlay(start, end, node));
  return node;
}
