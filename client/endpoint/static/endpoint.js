// Requests to the endpoint that serves the page, and the streams of events that it answers with. Knows HTTP and the API
// key; how the key is asked for is an argument. It may not know elements.

export class Endpoint {
  #askForKey;
  #storage;
  #key;
  #unlocking = null;

  /** `askForKey` is told whether another key was refused; the key is kept in `storage`. */
  constructor(askForKey, storage) {
    this.#askForKey = askForKey;
    this.#storage = storage;
    this.#key = storage.getItem("key") ?? "";
  }

  /** The response. Raises an error whose message is for people. */
  async request(path, { body, signal } = {}) {
    for (;;) {
      const headers = {};
      if (body !== undefined) headers["Content-Type"] = "application/json";
      if (this.#key) headers.Authorization = `Bearer ${this.#key}`;
      const method = body === undefined ? "GET" : "POST";
      const response = await reached(
        fetch(path, { method, headers, body: JSON.stringify(body), signal, cache: "no-store" }),
      );
      if (response.ok) return response;
      if (response.status !== 401) throw new Error(await faultOf(response));
      await (this.#unlocking ??= this.#unlock());
    }
  }

  /** The events of a stream, each as the object that it carries. Raises as `request` does. */
  async *events(path, options) {
    const response = await this.request(path, options);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reached(reader.read());
      if (done) return;
      const whole = (rest + value).split("\n\n");
      rest = whole.pop();
      for (const event of whole) yield JSON.parse(event.slice("data: ".length));
    }
  }

  /** Once for all requests that miss it. */
  async #unlock() {
    this.#key = await this.#askForKey(Boolean(this.#key));
    this.#storage.setItem("key", this.#key);
    this.#unlocking = null;
  }
}

async function reached(attempt) {
  try {
    return await attempt;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("outrider cannot be reached any more on this machine. Start it again, then ask again.", {
      cause: error,
    });
  }
}

async function faultOf(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `The endpoint answered ${response.status}.`;
  }
}
