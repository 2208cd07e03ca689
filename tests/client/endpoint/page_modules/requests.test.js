// Requests and streams of events, by a fetch that answers as it is told, and a browser that keeps nothing.

import assert from "node:assert/strict";
import test from "node:test";

import { Conversations } from "../conversations.js";
import { Endpoint } from "../endpoint.js";
import { PassingStorage, storageOf } from "../storage.js";

function gated(key) {
  const asked = [];
  globalThis.fetch = async (_, { headers }) => {
    asked.push(headers.Authorization ?? "");
    return headers.Authorization === `Bearer ${key}` ? new Response("{}") : new Response("", { status: 401 });
  };
  return asked;
}

test("the key is asked for once for all requests that miss it, and again if it is wrong", async () => {
  const asked = gated("secret");
  const refused = [];
  const storage = new PassingStorage();
  const typed = ["wrong", "secret"];
  const endpoint = new Endpoint(async (wasRefused) => (refused.push(wasRefused), typed.shift()), storage);
  await Promise.all(["/a", "/b", "/c"].map((path) => endpoint.request(path)));
  assert.deepEqual(refused, [false, true]);
  assert.equal(asked.filter((one) => one === "Bearer secret").length, 3);
  await new Endpoint(() => assert.fail("it is kept"), storage).request("/a");
});

test("events are whole however the stream is cut", async () => {
  const events = [{ final: "\u{1f98a} é\n" }, { end: {} }];
  const bytes = new TextEncoder().encode(events.map((one) => `data: ${JSON.stringify(one)}\n\n`).join(""));
  for (const size of [1, 2, 3, 7, bytes.length]) {
    const cut = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) => bytes.slice(at * size, (at + 1) * size));
    globalThis.fetch = async () => new Response(ReadableStream.from(cut));
    const found = [];
    for await (const event of new Endpoint(null, new PassingStorage()).events("/a")) found.push(event);
    assert.deepEqual(found, events);
  }
});

test("where a browser denies its storage, what is kept goes with the page", () => {
  const denying = { get localStorage() { throw new Error("denied"); }, sessionStorage: 1 };
  const store = new Conversations(storageOf(denying, "localStorage"));
  store.keep({ id: "a", title: "one?", turns: [{ question: "one?", confirmed: "", provisional: "", note: "" }] });
  assert.deepEqual(store.all().map(({ id }) => id), ["a"]);
  store.forget("a");
  assert.deepEqual(store.all(), []);
  assert.equal(storageOf(denying, "sessionStorage"), 1);
});
