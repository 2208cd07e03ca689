// Conversations and settings in a browser's storage, and rows of the draft tree.

import assert from "node:assert/strict";
import test from "node:test";

import { Conversations, messagesOf, titleOf } from "../conversations.js";
import { CommitLog, rowsOf } from "../draft_tree.js";
import { faultsOf, offered, requestFields, SettingsStore, UNSET } from "../settings.js";
import { PassingStorage } from "../storage.js";

class FakeStorage extends PassingStorage {
  room = Infinity;

  setItem(key, value) {
    if (value.length > this.room) throw new DOMException("full", "QuotaExceededError");
    super.setItem(key, value);
  }
}

const turn = (question, confirmed = "yes", provisional = "") => ({ question, confirmed, provisional, note: "", failed: false });
const conversation = (id, ...turns) => ({ id, title: titleOf(turns[0].question), turns });

function stored() {
  let now = 0;
  const storage = new FakeStorage();
  return [new Conversations(storage, () => (now += 1)), storage];
}

test("conversations come back as they were, the last changed one first", () => {
  const [store, storage] = stored();
  store.keep(conversation("a", turn("one?")));
  store.keep(conversation("b", turn("two?")));
  store.keep(conversation("a", turn("one?"), turn("and?", "", "maybe")));
  storage.setItem("key", "secret");
  assert.deepEqual(store.all().map(({ id }) => id), ["a", "b"]);
  assert.deepEqual(store.find("a").turns[1], turn("and?", "", "maybe"));
  assert.equal(store.find("c"), null);
});

test("what is no conversation is left out", () => {
  const [store, storage] = stored();
  for (const [index, broken] of ["", "{", "null", "[]", '{"title":"x","changed":1,"turns":[]}', '{"turns":[{}]}'].entries()) {
    storage.setItem(`conversation ${index}`, broken);
  }
  assert.deepEqual(store.all(), []);
});

test("one that is renamed keeps its name, and gets its first question back for an empty one", () => {
  const [store] = stored();
  store.keep(conversation("a", turn("one?")));
  store.rename("a", "  my \n name ");
  assert.equal(store.find("a").title, "my name");
  assert.equal(store.find("a").isNamed, true);
  store.rename("a", " ");
  assert.equal(store.find("a").title, "one?");
  assert.equal(store.find("a").isNamed, false);
  store.rename("gone", "x");
  assert.equal(store.find("gone"), null);
});

test("one that is deleted can be had back", () => {
  const [store] = stored();
  store.keep(conversation("a", turn("one?")));
  const before = store.find("a");
  const undo = store.forget("a");
  assert.deepEqual(store.all(), []);
  undo();
  assert.deepEqual(store.find("a"), before);
});

test("a browser without room is told in a sentence", () => {
  const [store, storage] = stored();
  storage.room = 20;
  assert.throws(() => store.keep(conversation("a", turn("one?"))), /no room to keep the conversation\. Delete others/);
});

test("a title is the first line of the question, and short", () => {
  assert.equal(titleOf("  one \t two\nthree"), "one two");
  assert.equal([...titleOf("🦊".repeat(80))].length, 60);
});

test("turns without an answer are as if they had not been asked", () => {
  assert.deepEqual(messagesOf([turn("a", "b", "c"), turn("d", "")]), [
    { role: "user", content: "a" },
    { role: "assistant", content: "bc" },
  ]);
});

test("what was thought before an answer goes back beside it, and alone it is no answer", () => {
  assert.deepEqual(messagesOf([turn("a", "<think>\nso\n</think>\n\nb"), turn("d", "<think>so")]), [
    { role: "user", content: "a" },
    { role: "assistant", content: "b", reasoning_content: "so" },
  ]);
  assert.deepEqual(messagesOf([turn("a", "one <think>two</think>")])[1].content, "one <think>two</think>");
});

test("settings are kept, and what is wrong is none", () => {
  const storage = new FakeStorage();
  const store = new SettingsStore(storage);
  assert.deepEqual(store.read(), UNSET);
  const settings = { model: "m", temperature: "0.7", seed: "12", rule: "typical" };
  store.keep(settings);
  assert.deepEqual(store.read(), settings);
  for (const broken of ["{", "null", "[]", '{"seed":"x"}', '{"temperature":1}']) {
    storage.setItem("settings", broken);
    assert.deepEqual(store.read(), UNSET);
  }
  storage.room = 0;
  store.keep(settings);
});

test("a setting that is wrong is told beside it", () => {
  for (const temperature of ["x", "-1", "101", "1,5", "NaN", "Infinity"]) {
    assert.deepEqual(Object.keys(faultsOf({ ...UNSET, temperature })), ["temperature"]);
  }
  for (const seed of ["x", "-1", "1.5", "9007199254740992", "1e3"]) {
    assert.deepEqual(Object.keys(faultsOf({ ...UNSET, seed })), ["seed"]);
  }
  assert.deepEqual(faultsOf({ temperature: " 0.5 ", seed: "9007199254740991" }), {});
});

test("a request has what is set, and nothing else", () => {
  assert.deepEqual(requestFields(UNSET), { model: "outrider" });
  const settings = { model: "m", temperature: "0", seed: "0", rule: "typical" };
  assert.deepEqual(requestFields(settings), { model: "m", temperature: 0, seed: 0, rule: "typical" });
  assert.deepEqual(offered(settings, { models: ["n"], rules: ["coupled"] }), { ...settings, model: "", rule: "" });
});

test("nodes without a choice between them share a row, and only siblings are indented", () => {
  const nodes = [
    [0, "a", 0.9],
    [1, "b", 0.8],
    [2, "c", 0.5],
    [3, "d", 0.4],
    [2, "e", 0.3],
    [0, "f", 0.1],
    [1, "g", 0.1],
    [1, "h", 0.05],
  ];
  assert.deepEqual(
    rowsOf(nodes).map(({ depth, text, probability, isLikeliest }) => [depth, text, probability, isLikeliest]),
    [
      [0, "ab", 0.8, true],
      [1, "cd", 0.4, true],
      [1, "e", 0.3, false],
      [0, "f", 0.1, false],
      [1, "g", 0.1, false],
      [1, "h", 0.05, false],
    ],
  );
  assert.deepEqual(rowsOf([]), []);
});

test("what is confirmed is counted, and listed with the latest first", () => {
  const log = new CommitLog();
  assert.equal(log.summary, "Nothing is confirmed yet.");
  log.add([{ at_s: 1, drafted: ["a", "b", "c"], decided: ["d"] }]);
  log.add([{ at_s: 2, drafted: [], decided: ["e"] }]);
  assert.deepEqual(log.commits.map((commit) => commit.at_s), [2, 1]);
  assert.equal(log.summary, "5 tokens confirmed in 2 steps; 60% had been drafted here.");
  log.add(Array.from({ length: 300 }, () => ({ at_s: 3, drafted: [], decided: ["f"] })));
  assert.equal(log.commits.length, 100);
  assert.match(log.summary, /^305 tokens confirmed in 302 steps/);
});
