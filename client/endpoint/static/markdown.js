// Blocks of Markdown, as a tree whose leaves, one after the other, are the text to the letter: what only marks is kept as
// a mark. Pure: text in, plain objects out. It may not know elements.
//
// A leaf is { text } or { mark }; a branch is { tag, children }, and what its tag needs beside.

import { inlineOf } from "./markdown_inline.js";

const MOST_NESTED = 8; // lists and quotes in one another; what is deeper stays as it is written

const FENCE = /^( *)(`{3,}|~{3,})([^`\n]*)\n?$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(?=\S)/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*\n?$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])[ \t]+(?=\S)/;
const QUOTE = /^ {0,3}> ?/;
const TABLE_RULE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?$/; // of a line without what ends it

/**
 * How much of a growing text, from its beginning, consists of blocks that nothing behind them can change. A list may go on
 * behind empty lines, so that it settles with the line that does not belong to it.
 */
export function settledLength(text) {
  let settled = 0;
  let at = 0;
  let fence = null;
  let isList = false; // whether there may be one behind what has settled
  let isBehindEmpty = false;
  for (const line of linesOf(text)) {
    const before = at;
    at += line.length;
    if (!line.endsWith("\n")) break;
    const opened = fence;
    fence = fenceAfter(fence, line);
    const isEmpty = !line.trim();
    if (isList && isBehindEmpty && !opened && !isEmpty && !ITEM.test(line) && !line.startsWith(" ")) {
      settled = before;
      isList = false;
    }
    isList ||= !opened && ITEM.test(line);
    isBehindEmpty = !opened && isEmpty;
    const isBetween = !opened && !fence && isEmpty;
    if (!isList && (isBetween || (opened && !fence))) settled = at;
  }
  return settled;
}

/** The blocks of a text, as branches. */
export function blocksOf(text, depth = 0) {
  const lines = linesOf(text);
  const blocks = [];
  for (let at = 0; at < lines.length; ) {
    const [block, count] = blockAt(lines, at, depth);
    blocks.push(block);
    at += count;
  }
  return blocks;
}

function blockAt(lines, at, depth) {
  const line = lines[at];
  if (FENCE.test(line)) return codeAt(lines, at);
  if (!line.trim()) return [{ tag: "gap", children: [{ mark: line }] }, 1];
  if (HEADING.test(line)) return [headingOf(line), 1];
  if (RULE.test(line)) return [{ tag: "hr", children: [{ mark: line }] }, 1];
  if (line.includes("|") && lines[at + 1]?.includes("|") && TABLE_RULE.test(lines[at + 1].trimEnd())) return tableAt(lines, at);
  if (depth < MOST_NESTED) {
    if (QUOTE.test(line)) return quoteAt(lines, at, depth);
    if (ITEM.test(line)) return listAt(lines, at, depth);
  }
  const count = countFrom(lines, at + 1, (next) => !beginsABlock(next)) + 1;
  return [{ tag: "p", children: proseOf(lines.slice(at, at + count).join("")) }, count];
}

function beginsABlock(line) {
  return !line.trim() || [FENCE, HEADING, RULE, QUOTE, ITEM].some((form) => form.test(line));
}

function headingOf(line) {
  const [marks, hashes] = HEADING.exec(line);
  return { tag: "heading", level: hashes.length, children: [{ mark: marks }, ...proseOf(line.slice(marks.length))] };
}

function fenceAfter(fence, line) {
  const found = FENCE.exec(line);
  if (!found) return fence;
  const [, indent, marks, words] = found;
  if (!fence) return { indent: indent.length, marks };
  const closes = marks[0] === fence.marks[0] && marks.length >= fence.marks.length && !words.trim();
  return closes ? null : fence;
}

function codeAt(lines, at) {
  const opening = fenceAfter(null, lines[at]);
  const inside = countFrom(lines, at + 1, (line) => fenceAfter(opening, line) !== null);
  const code = lines.slice(at + 1, at + 1 + inside);
  const closing = lines[at + 1 + inside];
  const rest = code.map((line) => line.slice(indentOf(line, opening.indent)));
  const marks = code.map((line) => line.slice(0, indentOf(line, opening.indent)));
  const text = rest.join("");
  const inner = withMarks(text ? [{ text }] : [], rest, marks);
  const language = FENCE.exec(lines[at])[3].trim().split(/\s/)[0].toLowerCase();
  const block = { tag: "code block", language, code: text, children: [{ mark: lines[at] }, ...inner, ...marked(closing)] };
  return [block, 1 + inside + (closing ? 1 : 0)];
}

function indentOf(line, most) {
  return Math.min(most, /^ */.exec(line)[0].length);
}

function quoteAt(lines, at, depth) {
  const count = countFrom(lines, at, (line) => QUOTE.test(line));
  const marks = lines.slice(at, at + count).map((line) => QUOTE.exec(line)[0]);
  const rest = lines.slice(at, at + count).map((line, index) => line.slice(marks[index].length));
  return [{ tag: "blockquote", children: withMarks(blocksOf(rest.join(""), depth + 1), rest, marks) }, count];
}

function listAt(lines, at, depth) {
  const indent = ITEM.exec(lines[at])[1].length;
  const isOrdered = /\d/.test(ITEM.exec(lines[at])[2]);
  const items = [];
  let count = 0;
  while (at + count < lines.length) {
    const found = ITEM.exec(lines[at + count]);
    if (!found || found[1].length < indent || found[1].length > indent + 1) break;
    if (/\d/.test(found[2]) !== isOrdered || RULE.test(lines[at + count])) break;
    const own = linesOfItem(lines, at + count, indent);
    items.push(itemOf(lines.slice(at + count, at + count + own), found[0].length, depth));
    count += own;
  }
  if (!items.length) {
    // A rule that looks like an item.
    return [{ tag: "p", children: proseOf(lines[at]) }, 1];
  }
  const start = isOrdered ? Number.parseInt(ITEM.exec(lines[at])[2], 10) : null;
  return [{ tag: isOrdered ? "ol" : "ul", start, children: items }, count];
}

/** How many lines an item has, with empty lines where the item or its list goes on behind them. */
function linesOfItem(lines, at, indent) {
  let own = 1;
  for (;;) {
    own += countFrom(lines, at + own, (line) => belongsToItem(line, indent));
    const empty = countFrom(lines, at + own, (line) => !line.trim());
    const next = lines[at + own + empty];
    if (!empty || next === undefined) return own;
    if (next.startsWith(" ".repeat(indent + 2))) own += empty;
    else return ITEM.test(next) && ITEM.exec(next)[1].length >= indent ? own + empty : own;
  }
}

function belongsToItem(line, indent) {
  if (!line.trim()) return false;
  const found = ITEM.exec(line);
  if (found) return found[1].length > indent + 1;
  return line.startsWith(" ".repeat(indent + 2)) || !beginsABlock(line);
}

function itemOf(lines, width, depth) {
  const marks = lines.map((line, index) => (index ? /^ */.exec(line.slice(0, width))[0] : line.slice(0, width)));
  const rest = lines.map((line, index) => line.slice(marks[index].length));
  return { tag: "li", children: withMarks(blocksOf(rest.join(""), depth + 1), rest, marks) };
}

/** Puts the mark of each line before the leaf with which that line begins. */
function withMarks(blocks, lines, marks) {
  const beginnings = new Map();
  let at = 0;
  lines.forEach((line, index) => {
    if (marks[index]) beginnings.set(at, marks[index]);
    at += line.length;
  });
  let position = 0;
  const place = (nodes) => nodes.flatMap((node) => (node.children ? { ...node, children: place(node.children) } : cut(node)));
  const cut = (leaf) => {
    const [kind, value] = Object.entries(leaf)[0];
    const parts = [];
    let from = 0;
    for (let index = 0; index < value.length; index += 1) {
      const mark = beginnings.get(position + index);
      if (mark === undefined) continue;
      if (index > from) parts.push({ [kind]: value.slice(from, index) });
      parts.push({ mark });
      beginnings.delete(position + index);
      from = index;
    }
    position += value.length;
    if (from < value.length) parts.push({ [kind]: value.slice(from) });
    return parts;
  };
  const placed = place(blocks);
  return [...placed, ...[...beginnings.values()].map((mark) => ({ mark }))];
}

function tableAt(lines, at) {
  const count = countFrom(lines, at + 2, (line) => line.includes("|") && !beginsABlock(line)) + 2;
  const rows = lines.slice(at, at + count);
  const head = { tag: "thead", children: [rowOf(rows[0], "th")] };
  const body = { tag: "tbody", children: rows.slice(2).map((line) => rowOf(line, "td")) };
  const ruled = { tag: "gap", children: [{ mark: rows[1] }] };
  return [{ tag: "table", children: [head, ruled, ...(body.children.length ? [body] : [])] }, count];
}

function rowOf(line, tag) {
  const cells = [];
  const trimmed = line.trimEnd();
  const ends = trimmed.length - (trimmed.endsWith("|") ? 1 : 0);
  const begins = /^ *\|?/.exec(line.slice(0, ends))[0].length;
  const inner = line.slice(begins, ends);
  for (const part of inner.split(/(?<!\\)(?=\|)/)) {
    const [before] = /^\|?[ \t]*/.exec(part);
    const content = part.slice(before.length).trimEnd();
    const after = part.slice(before.length + content.length);
    cells.push({ tag, children: [...marked(before), ...inlineOf(content, 0), ...marked(after)] });
  }
  return { tag: "tr", children: [...marked(line.slice(0, begins)), ...cells, ...marked(line.slice(ends))] };
}

/** Prose whose last line break is a mark, because the end of a block shows it. */
function proseOf(text) {
  const ends = /\n$/.test(text);
  return [...inlineOf(ends ? text.slice(0, -1) : text, 0), ...marked(ends ? "\n" : "")];
}

function marked(text) {
  return text ? [{ mark: text }] : [];
}

function countFrom(lines, at, belongs) {
  let count = 0;
  while (at + count < lines.length && belongs(lines[at + count])) count += 1;
  return count;
}

function linesOf(text) {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}
