// Which command was meant, how surely, and what else it may have been; or why there is none.

import { el } from "./dom.js";
import { percent } from "./format.js";

const LEAST = 0.005; // of an alternative beside a command: less is shown as 0 %

const REASONS = {
  "no-speech": ["Nobody spoke.", "There was sound perhaps, but no speech in it."],
  "unknown-command": ["No command of this set.", "Something was said, but most likely none of its sentences."],
  "too-short": ["Too short.", "None of the set's sentences can be said in so little time."],
};

/** A share as a bar with its number. */
function bar(share) {
  const fill = el("span", { class: "fill" });
  fill.style.width = `${100 * share}%`;
  return el("span", { class: "bar" }, el("span", { class: "track", "aria-hidden": "true" }, fill), el("span", { class: "number" }, percent(share)));
}

function slotList(slots) {
  const names = Object.keys(slots);
  if (!names.length) return null;
  return el("dl", { class: "slots" }, ...names.map((name) => el("div", {}, el("dt", {}, name), el("dd", {}, String(slots[name])))));
}

const meant = ({ intent, slots }) =>
  [intent, ...Object.entries(slots).map(([name, value]) => `${name} ${value}`)].join(", ");

/** In one line, for lists and for those who listen. */
export function commandLine({ command, commands = [], rejected }) {
  return command ? (commands.length ? commands : [command]).map(meant).join("; ") : (REASONS[rejected]?.[0] ?? "No command.");
}

/** answer: of /v1/commands. phrases: the set's name. */
export function commandView(answer, phrases) {
  const { command, commands = [], rejected, confidence, alternatives = [] } = answer;
  const view = el("div", { class: "command" });
  if (command) {
    view.append(
      el("p", { class: "small" }, `Command of “${phrases}”`),
      el("p", { class: "intent" }, command.intent),
      el("div", { class: "sure" }, bar(confidence)),
    );
    const slots = slotList(command.slots);
    if (slots) view.append(slots);
  } else {
    const [what, why] = REASONS[rejected] ?? ["No command.", rejected ?? ""];
    view.append(el("p", { class: "small" }, `Compared with “${phrases}”`), el("p", { class: "intent none" }, what), el("p", {}, why));
  }
  if (commands.length > 1) {
    view.append(
      el("h4", {}, "And after it"),
      el(
        "ul", { class: "others later" },
        ...commands.slice(1).map((said) => el("li", {}, el("span", { class: "sentence" }, said.sentence, el("small", {}, meant(said))), bar(said.confidence))),
      ),
    );
  }
  const others = alternatives.filter((other) => !command || (meant(other) !== meant(command) && other.confidence >= LEAST));
  if (others.length) {
    view.append(
      el("h4", {}, command ? "Or perhaps" : "Nearest"),
      el(
        "ul", { class: "others" },
        ...others.map((other) => el("li", {}, el("span", { class: "sentence" }, other.sentence, el("small", {}, meant(other))), bar(other.confidence))),
      ),
    );
  }
  return view;
}
