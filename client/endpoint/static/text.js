// An answer's text as it grows: what is confirmed stands for good, what is provisional behind it may be taken back.
// Knows text and elements; it may not know requests or links.

const SHOWN_MS = 900; // for which text that was taken back is shown
const KEPT_MS = 2400; // and text that is kept, which nothing else displaces meanwhile

const ELEMENTS = { confirmed: "span", provisional: "span", retracted: "del" };

export class AnswerText {
  #typeset;
  #retracted = "";
  #forgetting = 0;
  #displaced = 0; // from when on other text may be shown as taken back
  #settled = 0; // characters of confirmed text that are typeset for good

  constructor(element) {
    this.confirmed = "";
    this.provisional = "";
    this.corrections = []; // {at, text}: what was taken back of text that was kept
    this.keeps = false; // whether to keep what is taken back
    this.#typeset = new Typeset(element);
  }

  get whole() {
    return this.confirmed + this.provisional;
  }

  /** `final` is appended for good, `provisional` replaces what is behind it. */
  update(final, provisional) {
    const next = final + provisional;
    const kept = commonPrefix(this.provisional, next);
    if (kept < this.provisional.length) {
      this.#retract(this.confirmed.length + kept, this.provisional.slice(kept));
    }
    this.confirmed += final;
    this.provisional = provisional;
    this.#draw();
  }

  /** Shows the corrections in their places, or no longer. For text that has ended. */
  show(corrections) {
    const runs = [];
    let from = 0;
    for (const { at, text } of corrections ? this.corrections : []) {
      runs.push([this.confirmed.slice(from, at), "confirmed"], [text, "retracted"]);
      from = at;
    }
    this.#typeset.clear();
    this.#typeset.loose([...runs, [this.confirmed.slice(from), "confirmed"], [this.provisional, "provisional"]]);
  }

  /** What is provisional goes, because nobody will judge it. */
  drop() {
    this.provisional = "";
    this.#draw();
  }

  #retract(at, text) {
    if (this.keeps) this.corrections.push({ at, text });
    else if (performance.now() < this.#displaced) return;
    const time = this.keeps ? KEPT_MS : SHOWN_MS;
    this.#displaced = this.keeps ? performance.now() + time : 0;
    this.#retracted = text;
    clearTimeout(this.#forgetting);
    this.#forgetting = setTimeout(() => {
      this.#retracted = "";
      this.#draw();
    }, time);
  }

  #draw() {
    const line = this.confirmed.lastIndexOf("\n") + 1;
    if (line > this.#settled) {
      this.#typeset.settle(this.confirmed.slice(this.#settled, line));
      this.#settled = line;
    }
    this.#typeset.loose([
      [this.confirmed.slice(this.#settled), "confirmed"],
      [this.provisional, "provisional"],
      [this.#retracted, "retracted"],
    ]);
  }
}

/** Prose, and code between fences. Its text content is the text, to the letter. */
class Typeset {
  #element;
  #block = null; // the last one of settled text
  #loose = []; // nodes that the next drawing replaces

  constructor(element) {
    this.#element = element;
  }

  clear() {
    this.#element.replaceChildren();
    this.#block = null;
    this.#loose = [];
  }

  /** Whole lines that stay. */
  settle(text) {
    this.#drop();
    this.#block = this.#append([[text, "confirmed"]], () => {});
  }

  /** Replaces what stands behind the settled text. */
  loose(runs) {
    this.#drop();
    this.#append(runs, (node) => this.#loose.push(node));
  }

  #drop() {
    for (const node of this.#loose) node.remove();
    this.#loose = [];
  }

  #append(runs, added) {
    let block = this.#block;
    for (const line of linesOf(runs)) {
      const isFence = /^ {0,3}```/.test(line.map(([text]) => text).join(""));
      const inCode = block?.state === "open";
      if (!block || block.state === "closed" || (isFence && !inCode)) {
        block = { element: document.createElement(isFence ? "pre" : "p"), state: isFence ? "open" : "prose" };
        this.#element.append(block.element);
        added(block.element);
      } else if (isFence) {
        block = { ...block, state: "closed" };
      }
      for (const [text, kind] of line) {
        const run = document.createElement(ELEMENTS[kind]);
        run.className = isFence ? `${kind} fence` : kind;
        run.textContent = text;
        block.element.append(run);
        added(run);
      }
    }
    return block;
  }
}

/** The runs cut into lines, each with its newline. */
function linesOf(runs) {
  const lines = [[]];
  for (const [text, kind] of runs) {
    for (const part of text.split(/(?<=\n)/)) {
      if (!part) continue;
      lines.at(-1).push([part, kind]);
      if (part.endsWith("\n")) lines.push([]);
    }
  }
  return lines.filter((line) => line.length);
}

function commonPrefix(one, other) {
  const most = Math.min(one.length, other.length);
  let length = 0;
  while (length < most && one[length] === other[length]) length += 1;
  const splitsACharacter = /[\uD800-\uDBFF]$/.test(one.slice(0, length));
  return splitsACharacter ? length - 1 : length;
}
