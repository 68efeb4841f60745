// The texts of the runs, side by side, as they stream in.

import { counted } from "./trace.js";

/** Returns a view of the runs; call its `update` when there is news. */
export function showTexts(box, runs) {
  const views = runs.map((run) => {
    const article = document.createElement("article");
    const title = document.createElement("h3"), name = document.createElement("span");
    const count = document.createElement("small"), text = document.createElement("pre");
    const prompt = document.createElement("span"), answer = document.createTextNode("");
    article.className = "text";
    name.textContent = run.name;
    prompt.textContent = run.request.prompt;
    text.tabIndex = 0;
    text.setAttribute("aria-label", `Text by ${run.name}`);
    title.append(name, count);
    text.append(prompt, answer);
    article.append(title, text);
    return { run, article, count, text, answer };
  });
  box.replaceChildren(...views.map((view) => view.article));
  return { update: () => views.forEach(update) };
}

function update({ run, count, text, answer }) {
  const stats = run.trace?.stats;
  const tokens = stats ? counted(stats.completion_tokens) : "";
  const finished = run.over && stats?.seconds;
  count.textContent = finished ? `${tokens} in ${stats.seconds.toFixed(2)} s` : tokens;
  if (answer.data === run.text) return;
  const atEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 4;
  answer.data = run.text;
  if (atEnd) text.scrollTop = text.scrollHeight;
}
