// Asks a person for the endpoint's API key. Knows elements alone.

import { $ } from "./elements.js";

/** The key that is typed; `wasRefused` tells whether another one was wrong. */
export function askForKey(wasRefused) {
  if (wasRefused) $("lock-why").textContent = "That was not this endpoint's API key.";
  return new Promise((resolve) => {
    $("lock").showModal();
    $("lock").onclose = () => $("lock").showModal(); // browsers let nobody keep it open at a second Escape
    $("unlock").onsubmit = (event) => {
      event.preventDefault();
      const key = $("key").value.trim();
      $("key").value = "";
      $("lock").onclose = null;
      $("lock").close();
      resolve(key);
    };
  });
}

$("lock").addEventListener("cancel", (event) => event.preventDefault()); // nothing works without the key
