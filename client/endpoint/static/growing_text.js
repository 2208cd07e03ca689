// An answer's text as it grows: what is confirmed stands for good, what is provisional behind it may be taken back.
// Pure: the time is an argument, in milliseconds. It may not know elements or requests.

const SHOWN_MS = 900; // for which text that was taken back is shown
const KEPT_MS = 2400; // and text that is kept, which nothing else displaces meanwhile

export class GrowingText {
  confirmed = "";
  provisional = "";
  corrections = []; // { at, text }: what was taken back of text that was kept
  keeps = false; // whether to keep what is taken back
  #retracted = null; // { at, text, until, isKept }: what is shown as taken back

  get whole() {
    return this.confirmed + this.provisional;
  }

  /** `final` is appended for good, `provisional` replaces what is behind it. */
  update(final, provisional, now) {
    const next = final + provisional;
    const kept = commonPrefix(this.provisional, next);
    if (kept < this.provisional.length) {
      this.#retract(this.confirmed.length + kept, this.provisional.slice(kept), now);
    }
    this.confirmed += final;
    this.provisional = provisional;
  }

  /** What is provisional goes, because nobody will judge it. */
  drop() {
    this.provisional = "";
  }

  /** When what is shown as taken back is to be shown no more; null if nothing is. */
  forgetsAt(now) {
    return this.#shown(now)?.until ?? null;
  }

  /** How much of the confirmed text has nothing in it that is shown as taken back. */
  undisturbed(now) {
    return Math.min(this.confirmed.length, this.#shown(now)?.at ?? Infinity);
  }

  /** [text, kind] of each run from a position on: what was taken back stands where the text took another way. */
  runs(from, now) {
    const shown = this.#shown(now);
    return this.#runs(from, shown ? [shown] : []);
  }

  /** The same of the whole text, with all that was taken back of text that was kept. */
  correctedRuns() {
    return this.#runs(0, this.corrections);
  }

  #runs(from, retractions) {
    const [whole, border] = [this.whole, this.confirmed.length];
    const runs = [];
    const add = (end) => {
      if (from < Math.min(end, border)) runs.push([whole.slice(from, Math.min(end, border)), "confirmed"]);
      if (end > Math.max(from, border)) runs.push([whole.slice(Math.max(from, border), end), "provisional"]);
      from = Math.max(from, end);
    };
    for (const { at, text } of retractions) {
      add(Math.min(at, whole.length));
      runs.push([text, "retracted"]);
    }
    add(whole.length);
    return runs;
  }

  #shown(now) {
    return this.#retracted && now < this.#retracted.until ? this.#retracted : null;
  }

  #retract(at, text, now) {
    // What was taken back of a text that now goes itself stands where the text that stays took another way.
    for (const correction of this.corrections) correction.at = Math.min(correction.at, at);
    if (this.keeps) this.corrections.push({ at, text });
    else if (this.#shown(now)?.isKept) return;
    this.#retracted = { at, text, until: now + (this.keeps ? KEPT_MS : SHOWN_MS), isKept: this.keeps };
  }
}

function commonPrefix(one, other) {
  const most = Math.min(one.length, other.length);
  let length = 0;
  while (length < most && one[length] === other[length]) length += 1;
  const splitsACharacter = /[\uD800-\uDBFF]$/.test(one.slice(0, length));
  return splitsACharacter ? length - 1 : length;
}
