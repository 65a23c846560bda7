// The page at work: record or take files, ask the service, show its answers.

import { Service, ServiceFault } from "./api.js";
import { askForKey, say } from "./dialogs.js";
import { byId } from "./dom.js";
import { clock } from "./format.js";
import { Live } from "./live.js";
import { PhraseSets } from "./phrase-sets.js";
import * as player from "./player.js";
import { Recording } from "./recorder.js";
import { Result } from "./results.js";
import { encodeWav } from "./wav.js";

const LIMIT = 30; // seconds of a recording
const WARNED = 5; // seconds before its end
const AT_ONCE = 2; // files on their way to the service

const service = new Service(askForKey);
const phrases = new PhraseSets(service, say);
const live = new Live(byId("live-wave"), byId("level"), byId("level-label"));
const button = byId("record");
const list = byId("results");
let recording = null;
let shown = []; // results, newest first
let state = "idle"; // or "starting", "recording", "stopping"

function become(next) {
  state = next;
  document.body.dataset.state = next;
  byId("live").hidden = next !== "recording" && next !== "stopping";
  button.setAttribute("aria-pressed", String(next === "recording"));
  byId("record-label").textContent = { idle: "Record", starting: "One moment…", recording: "Stop", stopping: "Stop" }[next];
}

async function start() {
  player.stop();
  become("starting");
  say("");
  try {
    recording = await Recording.start(heard, finish);
    become("recording");
    live.reset();
    byId("time").textContent = `0:00 of ${clock(LIMIT)}`;
    say("Recording. Speak now.");
  } catch (error) {
    become("idle");
    say(error.message, "bad");
  }
}

function heard(chunk, seconds) {
  live.add(chunk, recording?.rate ?? 48000);
  byId("time").textContent = `${clock(seconds)} of ${clock(LIMIT)}`;
  byId("time").classList.toggle("ending", seconds > LIMIT - WARNED);
  if (seconds >= LIMIT) finish();
}

/** Ends the recording. keep: and sends it. */
async function finish(keep = true) {
  if (state !== "recording") return;
  become("stopping");
  const { rate } = recording;
  const chunks = await recording.stop();
  recording = null;
  become("idle");
  if (keep === false) {
    say("The recording was thrown away.");
    return;
  }
  const time = new Date().toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  take([new File([encodeWav(chunks, rate)], `Recording ${time}.wav`, { type: "audio/wav" })]);
}

/** set: the phrase set's name, or null. alone: nothing else is asked for with it. */
async function answer(result, set, alone) {
  const { blob, name } = result;
  const waiting = (seconds) => result.working(`Busy; tries again in ${seconds} s…`);
  result.working();
  try {
    if (!blob.size) throw new ServiceFault(`${name} is empty; choose a file with sound in it.`, 0);
    const said = set ? await service.command(blob, name, set, waiting) : await service.transcribe(blob, name, waiting);
    await result.done(said, set);
    if (alone) {
      result.open();
      say(result.summary, "read");
    }
  } catch (error) {
    result.failed(error instanceof ServiceFault ? error.message : `The answer can't be shown (${error.message}).`);
    if (!(error instanceof ServiceFault)) console.error(error);
    if (alone) {
      result.open();
      say("That didn't work; the reason stands below.", "bad");
    }
  }
}

async function take(files) {
  if (!files.length) return;
  byId("none-yet").hidden = true;
  byId("clear").hidden = false;
  const several = files.length > 1;
  if (!several) for (const other of shown) other.open(false);
  const results = files.map((file) => new Result(file, file.name, (result) => result.busy || answer(result, phrases.chosen, true)));
  shown.unshift(...results);
  list.prepend(...results.map(({ node }) => node));
  say(several ? `Listening to ${files.length} files…` : "Listening…");
  const queue = [...results];
  const set = phrases.chosen;
  const work = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) await answer(next, set, !several);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  if (several) {
    const failed = results.filter(({ node }) => node.dataset.state === "failed").length;
    say(`Done: ${files.length} files${failed ? `, of which ${failed} couldn't be transcribed` : ""}. Open one to see more.`, failed ? "bad" : "good");
  }
}

button.addEventListener("click", () => {
  if (state === "idle") start();
  else finish();
});
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select, dialog")) return;
  if (event.key === "Escape") {
    player.stop();
    finish(false);
  } else if ((event.key === " " || event.key === "Enter") && state === "recording" && event.target !== button) {
    event.preventDefault();
    finish();
  }
});

byId("choose").addEventListener("click", () => byId("files").click());
byId("files").addEventListener("change", (event) => {
  take([...event.target.files]);
  event.target.value = ""; // so that the same file can be chosen again
});
byId("clear").addEventListener("click", () => {
  player.stop();
  for (const result of shown) result.close();
  shown = [];
  list.replaceChildren();
  byId("none-yet").hidden = false;
  byId("clear").hidden = true;
  say("");
  button.focus();
});

const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
let inside = 0; // dragenter and dragleave come for each element on the way
const dragged = (change) => {
  inside = change === null ? 0 : Math.max(0, inside + change);
  document.body.classList.toggle("dropping", inside > 0);
};
document.addEventListener("dragenter", (event) => holdsFiles(event) && dragged(1));
document.addEventListener("dragleave", (event) => holdsFiles(event) && dragged(-1));
document.addEventListener("dragover", (event) => holdsFiles(event) && event.preventDefault());
document.addEventListener("drop", (event) => {
  if (!holdsFiles(event)) return;
  event.preventDefault();
  dragged(null);
  take([...event.dataTransfer.files]);
});

become("idle");
const [model, sets] = await Promise.allSettled([service.model(), phrases.load("")]);
byId("model").textContent = model.value ?? "unknown";
const refused = [model, sets].find(({ reason }) => reason);
if (refused) say(refused.reason.message, "bad");
document.body.dataset.ready = "true";
