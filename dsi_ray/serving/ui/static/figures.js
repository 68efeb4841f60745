// The figures below the timeline: what the run took, beside another where there is one.

const FIGURES = [
  ["Tokens per second", (s) => (s.seconds ? fixed(s.completion_tokens / s.seconds, 1) : null)],
  ["Time to first token", (s) => (s.ttft_ms > 0 ? `${fixed(s.ttft_ms, 0)} ms` : null)],
  ["Time per later token", (s) => (s.tpot_ms > 0 ? `${fixed(s.tpot_ms, 1)} ms` : null)],
  ["Drafts accepted", (s) => (s.acceptance_rate === null ? null : `${fixed(100 * s.acceptance_rate, 0)} %`)],
  ["Target forwards", (s) => `${s.target_forwards}`],
  ["Drafter forwards", (s) => `${s.drafter_forwards}`],
  ["Tasks cancelled", (s) => `${s.cancelled_tasks}`],
  ["Messages per token", (s) => (s.completion_tokens ? fixed(s.messages / s.completion_tokens, 1) : null)],
];

function fixed(number, digits) {
  return number.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** How many times as fast as `plain` a run is; null until both are over. */
export function speedup(run, plain) {
  if (![run, plain].every((one) => one?.over && one.trace?.over && one.trace.stats)) return null;
  return plain.trace.stats.seconds / run.trace.stats.seconds;
}

/** Fills `list` with the figures of the first run, and those of the second beside them. */
export function showFigures(list, [run, plain]) {
  const stats = run?.trace?.stats;
  const cards = [];
  const ratio = speedup(run, plain);
  if (ratio !== null) cards.push(card(`${run.name} beside ${plain.name}`, `${fixed(ratio, 2)}×`, "as fast", "speedup"));
  for (const [name, figure] of stats ? FIGURES : []) {
    const other = plain?.trace?.stats && `${plain.name}: ${figure(plain.trace.stats) ?? "–"}`;
    cards.push(card(name, figure(stats) ?? "–", other));
  }
  list.replaceChildren(...cards);
}

function card(name, value, other, className = "") {
  const box = document.createElement("div");
  box.className = className;
  box.append(element("dt", name), element("dd", value, "value"));
  if (other) box.append(element("dd", other, "other"));
  return box;
}

function element(tag, text, className = "") {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}
