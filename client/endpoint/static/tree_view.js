// The panel on how an answer comes about. Knows elements and the rows; it may not know requests.

import { CommitLog, rowsOf } from "./draft_tree.js";
import { $, element } from "./elements.js";

export class TreeView {
  #nodes = [];
  #log = new CommitLog();
  #isDrawn = true;

  constructor(isOpen) {
    this.open(isOpen);
    $("tree-close").addEventListener("click", () => {
      this.open(false);
      $("tree-open").focus();
    });
    $("tree-open").addEventListener("click", () => this.open($("tree").hidden));
  }

  open(isOpen) {
    $("tree").hidden = !isOpen;
    $("tree-open").setAttribute("aria-expanded", isOpen);
    document.body.classList.toggle("with-tree", isOpen);
    this.#draw();
  }

  /** Another answer begins. */
  begin() {
    this.#nodes = [];
    this.#log = new CommitLog();
    this.#drawSoon();
  }

  take({ drafted, commits }) {
    if (drafted) this.#nodes = drafted;
    if (commits) this.#log.add(commits);
    if (drafted || commits) this.#drawSoon();
  }

  #drawSoon() {
    if (!this.#isDrawn) return;
    this.#isDrawn = false;
    requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.#isDrawn = true;
    if ($("tree").hidden) return;
    const rows = rowsOf(this.#nodes);
    $("drafted").replaceChildren(...rows.map(rowElement));
    $("drafted-none").hidden = rows.length > 0;
    $("commits-summary").textContent = this.#log.summary;
    $("commits").replaceChildren(...this.#log.commits.map(commitElement));
  }
}

function rowElement({ depth, text, probability, isLikeliest }) {
  const share = element("span", "share", `${Math.round(100 * probability)}%`);
  const row = element("li", isLikeliest ? "likeliest" : "", element("span", "path", visible(text)), " ", share);
  row.style.setProperty("--depth", Math.min(depth, 8));
  return row;
}

function commitElement({ at_s: seconds, drafted, decided }) {
  const words = element("span", "path");
  if (drafted.length) words.append(element("span", "was-drafted", visible(drafted.join(""))), " ");
  if (decided.length) words.append(element("strong", "", visible(decided.join(""))));
  const count = drafted.length + decided.length;
  const said = `${seconds.toFixed(1)} s: ${drafted.length} of ${count} drafted`;
  return element("li", "", element("span", "share", said), " ", words);
}

/** Line breaks as a sign, and no space at the beginning. */
function visible(text) {
  return text.replace(/^ +/, "").replaceAll("\n", "⏎");
}
