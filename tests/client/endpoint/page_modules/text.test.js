// How an answer's text grows, and code in kinds of words.

import assert from "node:assert/strict";
import test from "node:test";

import { GrowingText } from "../growing_text.js";
import { highlighted } from "../highlight.js";

const runs = (text, now = 0) => text.runs(0, now);

test("what is confirmed is appended, what is provisional replaced", () => {
  const text = new GrowingText();
  text.update("Once ", "upon a", 0);
  text.update("upon ", "a time", 0);
  assert.deepEqual(runs(text), [["Once upon ", "confirmed"], ["a time", "provisional"]]);
  assert.equal(text.whole, "Once upon a time");
});

test("what is taken back is struck where the text took another way, for a while", () => {
  const text = new GrowingText();
  text.update("A ", "fox ran away", 0);
  text.update("fox sat", " down and waited", 100);
  const struck = [["A fox ", "confirmed"], ["ran away", "retracted"], ["sat", "confirmed"]];
  assert.deepEqual(runs(text, 200), [...struck, [" down and waited", "provisional"]]);
  assert.equal(text.undisturbed(200), "A fox ".length, "nothing behind it is settled");
  assert.equal(text.forgetsAt(200), 1000);
  assert.deepEqual(runs(text, 1000), [["A fox sat", "confirmed"], [" down and waited", "provisional"]]);
  assert.equal(text.undisturbed(1000), text.confirmed.length);
});

test("within provisional text it is struck in the middle, too", () => {
  const text = new GrowingText();
  text.update("", "a b c", 0);
  text.update("", "a x y z", 1);
  assert.deepEqual(runs(text, 2), [["a ", "provisional"], ["b c", "retracted"], ["x y z", "provisional"]]);
  text.update("", "a", 3);
  assert.deepEqual(runs(text, 4), [["a", "provisional"], [" x y z", "retracted"]]);
});

test("corrections of text that is kept stand in their places", () => {
  const text = new GrowingText();
  text.keeps = true;
  text.update("A ", "fox ran", 0);
  text.update("hare ", "sat up", 10);
  text.update("sat", " down", 20);
  assert.deepEqual(text.correctedRuns(), [
    ["A ", "confirmed"],
    ["fox ran", "retracted"],
    ["hare sat", "confirmed"],
    [" ", "provisional"],
    ["up", "retracted"],
    ["down", "provisional"],
  ]);
  text.keeps = false;
  text.update("", " by", 30);
  assert.equal(runs(text, 40).find(([, kind]) => kind === "retracted")[0], "up", "it is not displaced at once");
});

test("a correction stays in its place when the text before an earlier one is taken back", () => {
  const text = new GrowingText();
  text.keeps = true;
  text.update("", "one two four", 0);
  text.update("", "one two five", 10);
  text.update("", "one six", 20);
  text.update("one six", "", 30);
  assert.deepEqual(text.correctedRuns(), [
    ["one ", "confirmed"],
    ["our", "retracted"],
    ["two five", "retracted"],
    ["six", "confirmed"],
  ]);
});

test("no letter is torn apart", () => {
  const text = new GrowingText();
  text.update("", "🦊", 0);
  text.update("", "🦉", 1);
  assert.deepEqual(runs(text, 2), [["🦊", "retracted"], ["🦉", "provisional"]]);
});

test("runs of code are the code to the letter, in every language", () => {
  const code = "# a 'b\n// c\n/* d */ def f(x): return \"e\\\"\" + `g` + 0x1F -- 1.5e3 \n'''h\n''' é=é\n<i>'";
  for (const language of ["python", "js", "c++", "go", "rust", "sh", "sql", "json", "brainfuck", ""]) {
    assert.equal(highlighted(code, language).map(([, text]) => text).join(""), code);
    assert.deepEqual(highlighted("", language), []);
  }
});

test("words are of the kind that the language says", () => {
  const kinds = (code, language) => highlighted(code, language).filter(([kind]) => kind);
  assert.deepEqual(kinds("def f(x):  # if\n    return 'if' + 12", "python"), [
    ["keyword", "def"],
    ["called", "f"],
    ["comment", "# if"],
    ["keyword", "return"],
    ["string", "'if'"],
    ["number", "12"],
  ]);
  assert.deepEqual(kinds("let s = `a${b}`; // x", "ts"), [["keyword", "let"], ["string", "`a${b}`"], ["comment", "// x"]]);
  assert.deepEqual(kinds("SELECT a1 FROM t -- x", "sql"), [
    ["keyword", "SELECT"],
    ["keyword", "FROM"],
    ["comment", "-- x"],
  ]);
  assert.deepEqual(kinds("if (x)", "unheard-of"), []);
});
