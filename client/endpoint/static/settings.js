// What a person may set of an answer, checked before anybody is asked. Pure but for the storage, which is an argument;
// it may not know elements.
//
// Settings are { model, temperature, seed, rule }, each as it was typed; what is empty is left to the endpoint.

const KEY = "settings";
const HIGHEST_TEMPERATURE = 100;
const LARGEST_SEED = Number.MAX_SAFE_INTEGER;

export const UNSET = { model: "", temperature: "", seed: "", rule: "" };

export class SettingsStore {
  #storage;

  constructor(storage) {
    this.#storage = storage;
  }

  read() {
    try {
      const kept = JSON.parse(this.#storage.getItem(KEY)) ?? {};
      const known = Object.keys(UNSET).filter((name) => typeof kept[name] === "string");
      const settings = { ...UNSET, ...Object.fromEntries(known.map((name) => [name, kept[name]])) };
      return Object.keys(faultsOf(settings)).length ? UNSET : settings;
    } catch {
      return UNSET;
    }
  }

  /** Settings that cannot be kept hold for as long as the page is open. */
  keep(settings) {
    try {
      this.#storage.setItem(KEY, JSON.stringify(settings));
    } catch {
      // There is no room, and they are in use all the same.
    }
  }
}

/** A sentence for each setting that is wrong. */
export function faultsOf({ temperature, seed }) {
  const faults = {};
  const heat = Number(temperature);
  if (temperature.trim() && !(heat >= 0 && heat <= HIGHEST_TEMPERATURE)) {
    faults.temperature = `The temperature is a number from 0 to ${HIGHEST_TEMPERATURE}.`;
  }
  if (seed.trim() && !(/^\d+$/.test(seed.trim()) && Number(seed) <= LARGEST_SEED)) {
    faults.seed = `The seed is a whole number from 0 to ${LARGEST_SEED}.`;
  }
  return faults;
}

/** As the endpoint offers them: a model or a rule that is not there any more is not asked for. */
export function offered(settings, { models, rules }) {
  return {
    ...settings,
    model: models.includes(settings.model) ? settings.model : "",
    rule: rules.includes(settings.rule) ? settings.rule : "",
  };
}

/** What they add to a request. */
export function requestFields({ model, temperature, seed, rule }) {
  return {
    model: model || "outrider",
    ...(temperature.trim() && { temperature: Number(temperature) }),
    ...(seed.trim() && { seed: Number(seed) }),
    ...(rule && { rule }),
  };
}
