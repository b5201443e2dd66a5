// Watch: what the server does is seen while it does it, and where the time of a request went.
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
  // What ended before the page was opened, and what ends while it is.
  await studio.until(() => document.querySelector(".waterfall"));
  await speech(url, {});
  await studio.until(() => document.querySelector("section:not([hidden])").textContent.includes("Course of request 2"));
  const steps = await studio.page.$$eval(".waterfall tbody th", (heads) => heads.map((head) => head.textContent));
  for (const step of ["queue", "session → talker", "talker → code2wav", "code2wav → caller", "first packet"]) {
    assert.ok(steps.includes(step), `${step} is missing in ${steps}`);
  }
  assert.ok(steps.some((step) => /^talker \d+$/.test(step)) && steps.some((step) => /^code2wav \d+$/.test(step)), `${steps}`);
  assert.match(await studio.figure("Running"), /^\d+$/);
  assert.match(await studio.figure("First packet, median"), /^[\d.]+ m?s$/);
  const replicas = await studio.page.$$eval('[aria-label="Replicas"] tbody tr', (rows) => rows.map((row) => row.innerText));
  assert.ok(replicas.some((row) => row.includes("talker") && row.includes("ready")), `${replicas}`);
  // An older request is chosen, and looked at to its end.
  await studio.press("1: show its course");
  await studio.until(() => document.querySelector("section:not([hidden])").textContent.includes("Course of request 1"));
  await studio.page.click('.check input[type="checkbox"]');
  await studio.judge("watch");
  const link = await studio.page.$eval("section:not([hidden]) a", (node) => node.href);
  assert.match(link, /\/metrics$/);
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
