// Code as runs of one kind each, which together are the code to the letter: comments, strings, numbers, keywords, names
// of functions that are called or defined. Pure: it may not know elements, and knows languages by their words alone.

const WORDS = {
  python:
    "and as assert async await break class continue def del elif else except finally for from global if import in is " +
    "lambda nonlocal not or pass raise return try while with yield match case None True False self",
  javascript:
    "async await break case catch class const continue debugger default delete do else enum export extends finally for " +
    "from function if implements import in instanceof interface let new of return static super switch this throw try " +
    "type typeof var void while yield null true false undefined readonly",
  c:
    "auto bool break case char class const constexpr continue default delete do double else enum explicit extern final " +
    "float for goto if include define inline int long namespace new nullptr operator override private protected public " +
    "return short signed sizeof static struct super switch template this throw try catch typedef typename union unsigned " +
    "using virtual void volatile while null true false import package extends implements interface boolean byte var " +
    "abstract string foreach in out ref async await",
  go:
    "break case chan const continue default defer else fallthrough for func go goto if import interface map package " +
    "range return select struct switch type var nil true false string int error bool byte",
  rust:
    "as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod move mut pub " +
    "ref return self Self static struct super trait type unsafe use where while true false",
  shell:
    "if then else elif fi for in do done while until case esac function return local export readonly set unset shift " +
    "exit break continue echo cd source sudo",
  sql:
    "select from where and or not in is null insert into values update set delete create table drop alter add primary " +
    "key foreign references index join left right inner outer full on as group by order having limit offset distinct " +
    "union all case when then else end between like exists count sum avg min max asc desc begin commit rollback default",
  json: "true false null",
};

const FAMILIES = {
  python: ["python", "py", "python3"],
  javascript: ["javascript", "js", "jsx", "typescript", "ts", "tsx", "mjs"],
  c: ["c", "h", "cpp", "c++", "cc", "cxx", "hpp", "java", "cs", "csharp", "c#", "kotlin", "swift", "php", "scala", "dart"],
  go: ["go", "golang"],
  rust: ["rust", "rs"],
  shell: ["bash", "sh", "shell", "zsh", "console"],
  sql: ["sql", "sqlite", "postgresql", "mysql"],
  json: ["json", "jsonc", "json5"],
};

const FAMILY_OF = new Map(Object.entries(FAMILIES).flatMap(([family, names]) => names.map((name) => [name, family])));

const HASH_COMMENT = "#[^\\n]*";
const SLASH_COMMENT = "\\/\\/[^\\n]*|/\\*[^]*?(?:\\*/|$)";
const QUOTED = '"(?:[^"\\\\\\n]|\\\\[^])*"?|\'(?:[^\'\\\\\\n]|\\\\[^])*\'?';
const TRIPLE_QUOTED = '[bfru]{0,2}(?:"""[^]*?(?:"""|$)|\'\'\'[^]*?(?:\'\'\'|$))|[bfru]{1,2}(?=["\'])';
const TEMPLATE = "`(?:[^`\\\\]|\\\\[^])*`?";

const COMMENTS = { python: HASH_COMMENT, shell: "(?<=^|\\s)#[^\\n]*", sql: "--[^\\n]*|/\\*[^]*?(?:\\*/|$)" };
const STRINGS = {
  python: `${TRIPLE_QUOTED}|${QUOTED}`,
  javascript: `${TEMPLATE}|${QUOTED}`,
  go: `${TEMPLATE}|${QUOTED}`,
  rust: '"(?:[^"\\\\]|\\\\[^])*"?|\'(?:[^\'\\\\\\n]|\\\\.)\'',
  shell: '"(?:[^"\\\\]|\\\\[^])*"?|\'[^\']*\'?',
  sql: "'(?:[^']|'')*'?",
};

const FORMS = new Map(Object.keys(WORDS).map((family) => [family, formOf(family)]));

function formOf(family) {
  const parts = [
    `(?<comment>${COMMENTS[family] ?? SLASH_COMMENT})`,
    `(?<string>${STRINGS[family] ?? QUOTED})`,
    "(?<number>(?<![\\w.])(?:0[xob][\\da-f_]+|\\d[\\d_]*(?:\\.\\d+)?(?:e[+-]?\\d+)?)\\w*)",
    "(?<word>[\\p{L}_$][\\p{L}\\p{N}_$]*)",
  ];
  return { words: new Set(WORDS[family].split(" ")), form: new RegExp(parts.join("|"), "giu") };
}

/** [kind, text] of each run; the kind is empty where nothing is known. */
export function highlighted(code, language) {
  const family = FAMILY_OF.get(language);
  if (!family) return code ? [["", code]] : [];
  const { words, form } = FORMS.get(family);
  const runs = [];
  let plain = 0;
  for (const found of code.matchAll(form)) {
    const kind = kindOf(found, words, family, code);
    if (!kind || !found[0]) continue;
    if (found.index > plain) runs.push(["", code.slice(plain, found.index)]);
    runs.push([kind, found[0]]);
    plain = found.index + found[0].length;
  }
  if (plain < code.length) runs.push(["", code.slice(plain)]);
  return runs;
}

function kindOf({ groups, index, 0: text }, words, family, code) {
  if (groups.word === undefined) return ["comment", "string", "number"].find((kind) => groups[kind] !== undefined);
  if (words.has(family === "sql" ? text.toLowerCase() : text)) return "keyword";
  return family !== "json" && code[index + text.length] === "(" ? "called" : "";
}
