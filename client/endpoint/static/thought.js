// What a model thinks before it answers, which stands between two marks at the beginning of its text. Pure.

const BEGINNING = /^\s*<think>\n*/;
const END = /<\/think>\n*/;

/** The match of the mark with which a text begins, null if it begins otherwise. */
export function beginningOfThought(text) {
  return BEGINNING.exec(text);
}

/** The match of the mark that ends a thought, null where it has not ended. */
export function endOfThought(text) {
  return END.exec(text);
}

/** A text without its marks, and without blanks around the thought: { thought, content }. */
export function apart(text) {
  const begun = beginningOfThought(text);
  if (!begun) return { thought: "", content: text };
  const rest = text.slice(begun[0].length);
  const end = endOfThought(rest);
  if (!end) return { thought: rest.trim(), content: "" };
  return { thought: rest.slice(0, end.index).trim(), content: rest.slice(end.index + end[0].length) };
}
