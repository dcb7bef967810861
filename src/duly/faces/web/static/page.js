// What a page can do more with JavaScript: it follows its own address, keeps what a person is doing,
// and has keys. Every sentence stands in the page already; nothing is made of text but text.
"use strict";

const body = document.body;
const told = document.getElementById("told");
const REOPEN_MS = 2000;

// -- The stream of the page -----------------------------------------------------------------------

let source = null;
let wasLost = false;

function follow() {
  const main = document.querySelector("main[data-live]");
  if (!main || document.hidden || source) return;
  source = new EventSource(location.href);
  source.addEventListener("page", (event) => {
    const fresh = new DOMParser().parseFromString(JSON.parse(event.data), "text/html");
    take(main, fresh.querySelector("main"));
  });
  source.onerror = () => {
    wasLost = true;
    tell(body.dataset.lost);
    // A browser tries again by itself, but not after an answer that is no stream.
    if (source && source.readyState === EventSource.CLOSED) ask();
  };
}

// An event source hides why it was refused: not signed in any more, or not here any more.
async function ask() {
  close();
  const answer = await fetch(location.href, { headers: { accept: "text/event-stream" } }).catch(() => null);
  if (answer && answer.body) answer.body.cancel();
  const said = answer && { 401: body.dataset.signedOut, 404: body.dataset.notHere }[answer.status];
  said ? tell(said) : setTimeout(follow, REOPEN_MS);
}

function close() {
  if (source) source.close();
  source = null;
}

function take(main, fresh) {
  const isOther = main.dataset.host !== fresh.dataset.host;
  if (wasLost) tell(isOther ? body.dataset.restarted : body.dataset.back);
  wasLost = false;
  main.dataset.host = fresh.dataset.host;
  morphChildren(main, fresh);
  countNew();
}

function tell(text) {
  told.textContent = text;
  told.hidden = false;
}

document.addEventListener("visibilitychange", () => (document.hidden ? close() : follow()));
addEventListener("pagehide", close);
addEventListener("pageshow", () => {
  for (const form of document.forms) delete form.dataset.sent;
  follow();
});

// -- Change in place what has changed --------------------------------------------------------------

const KEPT = new Set(["open", "hidden", "data-sent"]); // by a person; a new row waits; sent already

function keyOf(node) {
  return node.nodeType === 1 ? node.dataset.key || node.id || "" : "";
}

function isAlike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);
}

function isBusy(node) {
  if (node.nodeType !== 1) return false;
  return node.contains(document.activeElement) || [...node.querySelectorAll("input, textarea, select")].some(isTouched);
}

function isTouched(field) {
  if (field.type === "checkbox") return field.checked !== field.defaultChecked;
  if (field.nodeName === "SELECT") return field.dataset.touched !== undefined;
  return field.value !== field.defaultValue;
}

function morph(old, fresh) {
  if (old.nodeType !== 1) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  // A call that changed does not change under the hand that says yes: the host answers with both.
  if (old.dataset.hash && fresh.dataset.hash && old.dataset.hash !== fresh.dataset.hash) return;
  const isField = old.matches("input, textarea, select");
  if (isField && (isTouched(old) || old === document.activeElement)) return;
  for (const { name, value } of [...fresh.attributes]) {
    if (!KEPT.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    const isOurs = KEPT.has(name) || (name === "class" && old.classList.contains("at"));
    if (!isOurs && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  if (isField && old.nodeName === "TEXTAREA") old.value = fresh.defaultValue;
  else morphChildren(old, fresh);
}

function morphChildren(old, fresh) {
  const isList = old.hasAttribute && old.hasAttribute("data-rows");
  const hadRows = isList && old.querySelector("[data-key]") !== null;
  const keyed = new Map();
  for (const child of old.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child);
  const stays = new Set([...fresh.childNodes].map(keyOf));
  let place = pass(old.firstChild);
  for (const wanted of [...fresh.childNodes]) {
    const key = keyOf(wanted);
    while (place && keyOf(place) && !stays.has(keyOf(place))) place = pass(drop(place));
    const match = key ? keyed.get(key) : place;
    if (match && isAlike(match, wanted)) {
      if (match !== place) old.insertBefore(match, place);
      else place = pass(place.nextSibling);
      morph(match, wanted);
    } else {
      const made = document.importNode(wanted, true);
      // A section is all that its page is about: only the call of another approval waits.
      if (hadRows && key && (wanted.nodeName !== "SECTION" || wanted.dataset.hash)) made.hidden = true;
      old.insertBefore(made, place);
    }
  }
  while (place) place = pass(drop(place));
}

// The bar with the number of new rows is ours, and in no page.
function pass(node) {
  while (node && node.nodeType === 1 && node.classList.contains("new")) node = node.nextSibling;
  return node;
}

// Something that a person is busy with stays until they are done with it. Where it goes, what moves
// up to its place is not pressed by a click that was meant for it.
function drop(node) {
  const next = node.nextSibling;
  if (isBusy(node)) node.dataset.gone = "";
  else node.remove();
  if (node.nodeName === "ARTICLE") for (const each of document.getAnimations()) each.play();
  return next;
}

// -- New rows wait until they are asked for --------------------------------------------------------

function countNew() {
  for (const list of document.querySelectorAll("[data-rows]")) {
    const rows = [...list.children].filter((each) => each.hidden);
    const around = list.closest("table") || list;
    let bar = around.previousElementSibling;
    if (!bar || bar.className !== "new") {
      if (!rows.length) continue;
      bar = document.createElement("div");
      bar.className = "new";
      bar.setAttribute("role", "status");
      bar.append(document.createElement("button"));
      around.before(bar);
    }
    if (!rows.length) bar.remove();
    bar.firstChild.textContent = `${rows.length} ${body.dataset.new}`;
    bar.firstChild.onclick = () => {
      for (const row of rows) row.hidden = false;
      bar.remove();
    };
  }
}

// -- Fields ----------------------------------------------------------------------------------------

document.addEventListener("input", (event) => {
  const field = event.target;
  if (field.nodeName === "SELECT") field.dataset.touched = "";
  if (!field.matches("[data-json]")) return;
  let problem = "";
  try {
    JSON.parse(field.value);
  } catch (error) {
    problem = `${body.dataset.notJson} ${error.message}`;
  }
  field.setCustomValidity(problem);
  field.toggleAttribute("aria-invalid", problem !== "");
  field.title = problem;
});

// A second click on the way sends nothing; the host would refuse it anyway.
document.addEventListener("submit", (event) => {
  if (event.target.method !== "post") return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "1";
});

// A button that copies a field is there only with JavaScript; without it a person marks the field.
for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  document.getElementById(`${button.dataset.copy}-by-hand`)?.setAttribute("hidden", "");
  button.addEventListener("click", async () => {
    const field = document.getElementById(button.dataset.copy);
    field.select();
    try {
      await navigator.clipboard.writeText(field.value);
    } catch {
      if (!document.execCommand("copy")) return; // it is marked, and Ctrl+C copies it
    }
    tell(body.dataset.copied);
  });
}

// -- Keys ------------------------------------------------------------------------------------------

function move(step) {
  const all = [...document.querySelectorAll("[data-item]")].filter((each) => !each.hidden);
  if (!all.length) return;
  const old = document.querySelector(".at");
  const at = old ? all.indexOf(old) + step : step > 0 ? 0 : all.length - 1;
  const next = all[Math.min(Math.max(at, 0), all.length - 1)];
  old?.classList.remove("at");
  next.classList.add("at");
  next.scrollIntoView({ block: "nearest" });
  next.querySelector("a[href], button")?.focus({ preventScroll: true });
}

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  a: press,
  r: press,
  "/": () => {
    const field = document.querySelector("[data-find]");
    field ? field.focus() : document.querySelector('nav a[href$="/find"]')?.click();
  },
  "?": () => document.getElementById("keys").showModal(),
};

function press(act) {
  (document.querySelector(".at") || document).querySelector(`[data-act="${act}"]`)?.focus();
}

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey;
  if (isTyping || !(event.key in KEYS) || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  KEYS[event.key](event.key);
});
