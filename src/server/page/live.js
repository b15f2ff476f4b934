// What the server does, once a second, from GET /debug/state. Text goes in as text only.
import { authorization, errorText } from "./app.js";

const PERIOD_MS = 1000;
const ANSWER_MS_MAX = 10000;  // a server that hangs is said to, instead of showing old numbers as new ones
const byId = (id) => document.getElementById(id);
let previous = null;  // {engine, at}: what the next tick subtracts

function child(parent, tag, text) {
  const element = document.createElement(tag);
  element.textContent = text;
  parent.append(element);
  return element;
}

function percent(part, whole) {
  return whole > 0 ? `${(100 * part / whole).toFixed(1)} %` : "-";
}

function duration(seconds) {
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(0)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

// A rate needs two states; a counter that fell is another process.
function rate(engine, field, at) {
  if (previous === null || engine[field] < previous.engine[field] || at <= previous.at) return "-";
  return `${((engine[field] - previous.engine[field]) * 1000 / (at - previous.at)).toFixed(1)}`;
}

function showNumbers(state, at) {
  const engine = state.engine;
  const rows = {
    "running": engine.running,
    "waiting": engine.waiting,
    "output tokens/s": rate(engine, "output_tokens", at),
    "prompt tokens/s": rate(engine, "prompt_tokens", at),
    "steps/s": rate(engine, "steps", at),
    "cache blocks in use": `${engine.blocks_used} of ${engine.blocks_total} (${percent(engine.blocks_used, engine.blocks_total)})`,
    "kept for prefixes": engine.blocks_cached,
    // prompt_tokens counts what was computed, cached_tokens what did not need to be.
    "prefix hit rate": percent(engine.cached_tokens, engine.cached_tokens + engine.prompt_tokens),
    "drafts accepted": percent(engine.accepted_tokens, engine.drafted_tokens),
    "preemptions": engine.preemptions,
    "connections": state.connections,
    "up": duration(state.uptime_s),
  };
  const list = byId("live-numbers");
  list.replaceChildren();
  for (const [name, value] of Object.entries(rows)) {
    child(list, "dt", name);
    child(list, "dd", String(value));
  }
}

function showAcceptance(engine) {
  const verified = engine.verified_by_position;
  const positions = byId("live-positions");
  positions.replaceChildren();
  byId("live-acceptance").hidden = verified.length === 0;
  verified.forEach((count, index) => {
    const row = child(positions, "li", "");
    const bar = child(row, "meter", "");
    bar.setAttribute("aria-label", `accepted at position ${index + 1}`);
    bar.value = count > 0 ? engine.accepted_by_position[index] / count : 0;
    row.append(percent(engine.accepted_by_position[index], count));
  });
}

function showRequests(requests) {
  const body = byId("live-requests");
  body.replaceChildren();
  byId("live-running").hidden = requests.length === 0;
  for (const request of requests) {
    const row = child(body, "tr", "");
    const cells = [request.id, request.phase, duration(request.age_ms / 1000), request.prompt_tokens, request.cached_tokens,
                   request.choices, request.key];
    for (const cell of cells) child(row, "td", String(cell));
  }
}

function showNote(text, isError) {
  const note = byId("live-note");
  // Text that is set again is read aloud again.
  if (note.textContent !== text) note.textContent = text;
  note.classList.toggle("error", isError);
}

function clear() {
  previous = null;
  byId("live-numbers").replaceChildren();
  byId("live-acceptance").hidden = true;
  byId("live-running").hidden = true;
}

async function tick() {
  const response = await fetch("/debug/state", {
    headers: authorization(),
    cache: "no-store",
    signal: AbortSignal.timeout(ANSWER_MS_MAX),
  });
  if (!response.ok) {
    clear();
    const said = await errorText(response);
    if (response.status === 401) showNote(`The live view needs an API key that is marked admin: ${said}`, true);
    else if (response.status === 403) showNote(`The live view is for admin keys (without keys: for this machine alone): ${said}`, true);
    else showNote(`The live view got an error: ${said}`, true);
    return;
  }
  const state = await response.json();
  const at = performance.now();
  showNote("", false);
  showNumbers(state, at);
  showAcceptance(state.engine);
  showRequests(state.requests);
  previous = { engine: state.engine, at };
}

async function watch() {
  try {
    if (!document.hidden) await tick();
  } catch (error) {
    clear();
    showNote(`The server does not answer: ${error.message}`, true);
  }
  setTimeout(watch, PERIOD_MS);
}

watch();
