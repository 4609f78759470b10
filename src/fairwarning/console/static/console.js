// What scripts add to a page: countdowns by the server's clock, local times, and a note when the connection is lost.

const byId = (id) => document.getElementById(id);

// -- the server's clock

const clock = { stamp: "", manual: false, shown: 0, offset: 0 };

function readClock() {
  const { now, mode } = byId("clock").dataset;
  if (now === clock.stamp) return;
  const shown = Date.parse(now);
  Object.assign(clock, { stamp: now, manual: mode === "manual", shown, offset: shown - Date.now() });
}

const serverNow = () => (clock.manual ? clock.shown : Date.now() + clock.offset);

// -- times

const twoDigits = (number) => String(number).padStart(2, "0");

function timeLeft(milliseconds) {
  const seconds = Math.ceil(milliseconds / 1000);
  if (seconds <= 0) return "due";
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  const clockTime = hours || days ? `${hours}:${twoDigits(minutes)}:${twoDigits(seconds % 60)}` : `${minutes}:${twoDigits(seconds % 60)}`;
  return days ? `in ${days}d ${clockTime}` : `in ${clockTime}`;
}

function age(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 5) return "just now";
  const [length, unit] = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]].find(([length]) => seconds >= length);
  return `${Math.floor(seconds / length)}${unit} ago`;
}

const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

// Writes only changed values: every write triggers the observer below again.
function update(element, name, value) {
  if (element[name] !== value) element[name] = value;
}

function refresh() {
  readClock();
  const now = serverNow();
  update(byId("clock").querySelector(".utc"), "textContent", new Date(now).toISOString().slice(11, 19));
  for (const element of document.querySelectorAll("[data-local-now]")) update(element, "textContent", local.format(now));
  for (const element of document.querySelectorAll("[data-utc-now]")) {
    update(element, "textContent", `${new Date(now).toISOString().slice(0, 19).replace("T", " ")}Z`);
  }
  for (const element of document.querySelectorAll("time[datetime]")) {
    const when = Date.parse(element.dateTime);
    update(element, "title", `${element.dateTime.slice(0, 19).replace("T", " ")}Z, ${local.format(when)} local time`);
    if (element.classList.contains("ago")) update(element, "textContent", age(now - when));
    if (element.classList.contains("countdown")) {
      update(element, "textContent", timeLeft(when - now));
      element.classList.toggle("soon", when - now < 60000);
    }
  }
}

new MutationObserver(refresh).observe(document.body, {
  subtree: true, childList: true, characterData: true, attributeFilter: ["datetime", "data-now"],
});
refresh();
setInterval(refresh, 250);

// -- the connection

let lostTimer = null;

function showDisconnected() {
  lostTimer ??= setTimeout(() => update(byId("connection"), "hidden", false), 700);
}

function hideDisconnected() {
  clearTimeout(lostTimer);
  lostTimer = null;
  update(byId("connection"), "hidden", true);
}

document.addEventListener("htmx:sse:after:connection", hideDisconnected);
document.addEventListener("htmx:sse:before:connection", ({ detail }) => {
  if (detail.connection.attempt > 0 && !document.hidden) showDisconnected();
});
document.addEventListener("htmx:sse:error", ({ detail }) => {
  // The session has ended: the reload leads to the login page.
  if (detail.status === 401) location.reload();
});
// A new search replaces the stream; the end of the old stream is not an error.
window.addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name === "AbortError") event.preventDefault();
});
document.addEventListener("htmx:error", ({ detail }) => {
  const live = byId("live");
  if (detail.ctx?.sourceElement !== live) return;
  // The extension retries every connection except the first.
  showDisconnected();
  setTimeout(() => htmx.process(live, true), 2000);
});

// -- forms, copying, the theme

// A page that stays open across a restart of the server has forms with an old CSRF token.
document.addEventListener("submit", ({ target }) => {
  if (target.elements?.csrf) target.elements.csrf.value = byId("csrf-token").dataset.csrf;
}, true);

document.addEventListener("click", async ({ target }) => {
  const button = target.closest("[data-copy]");
  if (!button) return;
  const source = byId(button.dataset.copy);
  getSelection().selectAllChildren(source);
  await navigator.clipboard?.writeText(source.textContent);
  button.textContent = navigator.clipboard ? "Copied" : "Selected";
});

byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
});
