// Emphasis, code, links and escapes within one block of Markdown, as nodes whose leaves are the text to the letter.
// Pure: text in, plain objects out. HTML in the text is text, and no image is ever loaded. It may not know elements.

const MOST_NESTED = 8; // emphasis in one another; what is deeper stays as it is written
const SAFE_ADDRESS = /^(https?:\/\/|mailto:)[^\s<>"]+$/i;
const BARE_ADDRESS = /https?:\/\/[^\s<>"`]*[^\s<>"`.,;:!?'*_)\]}]/iy;
const LINK =
  /(!?\[)((?:[^[\]\\\n]|\\.){1,500})(\]\()([^()\s]{1,2000}(?:\([^()\s]{0,500}\)[^()\s]{0,500})?)((?: "[^"\n]{0,500}")?\))/y;
const DELIMITERS = ["***", "**", "__", "~~", "*", "_"];
const TAGS = { "**": "strong", __: "strong", "~~": "s", "*": "em", _: "em" };

/** The nodes of a text without blocks. */
export function inlineOf(text, depth = 0) {
  const nodes = [];
  const unclosed = new Set(); // delimiters that nothing further on closes
  let plain = 0;
  const take = (at, end, ...found) => {
    if (at > plain) nodes.push({ text: text.slice(plain, at) });
    nodes.push(...found);
    plain = end;
    return end;
  };
  for (let at = 0; at < text.length; ) {
    const found = constructAt(text, at, depth, unclosed);
    at = found ? take(at, found.end, ...found.nodes) : at + 1;
  }
  take(text.length, text.length);
  return nodes;
}

function constructAt(text, at, depth, unclosed) {
  switch (text[at]) {
    case "\\":
      if (!/[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) return null;
      return { end: at + 2, nodes: [{ mark: "\\" }, { text: text[at + 1] }] };
    case "`":
      return codeSpanAt(text, at, unclosed);
    case "!":
    case "[":
      return depth < MOST_NESTED ? linkAt(text, at, depth) : null;
    case "h":
    case "H":
      return bareAddressAt(text, at);
    case "*":
    case "_":
    case "~":
      return depth < MOST_NESTED ? emphasisAt(text, at, depth, unclosed) : runAt(text, at);
    default:
      return null;
  }
}

function codeSpanAt(text, at, unclosed) {
  const marks = /^`+/.exec(text.slice(at, at + 64))[0];
  const asItIs = { end: at + marks.length, nodes: [{ text: marks }] };
  if (unclosed.has(marks)) return asItIs;
  for (let from = at + marks.length; ; ) {
    const close = text.indexOf(marks, from);
    if (close < 0) {
      unclosed.add(marks);
      return asItIs;
    }
    let end = close;
    while (text[end] === "`") end += 1;
    if (end - close === marks.length) {
      const children = [{ mark: marks }, { text: text.slice(at + marks.length, close) }, { mark: marks }];
      return { end, nodes: [{ tag: "code", children }] };
    }
    from = end;
  }
}

function linkAt(text, at, depth) {
  LINK.lastIndex = at;
  const found = LINK.exec(text);
  if (!found || !SAFE_ADDRESS.test(found[4])) return null;
  const [whole, open, words, between, address, close] = found;
  const children = [{ mark: open }, ...withoutLinks(inlineOf(words, depth + 1)), { mark: between + address + close }];
  return { end: at + whole.length, nodes: [{ tag: "a", address, children }] };
}

function withoutLinks(nodes) {
  return nodes.flatMap((node) => (node.tag === "a" ? withoutLinks(node.children) : [node]));
}

function bareAddressAt(text, at) {
  if (/\w/.test(text[at - 1] ?? "")) return null;
  BARE_ADDRESS.lastIndex = at;
  const found = BARE_ADDRESS.exec(text);
  if (!found || !SAFE_ADDRESS.test(found[0])) return null;
  return { end: at + found[0].length, nodes: [{ tag: "a", address: found[0], children: [{ text: found[0] }] }] };
}

function emphasisAt(text, at, depth, unclosed) {
  for (const marks of DELIMITERS) {
    if (!text.startsWith(marks, at) || unclosed.has(marks)) continue;
    const from = at + marks.length;
    const isWord = marks[0] === "_" && /[\p{L}\p{N}]/u.test(text[at - 1] ?? "");
    if (isWord || /[\s]/.test(text[from] ?? " ") || text[from] === marks[0]) continue;
    const close = closing(text, from, marks);
    if (close < 0) {
      unclosed.add(marks);
      continue;
    }
    const inner = inlineOf(text.slice(from, close), depth + 1);
    const pairs = marks === "***" ? ["**", "*"] : [marks]; // the inner one first
    let children = inner;
    for (const own of pairs) {
      children = [{ tag: TAGS[own], children: [{ mark: own }, ...children, { mark: own }] }];
    }
    return { end: close + marks.length, nodes: children };
  }
  return runAt(text, at);
}

function runAt(text, at) {
  let end = at;
  while (text[end] === text[at]) end += 1;
  return { end, nodes: [{ text: text.slice(at, end) }] };
}

function closing(text, from, marks) {
  for (let close = text.indexOf(marks, from + 1); close >= 0; close = text.indexOf(marks, close + 1)) {
    const [before, after] = [text[close - 1], text[close + marks.length] ?? " "];
    const isWithin = marks[0] === "_" && /[\p{L}\p{N}]/u.test(after);
    if (/\s/.test(before) || before === "\\" || isWithin) continue;
    if (before === marks[0] || after === marks[0]) continue; // of a longer run
    return close;
  }
  return -1;
}
