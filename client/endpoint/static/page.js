// The page: joins its parts, holds the open conversation, and asks. Everything is told by the endpoint that serves it,
// and conversations stay in this browser.

import { ConversationList } from "./conversation_list.js";
import { Conversations, messagesOf, titleOf } from "./conversations.js";
import { $ } from "./elements.js";
import { Endpoint } from "./endpoint.js";
import { askForKey } from "./key_dialog.js";
import { LinkPanel } from "./link_panel.js";
import { requestFields } from "./settings.js";
import { SettingsDialog } from "./settings_dialog.js";
import { PassingStorage, storageOf } from "./storage.js";
import { TreeView } from "./tree_view.js";
import { Turn } from "./turn.js";

const NEAR_THE_END = 80; // pixels: who is there is kept there
const OPEN = "open conversation"; // in this tab, so that it is open again after a reload

const kept = storageOf(window, "localStorage");
const ofThisTab = storageOf(window, "sessionStorage");
const PASSING = kept instanceof PassingStorage ? "This browser lets the page keep nothing: conversations go when it is closed." : "";

const endpoint = new Endpoint(askForKey, ofThisTab);
const store = new Conversations(kept);
const list = new ConversationList(store, open, begin);
const settings = new SettingsDialog(kept, endpoint);
const tree = new TreeView(false);
const link = new LinkPanel(endpoint);

let id = newId();
let turns = [];
let running = null; // { turn, controller, replaced } of the answer that comes, and the turns that go once it is there

// Conversations

function begin() {
  show(newId(), []);
  $("question").focus();
}

function open(wanted) {
  const conversation = store.find(wanted);
  if (!conversation || wanted === id) return;
  show(wanted, conversation.turns);
  scrollTo(0, document.body.scrollHeight);
  $("question").focus();
}

function show(wanted, records) {
  stop();
  for (const turn of turns) turn.element.remove();
  id = wanted;
  turns = [];
  for (const record of records) add((index) => Turn.restored(record, callbacks(index)));
  tree.begin();
  $("empty").hidden = turns.length > 0;
  $("unkept").textContent = PASSING;
  $("said").textContent = "";
  ofThisTab.setItem(OPEN, id);
  list.draw(id);
}

function keep() {
  const records = turns.map((turn) => turn.record);
  const before = store.find(id) ?? { id };
  const title = before.isNamed ? before.title : titleOf(records[0].question);
  try {
    store.keep({ ...before, title, turns: records });
    $("unkept").textContent = PASSING;
  } catch (error) {
    $("unkept").textContent = error.message;
  }
  list.draw(id);
}

function newId() {
  return Date.now().toString(36) + Math.random().toString(36).slice(2, 10);
}

// Asking

function callbacks(index) {
  return {
    askAgain: (question) => ask(question, index),
    linkChanged: (state) => link.show(state),
  };
}

function add(make) {
  const turn = make(turns.length);
  turns.push(turn);
  $("conversation").append(turn.element);
  return turn;
}

/** Asks behind the first `count` turns; those that follow go once something of the answer is there. */
async function ask(question, count = turns.length) {
  stop();
  const earlier = turns.slice(0, count).map((turn) => turn.record);
  const replaced = turns.splice(count);
  for (const turn of replaced) turn.element.remove();
  const turn = add((index) => new Turn(question, callbacks(index)));
  const ours = (running = { turn, controller: new AbortController(), replaced });
  $("empty").hidden = true;
  $("send").textContent = "Stop";
  tree.begin();
  if (!replaced.length) keep();
  $("question").focus();
  scrollTo(0, document.body.scrollHeight);
  const messages = [...messagesOf(earlier), { role: "user", content: question }];
  let ended = false;
  try {
    const body = { ...requestFields(await settings.settings()), messages };
    for await (const change of endpoint.events("/page/answer", { body, signal: ours.controller.signal })) {
      if (running !== ours) return;
      keepingTheEndInSight(() => turn.take(change));
      tree.take(change);
      ended ||= "end" in change || "error" in change;
      if (replaced.length && (turn.text.whole || (change.end && !change.end.failure))) {
        replaced.length = 0;
        keep();
      }
    }
    if (!ended) turn.fail("The answer broke off.");
  } catch (error) {
    if (running !== ours) return; // it was stopped
    turn.fail(error.message);
  }
  finished(ours);
}

function stop() {
  if (!running) return;
  running.controller.abort();
  running.turn.stop();
  finished(running);
}

function finished({ turn, replaced }) {
  running = null;
  $("send").textContent = "Ask";
  if (replaced.length) {
    putBack(turn, replaced);
    return;
  }
  const words = turn.record.failed ? 0 : turn.answer.trim().split(/\s+/).filter(Boolean).length;
  $("said").textContent = words ? `The answer is there, ${words} ${words === 1 ? "word" : "words"}.` : "";
  keep();
  keepingTheEndInSight(() => {});
}

/** Nothing came of what was asked instead: what was there before is worth more, and still kept. */
function putBack(turn, replaced) {
  turns.pop().element.remove();
  turns.push(...replaced);
  $("conversation").append(...replaced.map((one) => one.element));
  const { failed, note } = turn.record;
  if (failed) $("unkept").textContent = note;
}

function keepingTheEndInSight(change) {
  const page = document.documentElement;
  const below = page.scrollHeight - page.scrollTop - page.clientHeight;
  change();
  if (below < NEAR_THE_END) scrollTo(0, page.scrollHeight);
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
  if (event.key === "Escape" && !event.isComposing && !document.querySelector("dialog[open]")) stop();
});

for (const example of document.querySelectorAll(".example")) {
  example.addEventListener("click", () => {
    if (!running) ask(example.textContent);
  });
}

$("anew").addEventListener("click", () => {
  list.close();
  begin();
});

addEventListener("pagehide", () => running && !running.replaced.length && keep());

const last = store.find(ofThisTab.getItem(OPEN));
show(last ? last.id : id, last?.turns ?? []);
link.watch();
