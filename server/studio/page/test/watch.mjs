// Watch: the work of the server while it is done, and where the time of a request went.
import assert from "node:assert/strict";
import { open } from "./browser.mjs";

async function speech(url, fields) {
  const answer = await fetch(new URL("/v1/audio/speech", url), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ input: "Hello there. How are you?", response_format: "pcm", ...fields }),
  });
  await answer.arrayBuffer();
}

export async function watch(url) {
  await speech(url, {});
  const studio = await open(url);
  await studio.view("Watch");
  // A request that ended before the page was opened, and one that ends while it is open.
  await studio.until(() => document.querySelector(".waterfall"));
  await speech(url, {});
  await studio.until(() => document.querySelector("section:not([hidden])").textContent.includes("Timeline of request 2"));
  const steps = await studio.page.$$eval(".waterfall tbody th", (heads) => heads.map((head) => head.textContent));
  for (const step of ["queue", "session → talker", "talker → code2wav", "code2wav → caller", "first audio"]) {
    assert.ok(steps.includes(step), `${step} is missing in ${steps}`);
  }
  assert.ok(steps.some((step) => /^talker \d+$/.test(step)) && steps.some((step) => /^code2wav \d+$/.test(step)), `${steps}`);
  assert.match(await studio.figure("Running"), /^\d+$/);
  assert.match(await studio.figure("First audio, median"), /^[\d.]+ m?s$/);
  const replicas = await studio.page.$$eval('[aria-label="Replicas"] tbody tr', (rows) => rows.map((row) => row.innerText));
  assert.ok(replicas.some((row) => row.includes("talker") && row.includes("ready")), `${replicas}`);
  // An older request is chosen, and looked at to its end.
  await studio.press("1: show its timeline");
  await studio.until(() => document.querySelector("section:not([hidden])").textContent.includes("Timeline of request 1"));
  await studio.page.click('.check input[type="checkbox"]');
  await studio.judge("watch");
  const link = await studio.page.$eval("section:not([hidden]) a", (node) => node.href);
  assert.match(link, /\/metrics$/);
  assert.match(await studio.text("section:not([hidden])"), /Complete\./, "how the request ended");
  assert.match(await studio.page.$eval('[aria-label="Requests that ended last"] td[title]', (node) => node.title), /Complete\./);

  // A tab that is not shown, and a view that is not, leave the connections to others; then everything begins anew.
  const show = (state) =>
    studio.page.evaluate((state) => {
      Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, state);
  const points = () => studio.page.$eval(".chart .running", (line) => line.getAttribute("points").split(" ").length);
  await studio.calls("WatchService", 2);
  await studio.until(() => document.querySelector(".chart .running").getAttribute("points").split(" ").length >= 3);
  await show("hidden");
  await studio.calls("WatchService", 0);
  const before = await points();
  await show("visible");
  await studio.calls("WatchService", 2);
  await studio.until((before) => document.querySelector(".chart .running")?.getAttribute("points").split(" ").length < before, before);
  await studio.view("Voices");
  await studio.calls("WatchService", 0);
  await studio.close();
}

/** A server that does not show its work says so. */
export async function hidden(url) {
  const studio = await open(url);
  await studio.view("Watch");
  await studio.until(() => document.querySelector('section:not([hidden]) [role="alert"]')?.textContent.includes("does not show its work"));
  await studio.judge("watch-hidden");
  await studio.close();
}
