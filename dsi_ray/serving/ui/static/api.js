// The server's public API: completions as a stream, and their traces.

/** Returns the headers of a request; servers with API keys want one. */
function headers(key) {
  return { "content-type": "application/json", ...(key && { authorization: `Bearer ${key}` }) };
}

/** An answer other than success; `status` is HTTP's. */
export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function checked(answer) {
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => null);
  const message = body?.error?.message ?? `The server answered ${answer.status}.`;
  throw new ApiError(message, answer.status);
}

/** Returns the model that is served. */
export async function model(key) {
  const answer = await checked(await fetch("v1/models", { headers: headers(key) }));
  return (await answer.json()).data[0];
}

/** Returns the trace of a request, running or over, without what ended before `since` (microseconds). */
export async function trace(id, key, since = 0) {
  const path = `v1/traces/${encodeURIComponent(id)}?since_us=${since}`;
  return (await checked(await fetch(path, { headers: headers(key) }))).json();
}

/** Yields the chunks of a completion as they come. */
export async function* complete(request, key, signal) {
  const answer = await checked(await fetch("v1/completions", {
    method: "POST", headers: headers(key), signal,
    body: JSON.stringify({ ...request, stream: true }),
  }));
  for await (const data of events(answer.body)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ApiError(chunk.error.message, 500);
    yield chunk;
  }
  throw new ApiError("The stream broke off before its end.", 0);
}

/** Yields the data of server-sent events. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      if (block.startsWith("data: ")) yield block.slice("data: ".length);
    }
  }
}
