// The page: asks, shows answers as they come, and how the link is. Everything is told by the endpoint that serves it.

import { AnswerText } from "./text.js";

const RETRY_MS = 1500;
const NEAR_THE_END = 80; // pixels: who is there is kept there

const PLIGHTS = {
  suspect: "The link is silent. The draft model writes on.",
  offline: "No link. The draft model writes on alone; the target will verify it when the link is back.",
  resuming: "The link is coming back.",
  private: "Private: the draft model answers on this machine alone.",
};

const $ = (id) => document.getElementById(id);

let messages = [];
let running = null; // the AbortController of the answer that comes
let key = sessionStorage.getItem("key") ?? "";
let unlocking = null;

// Asking the endpoint

async function request(path, { body, signal } = {}) {
  for (;;) {
    const headers = {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (key) headers.Authorization = `Bearer ${key}`;
    const method = body === undefined ? "GET" : "POST";
    const response = await fetch(path, { method, headers, body: JSON.stringify(body), signal, cache: "no-store" });
    if (response.ok) return response;
    if (response.status !== 401) throw new Error(await faultOf(response));
    await (unlocking ??= unlock());
  }
}

async function faultOf(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `the endpoint answered ${response.status}`;
  }
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const whole = (rest + value).split("\n\n");
    rest = whole.pop();
    for (const event of whole) yield JSON.parse(event.slice("data: ".length));
  }
}

/** Asks for the API key, once for all requests that miss it. */
function unlock() {
  if (key) $("lock-why").textContent = "That was not this endpoint's API key.";
  return new Promise((resolve) => {
    $("lock").showModal();
    $("unlock").onsubmit = (event) => {
      event.preventDefault();
      key = $("key").value.trim();
      sessionStorage.setItem("key", key);
      $("key").value = "";
      $("lock").close();
      unlocking = null;
      resolve();
    };
  });
}

// One question and its answer

class Turn {
  #article = element("article");
  #text = element("div", "text");
  #plight = element("p", "plight");
  #about = element("p", "about");
  #alone = false; // whether some of the text was written without the link, and is not judged yet
  #aloneUpTo = 0; // where that text ended when the link came back
  #corrections = 0; // before that
  #lost = false; // whether the link was ever gone meanwhile
  #private = false;

  constructor(question) {
    const heading = element("h2");
    heading.textContent = question;
    this.#tell();
    this.#article.setAttribute("aria-busy", "true");
    this.#article.append(heading, this.#text, this.#plight, this.#about);
    $("conversation").append(this.#article);
    this.text = new AnswerText(this.#text);
  }

  take(change) {
    if (change.private) {
      this.#private = this.#alone = true;
      this.#tell(PLIGHTS.private);
    }
    if (change.link) this.#linkIs(change.link);
    if (change.final !== undefined || change.provisional !== undefined) {
      this.text.update(change.final ?? "", change.provisional ?? "");
      this.#checkJudged();
    }
    if (change.error) this.fail(change.error.message);
    if (change.end) this.#end(change.end);
  }

  /** The person has had enough. What is provisional goes, unless it was written alone and is all that there is. */
  stop() {
    if (!this.#alone) this.text.drop();
    this.#conclude(this.text.provisional ? "Stopped; what is underlined was never confirmed." : "Stopped.");
  }

  fail(message) {
    this.#conclude(message);
    this.#about.classList.add("fault");
  }

  #linkIs(link) {
    showLink(link);
    if (this.#private) return;
    this.#lost ||= link === "offline";
    this.#tell(PLIGHTS[link]);
    if (link === "online") this.#aloneUpTo = this.text.whole.length;
    else if (!this.#alone) {
      this.#alone = this.text.keeps = true;
      this.#corrections = this.text.corrections.length;
    }
  }

  #tell(plight) {
    this.#plight.textContent = plight ?? "";
    this.#plight.hidden = !plight;
  }

  #checkJudged() {
    if (!this.#alone || !this.#plight.hidden) return;
    const { corrections, confirmed } = this.text;
    const isJudged = corrections.length > this.#corrections || confirmed.length >= this.#aloneUpTo;
    if (isJudged) this.text.keeps = this.#alone = false;
  }

  #end(end) {
    const { stats } = end;
    const said = [];
    if (end.failure) said.push(end.failure);
    if (end.note) said.push(end.note);
    if (end.private) {
      said.push("Private: written by the draft model on this machine; nothing from the private text on was sent");
    } else {
      said.push(`${stats.tokens} tokens in ${stats.seconds.toFixed(1)} s`);
      said.push(`${stats.accept_length.toFixed(1)} tokens a pass`);
      said.push(`${amount(stats.bytes_up)} sent, ${amount(stats.bytes_down)} received`);
      if (end.unconfirmed) said.push(`${end.unconfirmed} tokens were never confirmed`);
      else if (this.#lost) said.push("the link was lost meanwhile: the text is the target's own all the same");
    }
    if (end.lossy) said.push("lossy: not the target's own");
    if (end.seed !== null) said.push(`seed ${end.seed}`);
    if (end.reason === "length") said.push("cut at the longest length");
    this.#conclude(said.join(" · "));
    if (end.failure) this.#about.classList.add("fault");
    if (this.text.corrections.length) this.#offerCorrections();
  }

  #conclude(said) {
    this.#tell();
    this.#about.textContent = said;
    this.#article.setAttribute("aria-busy", "false");
  }

  #offerCorrections() {
    const button = element("button", "quiet");
    button.type = "button";
    let shown = false;
    const name = () => (button.textContent = shown ? "hide what was taken back" : "show what was taken back");
    button.addEventListener("click", () => {
      shown = !shown;
      this.text.show(shown);
      name();
    });
    name();
    this.#about.append(" · ", button);
  }
}

async function ask(question) {
  const turn = new Turn(question);
  const asked = [...messages, { role: "user", content: question }];
  const ours = (running = new AbortController());
  $("empty").hidden = true;
  $("anew").hidden = false;
  $("send").textContent = "Stop";
  scrollTo(0, document.body.scrollHeight);
  let ended = false;
  try {
    const response = await request("/page/answer", { body: { model: "outrider", messages: asked }, signal: ours.signal });
    for await (const change of events(response)) {
      keepingTheEndInSight(() => turn.take(change));
      ended ||= "end" in change || "error" in change;
    }
    if (!ended) turn.fail("The answer broke off.");
  } catch (error) {
    if (ours.signal.aborted) turn.stop();
    else turn.fail(error instanceof TypeError ? "outrider cannot be reached any more" : error.message);
  }
  if (running !== ours) return; // a new conversation has begun
  running = null;
  $("send").textContent = "Ask";
  if (turn.text.whole) messages = [...asked, { role: "assistant", content: turn.text.whole }];
  else if (!$("question").value) writeQuestion(question);
  $("said").textContent = turn.text.whole;
  keepingTheEndInSight(() => {});
}

function stop() {
  running?.abort();
}

// What a person does

function writeQuestion(text) {
  const box = $("question");
  box.value = text;
  box.style.height = "auto";
  box.style.height = `${box.scrollHeight}px`;
}

function submit() {
  const question = $("question").value.trim();
  if (running || !question) return;
  writeQuestion("");
  ask(question);
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (running) stop();
  else submit();
  $("question").focus();
});

$("question").addEventListener("input", () => writeQuestion($("question").value));

$("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    submit();
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !event.isComposing && !$("lock").open) stop();
});

for (const example of document.querySelectorAll(".example")) {
  example.addEventListener("click", () => {
    $("question").focus();
    if (!running) ask(example.textContent);
  });
}

$("lock").addEventListener("cancel", (event) => event.preventDefault()); // nothing works without the key

$("anew").addEventListener("click", () => {
  stop();
  running = null;
  messages = [];
  for (const article of document.querySelectorAll("article")) article.remove();
  $("empty").hidden = false;
  $("anew").hidden = true;
  $("send").textContent = "Ask";
  $("question").focus();
});

$("cut").addEventListener("click", async () => {
  const cut = $("cut").dataset.cut !== "true";
  showCut(cut);
  try {
    await request("/page/link", { body: { cut } });
  } catch {
    showCut(!cut);
  }
});

// How the link is

async function watchLink() {
  for (;;) {
    try {
      const watching = new AbortController();
      document.onvisibilitychange = () => document.hidden && watching.abort();
      const response = await request("/page/status", { signal: watching.signal });
      for await (const status of events(response)) showStatus(status);
    } catch {
      // It is asked again below.
    }
    if (!document.hidden) {
      showLink("unknown", "not running");
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
    while (document.hidden) {
      await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
    }
  }
}

function showStatus(status) {
  showLink(status.link);
  $("draft").textContent = `draft ${status.draft}`;
  $("server").textContent = status.server;
  $("target").textContent = `target ${status.model}`;
  $("trip").textContent = status.rtt_ms === null ? "–" : `${Math.round(status.rtt_ms)} ms`;
  $("speed").textContent = status.tokens_per_second === null ? "–" : status.tokens_per_second.toFixed(1);
  $("up").textContent = amount(status.bytes_up);
  $("down").textContent = amount(status.bytes_down);
  const hasSwitch = status.is_cut !== null;
  $("cut").hidden = $("invitation").hidden = !hasSwitch;
  if (hasSwitch) showCut(status.is_cut);
}

function showLink(link, words = link) {
  $("link").dataset.link = link;
  $("state").textContent = words;
}

function showCut(cut) {
  $("cut").dataset.cut = cut;
  $("cut").textContent = cut ? "Restore the link" : "Cut the link";
}

// Small things

function element(name, kind = "") {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  return made;
}

function amount(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

function keepingTheEndInSight(change) {
  const page = document.documentElement;
  const below = page.scrollHeight - page.scrollTop - page.clientHeight;
  change();
  if (below < NEAR_THE_END) scrollTo(0, page.scrollHeight);
}

watchLink();
