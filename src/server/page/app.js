// The chat: POST /v1/chat/completions, streamed. Text of models and servers goes in as text only.

const byId = (id) => document.getElementById(id);
const KEY_ITEM = "api_key";  // in sessionStorage: gone with the tab

let conversation = [];   // messages as the next request sends them
let images = [];         // {name, url}: attached to the next message
let openCalls = [];      // {id, result}: calls of the last answer, each with its text area, not answered yet
let running = null;      // AbortController of the answer that streams

export function authorization() {
  const key = byId("api-key").value.trim();
  return key === "" ? {} : { Authorization: `Bearer ${key}` };
}

// What a failed response says, in the server's words.
export async function errorText(response) {
  const text = await response.text();
  try {
    const error = JSON.parse(text).error;
    const field = error.param ? ` (field ${error.param})` : "";
    return `${response.status}: ${error.message}${field}`;
  } catch {
    return `${response.status} ${response.statusText}: ${text.slice(0, 500)}`;
  }
}

function add(parent, tag, className, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  parent.append(element);
  return element;
}

function showStatus(text, isError = false) {
  byId("status").textContent = text;
  byId("status").classList.toggle("error", isError);
}

function setRunning(controller) {
  running = controller;
  byId("send").disabled = controller !== null;
  byId("stop").disabled = controller === null;
  // A screen reader reads the answer when it is there, not letter by letter.
  byId("messages").setAttribute("aria-busy", String(controller !== null));
  for (const button of document.querySelectorAll(".send-results")) button.disabled = controller !== null;
}

// Follows the newest text, unless the person has scrolled up to read.
function keepEndInView(change) {
  const box = byId("messages");
  const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  change();
  if (isAtEnd) box.scrollTop = box.scrollHeight;
}

// --- what a request says ------------------------------------------------------

// undefined: the field is empty. What is no number must not look like an empty field.
function numberOf(id, name) {
  const field = byId(id);
  if (field.validity.badInput) throw new Error(`${name} is no number`);
  return field.value === "" ? undefined : Number(field.value);
}

function requestBody() {
  // JSON leaves undefined fields out.
  const body = {
    model: byId("model").value || undefined,
    messages: conversation,
    stream: true,
    stream_options: { include_usage: true },
    temperature: numberOf("temperature", "Temperature"),
    max_tokens: numberOf("max-tokens", "Max tokens"),
  };
  if (byId("thinking").value !== "") body.thinking = { type: byId("thinking").value };
  if (byId("effort").value !== "" && byId("thinking").value !== "disabled") body.reasoning_effort = byId("effort").value;
  const tools = byId("tools").value.trim();
  if (tools !== "") {
    try {
      body.tools = JSON.parse(tools);
    } catch (error) {
      throw new Error(`the tools are no JSON: ${error.message}`);
    }
  }
  return body;
}

function userMessage(text) {
  if (images.length === 0) return { role: "user", content: text };
  const parts = images.map((image) => ({ type: "image_url", image_url: { url: image.url } }));
  if (text !== "") parts.push({ type: "text", text });
  return { role: "user", content: parts };
}

// --- a streamed answer ----------------------------------------------------------

// The data of each event of a text/event-stream. Comments (keep-alive) have none.
async function* eventsOf(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  while (true) {
    const { done, value } = await reader.read();
    rest += decoder.decode(value, { stream: !done });
    const events = rest.split(/\r?\n\r?\n/);
    rest = events.pop();
    for (const event of events) {
      const data = event.split(/\r?\n/).filter((line) => line.startsWith("data:"));
      if (data.length > 0) yield data.map((line) => line.slice(5).replace(/^ /, "")).join("\n");
    }
    if (done) return;
  }
}

// One answer as it grows: its text and the elements that show it.
class Answer {
  constructor(parent) {
    this.box = add(parent, "div", "message assistant");
    this.reasoning = "";
    this.content = "";
    this.calls = [];
    this.finish = null;
    this.usage = null;
    this.beganAt = performance.now();
  }

  addReasoning(piece) {
    if (!this.reasoningText) {
      const details = add(this.box, "details", "reasoning");
      add(details, "summary", "", "Reasoning");
      this.reasoningText = add(details, "pre", "");
    }
    this.reasoning += piece;
    this.reasoningText.append(piece);
  }

  addContent(piece) {
    this.contentText ??= add(this.box, "div", "answer");
    this.content += piece;
    this.contentText.append(piece);
  }

  addCall(piece) {
    let call = this.calls[piece.index];
    if (!call) {
      call = { id: piece.id, name: "", arguments: "", box: add(this.box, "div", "tool-call") };
      call.title = add(call.box, "strong", "tool-name");
      call.text = add(call.box, "pre", "tool-arguments");
      this.calls[piece.index] = call;
    }
    call.name += piece.function?.name ?? "";
    call.title.textContent = call.name;
    call.arguments += piece.function?.arguments ?? "";
    call.text.textContent = call.arguments;
  }

  take(chunk) {
    if (chunk.error) throw new Error(chunk.error.message);
    this.usage = chunk.usage ?? this.usage;
    const choice = chunk.choices?.[0];
    if (!choice) return;
    this.finish = choice.finish_reason ?? this.finish;
    // `reasoning` may be a second copy of the same text.
    const reasoning = choice.delta.reasoning_content ?? choice.delta.reasoning;
    if (reasoning) this.addReasoning(reasoning);
    if (choice.delta.content) this.addContent(choice.delta.content);
    for (const piece of choice.delta.tool_calls ?? []) this.addCall(piece);
  }

  isEmpty() {
    return this.reasoning === "" && this.content === "" && this.calls.length === 0;
  }

  // As the next request sends it back. Calls that were cut are left out: nobody can answer them.
  message() {
    const message = { role: "assistant", content: this.content };
    if (this.reasoning !== "") message.reasoning_content = this.reasoning;
    if (this.finish === "tool_calls") {
      message.tool_calls = this.calls.map(
        (call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } }));
    }
    return message;
  }

  showEnd() {
    const seconds = ((performance.now() - this.beganAt) / 1000).toFixed(1);
    const parts = [this.finish ? `ended: ${this.finish}` : "stopped"];
    if (this.usage) {
      const cached = this.usage.prompt_tokens_details?.cached_tokens ?? 0;
      parts.push(`${this.usage.prompt_tokens} prompt tokens (${cached} cached)`, `${this.usage.completion_tokens} output tokens`);
    }
    add(this.box, "p", "usage", [...parts, `${seconds} s`].join(" · "));
  }
}

async function readAnswer(answer, body, signal) {
  const response = await fetch("/v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json", ...authorization() },
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok) throw new Error(await errorText(response));
  for await (const data of eventsOf(response)) {
    signal.throwIfAborted();  // events that came together with the last one shown
    if (data === "[DONE]") return;
    keepEndInView(() => answer.take(JSON.parse(data)));
  }
  throw new Error("the connection ended before the answer did");
}

// --- tool calls, answered by hand -------------------------------------------------

function askForResults(answer) {
  openCalls = answer.calls.map((call) => {
    const result = add(call.box, "textarea", "tool-result");
    result.placeholder = "Result of this call";
    result.setAttribute("aria-label", `Result of ${call.name}`);
    return { id: call.id, result };
  });
  const button = add(answer.box, "button", "send-results", openCalls.length === 1 ? "Send result" : "Send results");
  button.type = "button";
  button.addEventListener("click", async () => {
    if (running !== null) return;
    const calls = openCalls;
    const messages = calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: call.result.value }));
    openCalls = [];
    const isSent = await exchange(messages);
    if (!isSent) {
      openCalls = calls;
      return;
    }
    button.remove();
    for (const call of calls) call.result.readOnly = true;
  });
}

// --- sending ------------------------------------------------------------------------

// Sends the conversation with these messages at its end and shows the answer. False: nothing came, and the conversation
// is as it was, so that one bad message does not spoil all later ones.
async function exchange(messages) {
  const length = conversation.length;
  conversation.push(...messages);
  const answer = new Answer(byId("messages"));
  const controller = new AbortController();
  let failure = null;
  setRunning(controller);
  showStatus("");
  try {
    await readAnswer(answer, requestBody(), controller.signal);
  } catch (error) {
    failure = error;
  }
  if (controller !== running) return true;  // a new chat was begun meanwhile
  setRunning(null);
  const isStopped = controller.signal.aborted;
  if (failure && !isStopped) {
    showStatus(failure.message, true);
    add(answer.box, "p", "error", failure.message);
  }
  if (failure && answer.isEmpty()) {
    conversation.length = length;
    if (isStopped) answer.box.remove();
    return false;
  }
  conversation.push(answer.message());
  keepEndInView(() => {
    if (!failure || isStopped) answer.showEnd();
    if (answer.finish === "tool_calls" && answer.calls.length > 0) askForResults(answer);
  });
  return true;
}

async function send() {
  const text = byId("input").value;
  if (running !== null || (text.trim() === "" && images.length === 0)) return;
  if (openCalls.length > 0) {
    showStatus("The model waits for the results of its tool calls: send them first, or begin a new chat.", true);
    return;
  }
  const message = userMessage(text);
  const sentImages = images;
  const box = add(byId("messages"), "div", "message user");
  add(box, "div", "text", text);
  for (const image of sentImages) {
    const picture = add(box, "img", "");
    picture.src = image.url;
    picture.alt = image.name;
  }
  byId("messages").scrollTop = byId("messages").scrollHeight;
  byId("input").value = "";
  images = [];
  showImages();
  if (await exchange([message])) return;
  // Given back for another try.
  box.classList.add("failed");
  if (byId("input").value === "") byId("input").value = text;
  images = [...sentImages, ...images];
  showImages();
}

function beginNewChat() {
  running?.abort();
  setRunning(null);
  conversation = [];
  openCalls = [];
  byId("messages").replaceChildren();
  showStatus("");
}

// --- images, model, key ---------------------------------------------------------------

function showImages() {
  const list = byId("images");
  list.replaceChildren();
  for (const image of images) {
    const item = add(list, "li", "", `${image.name} `);
    const button = add(item, "button", "", "remove");
    button.type = "button";
    button.addEventListener("click", () => {
      images = images.filter((other) => other !== image);
      showImages();
    });
  }
}

function attach(file) {
  const reader = new FileReader();
  reader.addEventListener("load", () => {
    images.push({ name: file.name, url: reader.result });
    showImages();
  });
  reader.addEventListener("error", () => showStatus(`${file.name} cannot be read: ${reader.error.message}`, true));
  reader.readAsDataURL(file);
}

async function askForModels() {
  const list = byId("model");
  const chosen = list.value;
  let models = [];
  try {
    const response = await fetch("/v1/models", { headers: authorization() });
    if (!response.ok) throw new Error(await errorText(response));
    models = (await response.json()).data;
    showStatus("");
  } catch (error) {
    showStatus(`The server's models are not known: ${error.message}`, true);
  }
  list.replaceChildren();
  for (const { id, max_model_len } of models) {
    const option = add(list, "option", "", id);
    option.dataset.context = max_model_len;
    option.selected = id === chosen;
  }
  list.disabled = models.length === 0;
  showContext();
}

function showContext() {
  const option = byId("model").selectedOptions[0];
  byId("context").textContent = option ? `context ${option.dataset.context} tokens` : "no model yet";
}

byId("api-key").value = sessionStorage.getItem(KEY_ITEM) ?? "";
byId("api-key").addEventListener("change", () => {
  sessionStorage.setItem(KEY_ITEM, byId("api-key").value.trim());
  askForModels();
});
byId("model").addEventListener("change", showContext);
byId("thinking").addEventListener("change", () => { byId("effort").disabled = byId("thinking").value === "disabled"; });
byId("attach").addEventListener("change", () => {
  for (const file of byId("attach").files) attach(file);
  byId("attach").value = "";  // the same file may be chosen again
});
byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
byId("input").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
});
byId("stop").addEventListener("click", () => running?.abort());
byId("new-chat").addEventListener("click", beginNewChat);
askForModels();
