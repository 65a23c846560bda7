// What is asked of the service, and its faults as errors in words.

const KEY = "cepstra.key";
const TRIES = 4; // while it is busy
const LONGEST_WAIT = 15; // seconds between tries

export class ServiceFault extends Error {
  constructor(message, status, code = null) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

/** What a refusal says; the service says it as JSON, whatever stands before it may not. */
async function fault(response) {
  let said = null;
  try {
    said = (await response.json()).error;
  } catch {
    // not JSON
  }
  const otherwise = { 413: "The service takes no file as large as this.", 503: "The service is busy." };
  const message = said?.message || otherwise[response.status] || `The service answered ${response.status}.`;
  return new ServiceFault(message, response.status, said?.code ?? null);
}

export class Service {
  #askForKey;
  #asking = null;
  #model = null;

  /** askForKey(message): resolves to a key, or to null where the person has none. */
  constructor(askForKey) {
    this.#askForKey = askForKey;
  }

  /** The first model's name. */
  async model() {
    this.#model ??= (await this.#json("/v1/models")).data[0]?.id ?? "";
    return this.#model;
  }

  /** What is said in a file, as `verbose_json`. waiting(seconds): told before each pause while it is busy. */
  async transcribe(file, name, waiting) {
    const form = new FormData();
    form.append("file", file, name);
    form.append("model", await this.model());
    form.append("response_format", "verbose_json");
    form.append("timestamp_granularities[]", "word");
    form.append("timestamp_granularities[]", "segment");
    return this.#json("/v1/audio/transcriptions", { method: "POST", body: form }, waiting);
  }

  /** Which command of a phrase set is meant. */
  async command(file, name, phrases, waiting) {
    const form = new FormData();
    form.append("file", file, name);
    form.append("phrases", phrases);
    return this.#json("/v1/commands", { method: "POST", body: form }, waiting);
  }

  async phraseSets() {
    return (await this.#json("/v1/phrases")).phrases;
  }

  phraseSet(name) {
    return this.#json(`/v1/phrases/${encodeURIComponent(name)}`);
  }

  savePhrases(name, text) {
    const headers = { "Content-Type": "text/plain; charset=utf-8" };
    return this.#json(`/v1/phrases/${encodeURIComponent(name)}`, { method: "PUT", body: text, headers });
  }

  async deletePhrases(name) {
    await this.#ask(`/v1/phrases/${encodeURIComponent(name)}`, { method: "DELETE" });
  }

  openapi() {
    return this.#json("/openapi.json");
  }

  async #json(path, options, waiting) {
    const response = await this.#ask(path, options, waiting);
    try {
      return await response.json();
    } catch {
      throw new ServiceFault("What answers here isn't Cepstra's service; look at the address.", response.status);
    }
  }

  async #ask(path, options = {}, waiting = () => {}) {
    for (let tries = 1; ; tries++) {
      const key = sessionStorage.getItem(KEY);
      const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
      let response;
      try {
        response = await fetch(path, { ...options, headers });
      } catch {
        throw new ServiceFault("The service can't be reached; look whether `cepstra serve` still runs.", 0);
      }
      if (response.ok) return response;
      const error = await fault(response);
      if (response.status === 401) {
        await this.#obtainKey(key, error);
        tries = 0;
      } else if (response.status === 503 && tries < TRIES) {
        const seconds = Math.min(LONGEST_WAIT, Number(response.headers.get("Retry-After")) || 1);
        waiting(seconds);
        await pause(seconds);
      } else {
        throw error;
      }
    }
  }

  /** Asks once for all requests that wait for it. used: the key that was refused. */
  async #obtainKey(used, error) {
    if (sessionStorage.getItem(KEY) !== used) return; // another request has got one meanwhile
    this.#asking ??= this.#askForKey(used ? error.message : null).finally(() => {
      this.#asking = null;
    });
    const key = await this.#asking;
    if (!key) throw error;
    sessionStorage.setItem(KEY, key);
  }
}
