// What the page's parts are made of: elements, buttons, and what is said to people who do not see the page.

export const $ = (id) => document.getElementById(id);

export function element(name, kind = "", ...content) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  made.append(...content);
  return made;
}

export function button(words, pressed, kind = "quiet") {
  const made = element("button", kind, words);
  made.type = "button";
  made.addEventListener("click", pressed);
  return made;
}

/** Shown as pressed or not; `switched` is told which. */
export function toggle(words, switched) {
  const made = button(words, () => {
    const isPressed = made.getAttribute("aria-pressed") !== "true";
    made.setAttribute("aria-pressed", isPressed);
    switched(isPressed);
  });
  made.setAttribute("aria-pressed", false);
  return made;
}

/** A short message for screen readers, which what is shown tells everybody else. */
export function announce(message) {
  $("news").textContent = message;
}

/** Puts a text on the clipboard, and says at the button whether that was possible. */
export async function copy(text, from) {
  let outcome = "Copied";
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    outcome = "This browser does not let the page copy"; // as where the page does not come from this machine
  }
  announce(outcome);
  from.dataset.outcome = outcome;
  setTimeout(() => delete from.dataset.outcome, 2000);
}

export function amount(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
