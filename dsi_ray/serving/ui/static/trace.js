// What the page draws, from a trace in the Trace Event Format. Times in milliseconds.

/**
 * Returns `{lanes, commits, ms, settledUs, over, stats}`; a lane is `{name, spans}`, by time.
 *
 * A file that was asked for since `before.settledUs` goes on where `before` ends.
 */
export function readTrace(file, before = null) {
  const request = file.otherData.requests[0];
  const events = file.traceEvents.filter((event) => event.pid === request.pid);
  const settled = before ? before.settledUs / 1e3 : 0;
  const lanes = new Map();
  for (const event of events) {
    if (event.name !== "thread_name") continue;
    const { name } = event.args;
    const known = before?.lanes.find((lane) => lane.name === name)?.spans ?? [];
    lanes.set(event.tid, { name, spans: known.filter(({ end }) => end < settled) });
  }
  for (const event of events) {
    if (event.ph === "X") lanes.get(event.tid).spans.push(span(event, request.prompt_tokens));
  }
  for (const lane of lanes.values()) lane.spans.sort((a, b) => a.begin - b.begin);
  return {
    lanes: [...lanes.values()].filter((lane) => lane.name !== "commits"),
    commits: [
      ...(before?.commits.filter(({ time }) => time < settled) ?? []),
      ...events.filter((event) => event.ph === "i").map(commit),
    ],
    ms: request.ms,
    settledUs: request.settled_us,
    over: request.over,
    stats: request.stats,
  };
}

function span(event, promptTokens) {
  const { outcome, start, tokens, drafts, accepted, forwards } = event.args;
  return {
    kind: event.cat, outcome, tokens, drafts, accepted, forwards,
    begin: event.ts / 1e3,
    end: (event.ts + event.dur) / 1e3,
    // People count the tokens of the answer, from 1.
    first: start - promptTokens + 1,
  };
}

function commit(event) {
  return { time: event.ts / 1e3, total: event.args.total };
}

/** Whether a verification found a wrong draft on the path that came true. */
export function isRejection(span) {
  return span.kind === "verification" && span.outcome === "rejected";
}

/** The tokens of a span: `12` or `12–16`. */
export function range(span) {
  const last = span.first + Math.max(1, span.tokens) - 1;
  return last === span.first ? `${span.first}` : `${span.first}–${last}`;
}

/** A span in words. */
export function describe(lane, span) {
  const what = span.kind === "prefill" ? "prefill of the prompt" : `${span.kind}, token ${range(span)}`;
  const plural = span.tokens > 1 ? what.replace("token ", "tokens ") : what;
  const ms = (span.end - span.begin).toFixed(1);
  return `${lane}: ${plural}, ${fate(span)}; ${ms} ms from ${span.begin.toFixed(1)} ms on`;
}

function fate(span) {
  const { outcome, drafts, accepted } = span;
  if (outcome === "pending") return "not yet judged";
  if (outcome === "unused") return "of no use: its path did not come true";
  const counted = drafts && (outcome === "accepted" || outcome === "rejected");
  return counted ? `${accepted} of ${drafts} drafts accepted` : outcome;
}

/** `1 token`, `2 tokens`. */
export function counted(tokens) {
  return `${tokens} token${tokens === 1 ? "" : "s"}`;
}
