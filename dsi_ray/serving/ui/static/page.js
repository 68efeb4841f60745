// The page: a form, and what its last request did.

import * as api from "./api.js";
import { showFigures, speedup } from "./figures.js";
import { Run } from "./run.js";
import { showTexts } from "./texts.js";
import { Timeline } from "./timeline.js";

const PLAIN = "non-si";
const NO_BREAK_HYPHEN = "\u2011";
const at = (id) => document.getElementById(id);

const timeline = new Timeline(
  { viewport: at("viewport"), spacer: at("spacer"), names: at("names"), canvas: at("canvas") },
  (words) => { at("detail").textContent = words; },
);
let model = null;
let runs = [];
let texts = { update() {} };
let stopper = null;
let notice = "";

at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  perform(() => generate());
});
at("compare").addEventListener("click", () => at("form").reportValidity() && perform(() => compare()));
at("stop").addEventListener("click", () => stopper?.abort());
at("form").addEventListener("input", allow);
at("zoom-in").addEventListener("click", () => timeline.zoomBy(1.6));
at("zoom-out").addEventListener("click", () => timeline.zoomBy(1 / 1.6));
at("zoom-fit").addEventListener("click", () => timeline.fit());
at("download").addEventListener("click", () => perform(() => download()));
at("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) at("form").requestSubmit();
});
// Nobody need wait for it: each request asks for the model where it is not known yet.
findModel().catch(report);
allow();

/** Does one thing at a time, and shows what goes wrong. */
async function perform(action) {
  if (stopper !== null) return;
  stopper = new AbortController();
  at("error").hidden = true;
  notice = "";
  allow();
  try {
    await action();
  } catch (error) {
    report(error);
  }
  stopper = null;
  allow();
  update();
}

function report(error) {
  if (error.name === "AbortError") {
    notice = "Stopped.";
    return;
  }
  if (error.status === 401) at("key-field").hidden = false;
  at("error").textContent = error.message;
  at("error").hidden = false;
}

/** Lets the buttons do what makes sense now. */
function allow() {
  const busy = stopper !== null;
  at("generate").hidden = at("generate").disabled = busy;
  at("compare").disabled = busy || algorithm() === PLAIN;
  at("stop").hidden = !busy;
  at("download").disabled = busy || !runs[0]?.id;
  at("texts").setAttribute("aria-busy", busy);
}

function algorithm() {
  return new FormData(at("form")).get("algorithm");
}

async function findModel() {
  model ??= (await api.model(at("key").value)).id;
  at("model").textContent = model;
}

/** The body of a completion, as the form has it. */
function request() {
  const temperature = at("temperature").valueAsNumber;
  // With one seed all algorithms give one text.
  const seed = temperature > 0 ? { seed: Math.floor(Math.random() * 2 ** 31) } : {};
  const max_tokens = at("max-tokens").valueAsNumber;
  return { model, prompt: at("prompt").value, max_tokens, temperature, ...seed };
}

async function generate() {
  await findModel();
  await start(new Run(request(), algorithm(), update), []);
}

/** Runs the target alone beside the last run, which is made where there is none of this form. */
async function compare() {
  const [last] = runs;
  const wanted = { ...request(), seed: last?.request.seed };
  const same = last?.trace?.over && last.algorithm === algorithm()
    && JSON.stringify({ ...last.request }) === JSON.stringify(wanted);
  if (!same) await generate();
  const [first] = runs;
  await start(new Run(first.request, PLAIN, update), [first]);
}

async function start(run, before) {
  runs = [...before, run];
  texts = showTexts(at("texts"), runs);
  timeline.set(runs);
  update();
  at("texts").scrollIntoView({ block: "nearest" });
  await run.go(at("key").value, stopper.signal);
}

/** Shows the news of all runs; new text is cheap to show, and comes often. */
function update(what = "trace") {
  texts.update();
  if (what === "text") return;
  const [run, plain] = runs;
  const drawn = runs.some(({ trace }) => trace);
  at("chart").hidden = at("keys").hidden = !drawn;
  at("empty").hidden = drawn;
  timeline.draw();
  showFigures(at("figures"), runs);
  at("status").textContent = notice || (run ? summary(run, plain) : "");
}

function summary(run, plain) {
  const last = plain ?? run;
  if (!last.over) return `${last.name} is running …`;
  const ratio = speedup(run, plain);
  if (ratio === null) return "";
  const same = run.text === plain.text ? "The same text" : "A different text";
  return `${same}, ${ratio.toFixed(2)}× as fast as ${plain.name.replace("-", NO_BREAK_HYPHEN)}.`;
}

/** Saves the trace of the runs shown, a process each. */
async function download() {
  const files = await Promise.all(runs.map((run) => run.file(at("key").value)));
  const shifted = files.flatMap((file, index) => file.traceEvents.map(
    (event) => ({ ...event, pid: event.pid + 1000 * index }),
  ));
  const whole = { ...files[0], traceEvents: shifted };
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(whole)], { type: "application/json" }));
  link.download = `${runs[0].id}.json`;
  link.click();
  URL.revokeObjectURL(link.href);
}
