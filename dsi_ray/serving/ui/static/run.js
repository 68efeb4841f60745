// A run: one completion, its text so far and its trace so far.

import * as api from "./api.js";
import { readTrace } from "./trace.js";

const POLL_MS = 150;
const MOST_LAST_LOOKS = 20;

const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));

export const NAMES = { "dsi": "DSI", "si": "SI", "non-si": "non-SI" };

export class Run {
  /** `request` is the body of a completion; `changed(what)` is called for new "text" or "trace". */
  constructor(request, algorithm, changed) {
    this.request = request;
    this.algorithm = algorithm;
    this.text = "";
    this.id = null;
    this.trace = null;
    this.over = false;
    this.changed = changed;
  }

  get name() {
    return NAMES[this.algorithm];
  }

  /** The trace as the server sent it, for a file. */
  file(key) {
    return api.trace(this.id, key);
  }

  /** Runs to the end; rejects where the server refuses or fails, or `signal` aborts. */
  async go(key, signal) {
    const body = { ...this.request, dsi: { algorithm: this.algorithm } };
    let following = Promise.resolve();
    try {
      for await (const chunk of api.complete(body, key, signal)) {
        if (this.id === null) {
          this.id = chunk.id;
          following = this.#follow(key);
        }
        this.text += chunk.choices[0]?.text ?? "";
        this.changed("text");
      }
    } finally {
      this.over = true;
      await following;
      if (this.id !== null) await this.#lookLast(key);
    }
  }

  /** Looks at the trace again and again, the less often the longer it takes. */
  async #follow(key) {
    while (!this.over) {
      const asked = performance.now();
      await this.#look(key);
      await pause(Math.max(POLL_MS, 4 * (performance.now() - asked)));
    }
  }

  /** Looks until the trace is over: after a stop the server hears of it a little later. */
  async #lookLast(key) {
    for (let looks = 0; looks < MOST_LAST_LOOKS; looks += 1) {
      await this.#look(key);
      if (this.trace?.over) return;
      await pause(POLL_MS);
    }
  }

  async #look(key) {
    try {
      this.trace = readTrace(await api.trace(this.id, key, this.trace?.settledUs), this.trace);
    } catch {
      // The text matters more than its timeline; the next look may succeed.
      return;
    }
    this.changed("trace");
  }
}
