// What pages gain by scripts: countdowns by the server's clock, local time, and word of a lost connection.

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

const two = (number) => String(number).padStart(2, "0");

function left(milliseconds) {
  const seconds = Math.ceil(milliseconds / 1000);
  if (seconds <= 0) return "due";
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  const clockwise = hours || days ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
  return days ? `in ${days}d ${clockwise}` : `in ${clockwise}`;
}

function since(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 5) return "just now";
  const [length, unit] = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]].find(([length]) => seconds >= length);
  return `${Math.floor(seconds / length)}${unit} ago`;
}

const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

// Writes only what differs: whatever is written here wakes the observer again.
function put(element, name, value) {
  if (element[name] !== value) element[name] = value;
}

function refresh() {
  readClock();
  const now = serverNow();
  put(byId("clock").querySelector(".utc"), "textContent", new Date(now).toISOString().slice(11, 19));
  for (const one of document.querySelectorAll("[data-local-now]")) put(one, "textContent", local.format(now));
  for (const one of document.querySelectorAll("[data-utc-now]")) {
    put(one, "textContent", `${new Date(now).toISOString().slice(0, 19).replace("T", " ")}Z`);
  }
  for (const one of document.querySelectorAll("time[datetime]")) {
    const when = Date.parse(one.dateTime);
    put(one, "title", `${one.dateTime.slice(0, 19).replace("T", " ")}Z, ${local.format(when)} local time`);
    if (one.classList.contains("ago")) put(one, "textContent", since(now - when));
    if (one.classList.contains("countdown")) {
      put(one, "textContent", left(when - now));
      one.classList.toggle("soon", when - now < 60000);
    }
  }
}

new MutationObserver(refresh).observe(document.body, {
  subtree: true, childList: true, characterData: true, attributeFilter: ["datetime", "data-now"],
});
refresh();
setInterval(refresh, 250);

// -- the connection

let lost = null;

function tellLost() {
  lost ??= setTimeout(() => put(byId("connection"), "hidden", false), 700);
}

function tellFound() {
  clearTimeout(lost);
  lost = null;
  put(byId("connection"), "hidden", true);
}

document.addEventListener("htmx:sse:after:connection", tellFound);
document.addEventListener("htmx:sse:before:connection", ({ detail }) => {
  if (detail.connection.attempt > 0 && !document.hidden) tellLost();
});
document.addEventListener("htmx:sse:error", ({ detail }) => {
  // The session is over: the page that comes now says what to do.
  if (detail.status === 401) location.reload();
});
// Replacing the stream by that of another search ends the old one, which is no failure.
window.addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name === "AbortError") event.preventDefault();
});
document.addEventListener("htmx:error", ({ detail }) => {
  const live = byId("live");
  if (detail.ctx?.sourceElement !== live) return;
  // The first connection is the one that the extension does not try again.
  tellLost();
  setTimeout(() => htmx.process(live, true), 2000);
});

// -- forms, copying, the theme

// A page that was open while its server was replaced has forms of the old one.
document.addEventListener("submit", ({ target }) => {
  if (target.elements?.csrf) target.elements.csrf.value = byId("proof").dataset.csrf;
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
