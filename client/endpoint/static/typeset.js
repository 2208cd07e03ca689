// Elements of Markdown's blocks. Text goes in as text alone, never as HTML, and what only marks is there but not shown,
// so that the text content is the text to the letter. Knows elements; it may not know answers.

import { copy, element } from "./elements.js";
import { highlighted } from "./highlight.js";

const PLAIN = new Set(["p", "blockquote", "ul", "ol", "li", "strong", "em", "s", "code", "thead", "tbody", "tr", "th", "td"]);
const LEAST_LEVEL = 3; // of headings, for that of the question is 2
const GREATEST_LEVEL = 6;

/** The element of a block. `levels` holds the level of the last heading, so that none is left out. */
export function typeset(node, levels) {
  if (node.text !== undefined) return document.createTextNode(node.text);
  if (node.mark !== undefined) return element("span", "mark", node.mark);
  const inside = () => node.children.map((child) => typeset(child, levels));
  switch (node.tag) {
    case "heading":
      levels.last = Math.min(node.level + LEAST_LEVEL - 1, levels.last + 1, GREATEST_LEVEL);
      return element(`h${levels.last}`, "", ...inside());
    case "code block":
      return codeBlock(node);
    case "table":
      return scrolling(element("table", "", ...inside()));
    case "a":
      return link(node.address, inside());
    case "hr":
      return element("div", "ruled", document.createElement("hr"), ...inside());
    case "gap":
      return element("span", "gap", ...inside());
    default:
      return list(element(PLAIN.has(node.tag) ? node.tag : "span", "", ...inside()), node);
  }
}

function list(made, { start }) {
  if (made instanceof HTMLOListElement && start !== null) made.start = start;
  return made;
}

function link(address, content) {
  const made = element("a", "", ...content);
  made.href = address;
  made.target = "_blank";
  made.rel = "noopener noreferrer";
  return made;
}

/** What is wider than the page is moved by keys as well. */
function scrolling(table) {
  const made = element("div", "table", table);
  made.tabIndex = 0;
  made.setAttribute("role", "region");
  made.setAttribute("aria-label", "Table");
  return made;
}

/** The words on the bar and its button are of the style sheet, for they are not of the text. */
function codeBlock({ language, code, children }) {
  const bar = element("div", "bar");
  bar.dataset.language = language;
  const copying = element("button", "quiet copy");
  copying.type = "button";
  copying.setAttribute("aria-label", language ? `Copy the ${language} code` : "Copy the code");
  copying.addEventListener("click", () => copy(code, copying));
  bar.append(copying);
  const runs = highlighted(code, language).map(([kind, part]) => (kind ? element("span", kind, part) : part));
  return element("div", "code-block", bar, element("pre", "", element("code", "", ...woven(runs, children))));
}

/** The runs of the code with the marks between them. */
function woven(runs, children) {
  const made = [];
  let [index, used] = [0, 0]; // of the run that is next, and of its characters
  for (const child of children) {
    if (child.mark !== undefined) made.push(element("span", "mark", child.mark));
    for (let left = child.text?.length ?? 0; left > 0; ) {
      const run = runs[index];
      const words = typeof run === "string" ? run : run.textContent;
      const part = words.slice(used, used + left);
      made.push(typeof run === "string" ? part : element("span", run.className, part));
      left -= part.length;
      used += part.length;
      if (used === words.length) [index, used] = [index + 1, 0];
    }
  }
  return made;
}
