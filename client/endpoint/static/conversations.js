// The conversations that this browser keeps: one entry of its storage each, so that two tabs overwrite no more of one
// another than the same conversation. Pure but for the storage, which is an argument; it may not know elements.
//
// A conversation is { id, title, changed, turns }, `changed` in milliseconds; a turn is { question, confirmed,
// provisional, note, failed }: what was confirmed of its answer, what was left behind it, and a sentence about it.

import { apart } from "./thought.js";

const PREFIX = "conversation ";
const LONGEST_TITLE = 60;

export class Conversations {
  #storage;
  #now;

  constructor(storage, now = Date.now) {
    this.#storage = storage;
    this.#now = now;
  }

  /** All of them, the last changed one first; what is no conversation is left out. */
  all() {
    const keys = Array.from({ length: this.#storage.length }, (_, index) => this.#storage.key(index));
    const found = keys.filter((key) => key.startsWith(PREFIX)).map((key) => this.find(key.slice(PREFIX.length)));
    return found.filter(Boolean).sort((one, other) => other.changed - one.changed || (one.id < other.id ? -1 : 1));
  }

  find(id) {
    try {
      const read = JSON.parse(this.#storage.getItem(PREFIX + id));
      return isConversation(read) ? { ...read, id } : null;
    } catch {
      return null;
    }
  }

  /** Keeps it as it is now. Raises an error whose message is for people if the browser has no room for it. */
  keep(conversation) {
    const changed = this.#now();
    this.#write({ ...conversation, changed });
    return { ...conversation, changed };
  }

  /** Raises as `keep` does. A title of nothing gives the conversation back its first question. */
  rename(id, title) {
    const conversation = this.find(id);
    if (!conversation) return;
    const words = title.trim().replace(/\s+/g, " ");
    this.#write({ ...conversation, title: words || titleOf(conversation.turns[0].question), isNamed: Boolean(words) });
  }

  /** What is needed to keep it again, as it was. */
  forget(id) {
    const conversation = this.find(id);
    this.#storage.removeItem(PREFIX + id);
    return () => conversation && this.#write(conversation);
  }

  #write(conversation) {
    try {
      this.#storage.setItem(PREFIX + conversation.id, JSON.stringify(conversation));
    } catch {
      throw new Error("This browser has no room to keep the conversation. Delete others, or copy what you need.");
    }
  }
}

export function titleOf(question) {
  const line = question.trim().split("\n", 1)[0].replace(/\s+/g, " ");
  const letters = [...line];
  return letters.length <= LONGEST_TITLE ? line : `${letters.slice(0, LONGEST_TITLE - 1).join("").trimEnd()}…`;
}

/** What a question behind these turns is asked with; a turn without an answer is as if it had not been. Whether a model
 * sees again what it thought is decided by its chat template. */
export function messagesOf(turns) {
  return turns.flatMap(({ question, confirmed, provisional }) => {
    const { thought, content } = apart(confirmed + provisional);
    const answer = { role: "assistant", content, ...(thought && { reasoning_content: thought }) };
    return content ? [{ role: "user", content: question }, answer] : [];
  });
}

function isConversation(read) {
  const isTurn = (turn) => [turn?.question, turn?.confirmed, turn?.provisional, turn?.note].every(isText);
  const hasTurns = Array.isArray(read?.turns) && read.turns.length > 0 && read.turns.every(isTurn);
  return hasTurns && isText(read.title) && Number.isFinite(read.changed);
}

function isText(value) {
  return typeof value === "string";
}
