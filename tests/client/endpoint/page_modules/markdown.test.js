// Blocks and spans of Markdown: what is text, what marks, and from when on a block stands.

import assert from "node:assert/strict";
import test from "node:test";

import { blocksOf, settledLength } from "../markdown.js";
import { inlineOf } from "../markdown_inline.js";

const leaves = (nodes) => nodes.flatMap((node) => (node.children ? leaves(node.children) : [node.text ?? node.mark]));
const shown = (nodes) => nodes.map((node) => (node.children ? shown(node.children) : (node.text ?? ""))).join("");
const tags = (nodes) =>
  nodes.flatMap((node) => (node.children && node.tag !== "gap" ? [[node.tag, ...tags(node.children)]] : []));

// Pieces of Markdown in any order, most of them broken; always the same ones.
function* broken(count) {
  const pieces = [
    "*", "**", "***", "_", "__", "~~", "`", "```", "~~~", "\n", "\n\n", " ", "  ", "    ", "- ", "1. ", "> ", "# ", "###",
    "|", "| --- |", "a", "word", "[x]", "(http://x.y)", "](", "![", "\\", "<b>", "https://a.b/c_d)", "é", "🦊", "---", "\t",
  ];
  let state = 7;
  const next = (limit) => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return Math.floor((state / 2147483648) * limit);
  };
  for (let index = 0; index < count; index += 1) {
    yield Array.from({ length: 1 + next(30) }, () => pieces[next(pieces.length)]).join("");
  }
}

test("the leaves are the text to the letter, whatever it is", () => {
  for (const text of broken(4000)) {
    assert.equal(leaves(blocksOf(text)).join(""), text);
    assert.equal(leaves(inlineOf(text)).join(""), text);
  }
});

test("what has settled is the same, however much follows", () => {
  for (const text of broken(1500)) {
    const settled = settledLength(text);
    const before = JSON.stringify(blocksOf(text.slice(0, settled)));
    for (const more of ["\n\n", "- x\n", "```\n", "| a |\n| - |\n"]) {
      const whole = text + more;
      assert.ok(settledLength(whole) >= settled);
      const blocks = blocksOf(whole);
      const first = [];
      for (let length = 0; length < settled; ) {
        first.push(blocks.shift());
        length += leaves([first.at(-1)]).join("").length;
      }
      assert.equal(JSON.stringify(first), before, JSON.stringify([text, more]));
    }
  }
});

test("a block settles with the empty line behind it, and code with its fence", () => {
  assert.equal(settledLength("one\ntwo"), 0);
  assert.equal(settledLength("one\n"), 0);
  assert.equal(settledLength("one\n\ntwo"), 5);
  assert.equal(settledLength("```\n\na\n\n"), 0);
  assert.equal(settledLength("```\na\n```\nb"), 10);
  assert.equal(settledLength("````\n```\n````\n"), 14);
  assert.equal(settledLength("```\na\n```"), 0, "its last line may go on");
});

test("blocks are told apart", () => {
  const text = "# A\n\nb\nc\n\n- d\n  - e\n- f\n\n3. g\n\n> h\n\n---\n\n| i | j |\n| - | - |\n| k | l |\n";
  assert.deepEqual(tags(blocksOf(text)), [
    ["heading"],
    ["p"],
    ["ul", ["li", ["p"], ["ul", ["li", ["p"]]]], ["li", ["p"]]],
    ["ol", ["li", ["p"]]],
    ["blockquote", ["p"]],
    ["hr"],
    ["table", ["thead", ["tr", ["th"], ["th"]]], ["tbody", ["tr", ["td"], ["td"]]]],
  ]);
  assert.equal(blocksOf("3. g\n")[0].start, 3);
  assert.deepEqual(tags(blocksOf("- a\n1. b\n")), [["ul", ["li", ["p"]]], ["ol", ["li", ["p"]]]]);
  assert.equal(shown(blocksOf(text)), "Ab\ncdefghijkl");
});

test("a list goes on behind empty lines", () => {
  const text = "1. a\n\n   b\n   - c\n\n     d\n\n2. e\n\nf\n";
  assert.deepEqual(tags(blocksOf(text)), [
    ["ol", ["li", ["p"], ["p"], ["ul", ["li", ["p"], ["p"]]]], ["li", ["p"]]],
    ["p"],
  ]);
  assert.deepEqual(tags(blocksOf("- a\n\nb\n")), [["ul", ["li", ["p"]]], ["p"]]);
  assert.equal(settledLength("x\n\n- a\n\n"), 3, "there may be another item");
  assert.equal(settledLength("- a\n\n  ```\n  b\n  ```\n"), 0);
  assert.equal(settledLength("- a\n\nb\n"), 5);
});

test("code is as it is written, without its fences and what they are indented by", () => {
  const [block] = blocksOf("  ```Python x\n  def f():\n      *pass*\n  ```\n");
  assert.equal(block.tag, "code block");
  assert.equal(block.language, "python");
  assert.equal(block.code, "def f():\n    *pass*\n");
  assert.equal(shown([block]), block.code);
});

test("spans are told apart", () => {
  const found = (text) => [tags(inlineOf(text)).flat(9), shown(inlineOf(text))];
  assert.deepEqual(found("a *b* **c** ~~d~~ `*e*`"), [["em", "strong", "s", "code"], "a b c d *e*"]);
  assert.deepEqual(found("***a***"), [["em", "strong"], "a"]);
  assert.deepEqual(found("**a *b* c**"), [["strong", "em"], "a b c"]);
  assert.deepEqual(found("snake_case_name and 2*3*4 = 2 * 3 * 4"), [["em"], "snake_case_name and 234 = 2 * 3 * 4"]);
  assert.deepEqual(found("\\*a\\* **b"), [[], "*a* **b"]);
  assert.deepEqual(found("``a`b``"), [["code"], "a`b"]);
  assert.deepEqual(found("List<int> & <b>"), [[], "List<int> & <b>"]);
});

test("only addresses of the web are links, and pictures are links", () => {
  const addresses = (text) => inlineOf(text).filter((node) => node.tag === "a").map((node) => node.address);
  assert.deepEqual(addresses("[a](https://b.c/d_(e)) ![f](http://g.h)"), ["https://b.c/d_(e)", "http://g.h"]);
  assert.deepEqual(addresses("see https://a.b/c, or (https://d.e)."), ["https://a.b/c", "https://d.e"]);
  assert.deepEqual(addresses("[a](javascript:b) [c](data:d) [e](/f) [g](//h.i) [j](file:///k)"), []);
});

test("a long text full of openings comes to its end", () => {
  for (const piece of ["*a ", "[a](", "`a", "**a *b ", "_a ", "> ", "- ", "https://", "~~a**b"]) {
    const text = piece.repeat(4000);
    assert.equal(leaves(blocksOf(text)).join(""), text);
  }
});

test("a table with long rows comes to its end", () => {
  const space = " ".repeat(300_000);
  for (const text of [`a|b\n-|-\na|${space}b\n`, `a|b\n-|-${space}x\n`, `a|b${space}\n-|-${space}\n`]) {
    assert.equal(leaves(blocksOf(text)).join(""), text);
  }
});
