// Where a browser keeps what the page gives it. It may not know what that is, nor elements.

/** What the browser keeps under this name, or, where it denies that, what goes with the page. */
export function storageOf(browser, name) {
  try {
    return browser[name];
  } catch {
    return new PassingStorage();
  }
}

/** As much of a browser's storage as the page uses, for as long as the page is open. */
export class PassingStorage {
  entries = new Map();

  get length() {
    return this.entries.size;
  }

  key(index) {
    return [...this.entries.keys()][index];
  }

  getItem(key) {
    return this.entries.get(key) ?? null;
  }

  setItem(key, value) {
    this.entries.set(key, value);
  }

  removeItem(key) {
    this.entries.delete(key);
  }
}
