// One question and its answer: how it comes, what a person should know of it, and what can be done with it. Knows
// elements and the events of an answer; it may not know requests or what is kept.

import { AnswerText } from "./answer_text.js";
import { amount, button, copy, element, toggle } from "./elements.js";
import { apart } from "./thought.js";

const PLIGHTS = {
  suspect: "The link is silent. The small model writes on.",
  offline: "No link. The small model writes on alone; the large model will check it when the link is back.",
  resuming: "The link is coming back.",
  private: "Private: the small model answers on this machine alone.",
};

export class Turn {
  element = element("article");
  #heading = element("h2");
  #text = element("div", "text");
  #plight = element("p", "plight");
  #about = element("p", "about");
  #actions = element("div", "actions");
  #note = "";
  #failed = false;
  #alone = false; // whether some of the text was written without the link, and is not judged yet
  #aloneUpTo = 0; // where that text ended when the link came back
  #corrections = 0; // before that
  #lost = false; // whether the link was ever gone meanwhile
  #private = false;

  /** `askAgain` is called with the question, changed or not; `linkChanged` with a state of the link. */
  constructor(question, { askAgain, linkChanged }) {
    this.question = question;
    this.#heading.textContent = question;
    this.#tell();
    this.#isBusy(true);
    this.linkChanged = linkChanged;
    const copying = button("Copy", () => copy(this.answer, copying));
    const again = button("Ask again", () => askAgain(this.question));
    const edit = button("Edit question", () => this.#edit(edit, askAgain));
    this.#actions.append(copying, again, edit);
    again.classList.add("again");
    this.element.append(this.#heading, this.#text, this.#plight, this.#about, this.#actions);
    this.text = new AnswerText(this.#text);
  }

  /** One that has ended before, from its record. */
  static restored(record, callbacks) {
    const turn = new Turn(record.question, callbacks);
    turn.text.update(record.confirmed, record.provisional);
    turn.#conclude(record.note, { failed: Boolean(record.failed), aloud: false });
    return turn;
  }

  /** Its text without what the model thought first. */
  get answer() {
    return apart(this.text.whole).content;
  }

  /** As it is kept. */
  get record() {
    const { confirmed, provisional } = this.text;
    const note = this.#note || "The page was closed before the answer had ended.";
    return { question: this.question, confirmed, provisional, note, failed: this.#failed };
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
    this.#conclude(message, { failed: true });
  }

  #linkIs(link) {
    this.linkChanged(link);
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
      said.push("Private: written by the small model on this machine; nothing from the private text on was sent");
    } else {
      said.push(`${stats.tokens} tokens in ${stats.seconds.toFixed(1)} s`);
      said.push(`accept length ${stats.accept_length.toFixed(1)}`);
      said.push(`${amount(stats.bytes_up)} sent, ${amount(stats.bytes_down)} received`);
      if (end.unconfirmed) said.push(`${end.unconfirmed} tokens were never confirmed`);
      else if (this.#lost) said.push("the link was lost meanwhile: the text is the large model's own all the same");
    }
    if (end.lossy) said.push("not exactly the large model's own text");
    if (end.seed !== null) said.push(`seed ${end.seed}`);
    if (end.reason === "length") said.push("cut at the longest length");
    this.#conclude(said.join(" · "), { failed: Boolean(end.failure) });
    if (this.text.corrections.length) {
      this.#actions.append(toggle("What was taken back", (isPressed) => this.text.show(isPressed)));
    }
  }

  #conclude(said, { failed = false, aloud = true } = {}) {
    this.#tell();
    this.text.end();
    this.#note = said;
    this.#failed = failed;
    if (failed && aloud) this.#about.setAttribute("role", "alert");
    this.#about.classList.toggle("fault", failed);
    this.#about.textContent = said;
    this.#isBusy(false);
  }

  #isBusy(isBusy) {
    this.element.setAttribute("aria-busy", isBusy);
    this.#actions.hidden = isBusy;
  }

  /** The question becomes a text to write in, until it is asked or left as it was. */
  #edit(from, askAgain) {
    const box = element("textarea");
    box.value = this.question;
    box.rows = Math.min(10, this.question.split("\n").length + 1);
    box.setAttribute("aria-label", "Edit the question");
    const form = element("form", "edit", box);
    const leave = () => {
      form.replaceWith(this.#heading);
      from.hidden = false;
      from.focus();
    };
    const submit = element("button", "strong", "Ask this");
    form.append(element("div", "", submit, button("Cancel", leave, ""), element("p", "", "Its answer, and all below, goes.")));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (box.value.trim()) askAgain(box.value.trim());
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") leave();
      else if (event.key === "Enter" && !event.shiftKey && event.target === box && !event.isComposing) form.requestSubmit();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.#heading.replaceWith(form);
    from.hidden = true;
    box.focus();
  }
}
