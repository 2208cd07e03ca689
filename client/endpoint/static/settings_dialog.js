// The settings as a form. Knows elements and the settings; what may be chosen is told by the endpoint.

import { $, element } from "./elements.js";
import { faultsOf, offered, SettingsStore, UNSET } from "./settings.js";

const RULES = {
  coupled: ["Repeatable", "The same seed gives the same text."],
  speculative: ["Drawn anew", "As likely as the large model's own text, but a seed repeats nothing."],
  typical: ["Loose", "What is near enough is taken: not exactly the large model's own text."],
};
// `greedy` is what all of them are at temperature 0.

const FIELDS = Object.keys(UNSET);

export class SettingsDialog {
  #store;
  #endpoint;
  #choices = null; // that the endpoint offers, once it was asked
  #settings;
  #learning = null; // of the choices, where something is kept that may not be one any more

  constructor(storage, endpoint) {
    this.#store = new SettingsStore(storage);
    this.#endpoint = endpoint;
    this.#settings = this.#store.read();
    $("settings-open").addEventListener("click", () => this.#open());
    $("settings-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    $("settings-form").addEventListener("reset", (event) => {
      event.preventDefault();
      this.#fill(UNSET);
      this.#showFaults({});
    });
    $("set-rule").addEventListener("change", () => this.#explain());
    $("settings-cancel").addEventListener("click", () => $("settings").close());
    this.#mark();
    if (this.#settings.model || this.#settings.rule) {
      this.#learning = this.#learn().catch(() => {}); // a question tells what is wrong
    }
  }

  /** What holds for the next question. */
  async settings() {
    await this.#learning;
    return this.#offered;
  }

  get #offered() {
    return this.#choices ? offered(this.#settings, this.#choices) : this.#settings;
  }

  async #open() {
    let fault = "";
    try {
      await this.#learn();
    } catch (error) {
      fault = error.message;
    }
    this.#fill();
    this.#showFaults({});
    $("settings").showModal();
    $("settings-fault").textContent = fault;
  }

  async #learn() {
    this.#choices = await (await this.#endpoint.request("/page/choices")).json();
  }

  #explain() {
    const rule = RULES[$("set-rule").value || this.#choices?.rule];
    $("hint-rule").textContent = rule ? `${rule[1]} At temperature 0 all choices do the same.` : "";
  }

  #fill(settings = this.#offered) {
    const { models, rules, temperature } = this.#choices ?? { models: [], rules: [], temperature: 0 };
    const known = rules.filter((rule) => rule in RULES).map((rule) => [rule, RULES[rule][0]]);
    $("set-rule").replaceChildren(...[["", "Default"], ...known].map(option));
    $("set-model").replaceChildren(...[["", models[0] ?? "The server's first"], ...models.slice(1).map(named)].map(option));
    $("set-temperature").placeholder = String(temperature);
    for (const name of FIELDS) $(`set-${name}`).value = settings[name];
    this.#explain();
  }

  #submit() {
    const typed = Object.fromEntries(FIELDS.map((name) => [name, $(`set-${name}`).value.trim()]));
    const faults = faultsOf(typed);
    this.#showFaults(faults);
    const [first] = Object.keys(faults);
    if (first) {
      $(`set-${first}`).focus();
      return;
    }
    this.#settings = typed;
    this.#store.keep(typed);
    this.#mark();
    $("settings").close();
  }

  #showFaults(faults) {
    $("settings-fault").textContent = "";
    for (const name of ["temperature", "seed"]) {
      $(`fault-${name}`).textContent = faults[name] ?? "";
      $(`set-${name}`).setAttribute("aria-invalid", name in faults);
    }
  }

  /** Shows at the button that something is set. */
  #mark() {
    const isSet = FIELDS.some((name) => this.#settings[name]);
    $("settings-open").textContent = isSet ? "Settings (changed)" : "Settings";
  }
}

function named(name) {
  return [name, name];
}

function option([value, words]) {
  const made = element("option", "", words);
  made.value = value;
  return made;
}
