// The list of conversations: open, rename, delete. Knows elements and the store; it may not know answers.

import { $, announce, button, element } from "./elements.js";

const COVERED = ".tools, #link, main > *, #below > *"; // by the list on a narrow page; its landmarks stay

export class ConversationList {
  #store;
  #open;
  #left;
  #rows = new Map(); // of each conversation, by its id
  #undo = null;
  #current = "";

  /** `open` is called with the id of the one that is wanted, `left` if the open one is deleted. */
  constructor(store, open, left) {
    this.#store = store;
    this.#open = open;
    this.#left = left;
    $("list-open").addEventListener("click", () => this.#show(!document.body.classList.contains("with-list")));
    const closeFirst = (event) => {
      const isOpen = document.body.classList.contains("with-list");
      if (event.key !== "Escape" || !isOpen || event.isComposing || event.target.closest("#list input")) return;
      event.stopPropagation(); // so that a running answer goes on
      this.#show(false);
      $("list-open").focus();
    };
    document.addEventListener("keydown", closeFirst, true);
    matchMedia("(min-width: 82rem)").addEventListener("change", () => this.#show(false)); // as in panels.css
    document.addEventListener("pointerdown", ({ target }) => {
      if (!$("conversations").contains(target) && target !== $("list-open")) this.#show(false);
    });
    addEventListener("storage", () => this.draw(this.#current));
  }

  draw(current) {
    this.#current = current;
    const conversations = this.#store.all();
    this.#place(conversations);
    $("list-none").hidden = conversations.length > 0;
    $("undo").replaceChildren(...(this.#undo ? ["Deleted. ", button("Undo", () => this.#restore())] : []));
  }

  /** On a narrow page, where it covers the rest. */
  #show(isShown) {
    if (isShown === document.body.classList.contains("with-list")) return;
    document.body.classList.toggle("with-list", isShown);
    $("list-open").setAttribute("aria-expanded", isShown);
    for (const covered of document.querySelectorAll(COVERED)) covered.inert = isShown;
    if (isShown) ($("list").querySelector("button") ?? $("anew")).focus();
  }

  close() {
    this.#show(false);
  }

  /** The row that has the focus stays where it is, and the others are put around it: what is moved loses the focus. */
  #place(conversations) {
    const ids = new Set(conversations.map(({ id }) => id));
    for (const [id, row] of this.#rows) {
      if (ids.has(id)) continue;
      const hadFocus = row.element.contains(document.activeElement);
      this.#rows.delete(id);
      row.element.remove();
      if (hadFocus) $("anew").focus();
    }
    let next = null;
    for (const conversation of conversations.toReversed()) {
      const { id } = conversation;
      if (!this.#rows.has(id)) this.#rows.set(id, this.#row(id));
      const row = this.#rows.get(id);
      row.tell(conversation);
      const isInPlace = row.element.parentNode && row.element.nextSibling === next;
      if (!isInPlace && !row.element.contains(document.activeElement)) $("list").insertBefore(row.element, next);
      next = row.element;
    }
  }

  #row(id) {
    const open = button("", () => this.#openOne(id), "title");
    const rename = button("Rename", () => this.#rename(id));
    const forget = button("Delete", () => this.#forget(id));
    const shown = [open, element("span", "row-actions", rename, forget)];
    const tell = ({ title }) => {
      open.textContent = title;
      if (id === this.#current) open.setAttribute("aria-current", "true");
      else open.removeAttribute("aria-current");
      rename.setAttribute("aria-label", `Rename: ${title}`);
      forget.setAttribute("aria-label", `Delete: ${title}`);
    };
    return { element: element("li", "", ...shown), open, shown, tell };
  }

  #openOne(id) {
    this.#undo = null;
    this.close();
    this.#open(id);
  }

  #rename(id) {
    const row = this.#rows.get(id);
    const box = element("input");
    box.value = row.open.textContent;
    box.setAttribute("aria-label", "Name of the conversation");
    const finish = (isKept) => {
      box.onblur = null;
      if (isKept) this.#attempt(() => this.#store.rename(id, box.value));
      row.element.replaceChildren(...row.shown);
      this.draw(this.#current);
    };
    box.onblur = () => finish(true);
    box.addEventListener("keydown", (event) => {
      if (event.isComposing || (event.key !== "Enter" && event.key !== "Escape")) return;
      event.stopPropagation();
      finish(event.key === "Enter");
      row.open.focus();
    });
    row.element.replaceChildren(box);
    box.focus();
    box.select();
  }

  #forget(id) {
    if (id === this.#current) this.#left(); // which keeps it once more
    this.#undo = this.#store.forget(id);
    this.draw(this.#current);
    announce("Deleted.");
    $("undo").querySelector("button")?.focus();
  }

  #restore() {
    this.#attempt(this.#undo);
    this.#undo = null;
    this.draw(this.#current);
    $("list").querySelector("button")?.focus();
  }

  #attempt(change) {
    try {
      change();
    } catch (error) {
      announce(error.message);
      $("unkept").textContent = error.message;
    }
  }
}
