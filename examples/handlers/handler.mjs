// A handler: drains before an event, approves once, recovers. Usage: node handler.mjs [BASE_URL]. Needs Node 18 or newer.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const base = process.argv[2] ?? "http://169.254.169.254";
const NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text";
const EVENTS = "/metadata/scheduledevents?api-version=2020-07-01";
const TYPES = ["Freeze", "Reboot", "Redeploy", "Preempt", "Terminate"]; // other types need no approval
const { FAIRWARNING_DRAIN: drain = "true", FAIRWARNING_RECOVER: recover = "true" } = process.env; // your work
const memory = `${process.env.FAIRWARNING_WORK ?? "."}/handler-memory.json`; // must survive a reboot

let name = "";
let wait = 1, timeout = 150; // seconds; the first answer may take two minutes
let done = existsSync(memory) ? JSON.parse(readFileSync(memory, "utf8")) : {};

async function ask(path, body) {
  const method = body ? "POST" : "GET";
  const signal = AbortSignal.timeout(timeout * 1000);
  const answer = await fetch(base + path, { method, body, signal, headers: { Metadata: "true" } });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${answer.status} ${text}`);
  return text;
}

function act(what, program, id) {
  console.log(`${name}: ${what} (${id})`);
  const { status } = spawnSync(program, [id], { stdio: "inherit" });
  if (status !== 0) throw new Error(`${program} failed`);
}

function remember(changed) {
  done = changed;
  writeFileSync(memory, JSON.stringify(done));
}

async function poll() {
  const { Events: events } = JSON.parse(await ask(EVENTS));
  const ours = events.filter((event) => event.Resources.includes(name));
  let drained = false;
  for (const { EventId: id, EventStatus, EventType, Resources } of ours) {
    const waits = EventStatus === "Scheduled" && TYPES.includes(EventType);
    if (!(id in done)) {
      act("draining", drain, id);
      remember({ ...done, [id]: "drained" });
      drained = true;
    } else if (Resources.length === 1 && waits && done[id] === "drained") { // only our own
      await ask(EVENTS, JSON.stringify({ StartRequests: [{ EventId: id }] }));
      remember({ ...done, [id]: "approved" });
    }
  }
  if (drained) return poll(); // look again before approving: the event may be over
  if (ours.length === 0 && Object.keys(done).length > 0) { // not before, whatever duration was announced
    for (const id of Object.keys(done)) act("back to work", recover, id);
    remember({});
  }
}

while (true) {
  try {
    name ||= await ask(NAME);
    if (!name) throw new Error("the machine has no name yet");
    await poll();
    wait = 1, timeout = 10;
  } catch (problem) { // a failed poll says nothing about events
    console.error(`${name}: ${problem.message}; trying again`);
    wait = Math.min(wait * 2, 8);
  }
  await sleep(wait * 1000);
}
