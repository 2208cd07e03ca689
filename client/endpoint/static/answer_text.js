// Shows an answer's text as it grows: blocks that are confirmed as Markdown, what is behind them as it is written.
// Knows elements and the text; it may not know requests or links. Its text content is the text, to the letter.

import { GrowingText } from "./growing_text.js";
import { element } from "./elements.js";
import { blocksOf, settledLength } from "./markdown.js";
import { beginningOfThought, endOfThought } from "./thought.js";
import { typeset } from "./typeset.js";

const ELEMENTS = { confirmed: "span", provisional: "span", retracted: "del" };
const FENCE = /^ *(```|~~~)/;

export class AnswerText extends GrowingText {
  #element;
  #settled = 0; // characters of confirmed text that are typeset for good
  #levels = { last: 2 };
  #thought = null; // what the model thinks first, apart from the rest
  #isThinking = false;
  #loose = []; // nodes that the next drawing replaces
  #forgetting = 0;
  #isWhole = false;

  constructor(holder) {
    super();
    this.#element = holder;
  }

  update(final, provisional) {
    super.update(final, provisional, performance.now());
    this.#draw();
  }

  drop() {
    super.drop();
    this.#draw();
  }

  /** No more will come: the last block has ended, too. */
  end() {
    this.#isWhole = true;
    this.#draw();
  }

  /** Shows in their places what was taken back, or no longer. For text that has ended. */
  show(corrections) {
    clearTimeout(this.#forgetting); // or what is shown now would be drawn over
    this.#element.replaceChildren();
    this.#loose = [];
    this.#settled = 0;
    this.#levels = { last: 2 };
    this.#thought = null;
    this.#isThinking = false;
    if (corrections) this.#drawLoose(this.correctedRuns());
    else this.#draw();
  }

  #draw() {
    const now = performance.now();
    this.#settle(this.undisturbed(now));
    this.#drawLoose(this.runs(this.#settled, now));
    clearTimeout(this.#forgetting);
    const until = this.forgetsAt(now);
    if (until !== null) this.#forgetting = setTimeout(() => this.#draw(), until - now);
  }

  #settle(upTo) {
    const isBlank = !this.#thought && !/\S/.test(this.confirmed.slice(0, this.#settled));
    if (isBlank) this.#begin(beginningOfThought(this.confirmed.slice(this.#settled, upTo)));
    if (this.#isThinking) {
      const open = this.confirmed.slice(this.#settled, upTo);
      const end = endOfThought(open);
      this.#typeset(end ? open.slice(0, end.index) : open, Boolean(end) || this.#isLast(upTo));
      if (!end) return;
      this.#settleMark(end[0]);
      this.#levels = { last: 2 };
      this.#thought.open = this.#isThinking = false;
    }
    this.#typeset(this.confirmed.slice(this.#settled, upTo), this.#isLast(upTo));
  }

  #begin(mark) {
    if (!mark) return;
    const summary = element("summary"); // its word is of the style sheet, for it is not of the text
    summary.setAttribute("aria-label", "Thoughts");
    this.#thought = element("details", "thought", summary);
    this.#thought.open = this.#isThinking = true;
    this.#clearLoose();
    this.#element.append(this.#thought);
    this.#settleMark(mark[0]);
  }

  #settleMark(mark) {
    this.#clearLoose();
    this.#thought.append(element("span", "mark", mark));
    this.#settled += mark.length;
  }

  #isLast(upTo) {
    return this.#isWhole && upTo === this.confirmed.length && !this.provisional;
  }

  /** The blocks of what is confirmed and open that have ended, which all have if it is `whole`. */
  #typeset(open, whole) {
    const length = whole ? open.length : settledLength(open);
    if (!length) return;
    this.#clearLoose();
    for (const block of blocksOf(open.slice(0, length))) {
      const made = typeset(block, this.#levels);
      made.classList.add("confirmed");
      this.#holder.append(made);
    }
    this.#settled += length;
  }

  get #holder() {
    return this.#isThinking ? this.#thought : this.#element;
  }

  #clearLoose() {
    for (const node of this.#loose) node.remove();
    this.#loose = [];
  }

  /** As it is written, line by line: prose, and code between fences. */
  #drawLoose(runs) {
    this.#clearLoose();
    let block = null;
    for (const line of linesOf(runs)) {
      const isFence = FENCE.test(line.map(([text]) => text).join(""));
      const wasOpen = block?.isOpen;
      if (!block || block.isClosed || (isFence && !wasOpen)) {
        block = { element: element(isFence ? "pre" : "p", "loose"), isOpen: isFence, isClosed: false };
        this.#loose.push(block.element);
        this.#holder.append(block.element);
      } else if (isFence) {
        block = { ...block, isOpen: false, isClosed: true };
      }
      block.element.append(...line.map(([text, kind]) => element(ELEMENTS[kind], isFence ? `${kind} fence` : kind, text)));
    }
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
