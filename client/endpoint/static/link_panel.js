// How the link is, as long as somebody looks, and the switch that cuts it. Knows elements and the endpoint.

import { $, amount, announce } from "./elements.js";

const RETRY_MS = 1500;

const SAID = {
  online: "The link is there.",
  suspect: "The link is silent.",
  offline: "The link is gone.",
  resuming: "The link is coming back.",
  unknown: "outrider is not running.",
};

export class LinkPanel {
  #endpoint;

  constructor(endpoint) {
    this.#endpoint = endpoint;
    $("cut").addEventListener("click", () => this.#turn());
  }

  async watch() {
    for (;;) {
      try {
        const watching = new AbortController();
        document.onvisibilitychange = () => document.hidden && watching.abort();
        const statuses = this.#endpoint.events("/page/status", { signal: watching.signal });
        for await (const status of statuses) this.#showStatus(status);
      } catch {
        // It is asked again below.
      }
      if (!document.hidden) {
        this.show("unknown", "not running");
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
      while (document.hidden) {
        await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
      }
    }
  }

  show(link, words = link) {
    if ($("state").textContent === words) return;
    const isFirst = $("state").textContent === "…";
    $("link").dataset.link = link;
    $("state").textContent = words;
    if (!isFirst) announce(SAID[link]);
  }

  #showStatus(status) {
    this.show(status.link);
    $("draft").textContent = `model ${status.draft}`;
    $("server").textContent = status.server;
    $("target").textContent = `model ${status.model}`;
    $("trip").textContent = status.rtt_ms === null ? "–" : `${Math.round(status.rtt_ms)} ms`;
    $("speed").textContent = status.tokens_per_second === null ? "–" : status.tokens_per_second.toFixed(1);
    $("up").textContent = amount(status.bytes_up);
    $("down").textContent = amount(status.bytes_down);
    const hasSwitch = status.is_cut !== null;
    $("cut").hidden = $("invitation").hidden = !hasSwitch;
    if (hasSwitch) this.#showCut(status.is_cut);
  }

  async #turn() {
    const cut = $("cut").dataset.cut !== "true";
    this.#showCut(cut);
    try {
      await this.#endpoint.request("/page/link", { body: { cut } });
    } catch {
      this.#showCut(!cut);
    }
  }

  #showCut(cut) {
    $("cut").dataset.cut = cut;
    $("cut").textContent = cut ? "Restore the link" : "Cut the link";
  }
}
