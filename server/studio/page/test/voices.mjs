// Voices: those of the model, and where it takes others, voices that are recorded, uploaded, designed, heard and deleted.
import assert from "node:assert/strict";
import { open } from "./browser.mjs";

/** Writes into the field whose label begins so. */
async function fill(studio, label, text) {
  const field = await studio.page.waitForFunction((label) => {
    const labels = [...document.querySelectorAll("section:not([hidden]) label")];
    return labels.find((node) => node.textContent.startsWith(label))?.querySelector("input, textarea");
  }, {}, label);
  await field.click();
  await field.type(text);
}

async function hearsSomething(studio) {
  await studio.until(() => window.heardSamples.some((part) => part.some((sample) => sample !== 0)));
  await studio.forgetHeard();
}

const kept = (name) => [...document.querySelectorAll("section:not([hidden]) h3")].some((head) => head.textContent === name);

async function remove(studio, name) {
  await studio.press(`Delete ${name}`);
  await studio.page.waitForSelector("dialog[open]");
  await studio.page.keyboard.press("Escape");
  await studio.until(() => !document.querySelector("dialog"));
  assert.ok(await studio.page.evaluate(kept, name), "it was not deleted");
  await studio.press(`Delete ${name}`);
  await studio.page.waitForSelector("dialog[open]");
  await studio.judge("voices-delete");
  await studio.press("Delete");
  await studio.page.waitForFunction((name) => ![...document.querySelectorAll("h3")].some((head) => head.textContent === name), {}, name);
}

/** A model with voices of its own and no others. */
export async function voices(url) {
  const studio = await open(url);
  await studio.view("Voices");
  await studio.page.waitForSelector(".voices button");
  await studio.page.click(".voices button");
  await hearsSomething(studio);
  await studio.until(() => document.querySelector(".voices button").textContent === "Hear");
  // A preview is stopped where it was begun.
  await studio.page.click(".voices button");
  await studio.until(() => document.querySelector(".voices button").textContent === "Stop");
  await studio.page.click(".voices button");
  await studio.until(() => document.querySelector(".voices button").textContent === "Hear");
  assert.match(await studio.text(), /speaks with its own voices only/);
  assert.equal(await studio.page.$("form.create"), null);
  await studio.judge("voices");
  await studio.close();
}

/** A model that clones: the microphone hears the file. */
export async function clone(url, { recording, transcript }) {
  const studio = await open(url, { microphone: recording });
  await studio.view("Voices");
  await studio.page.waitForSelector("form.create");
  await studio.judge("voices-clone");
  await fill(studio, "Name", "Recorded");
  await studio.press("Record");
  await studio.until(() => parseFloat(document.querySelector('[role="timer"]')?.textContent) >= 3);
  assert.ok((await studio.page.$eval("meter", (meter) => meter.max)) === 1);
  assert.match(await studio.text('[role="timer"]'), /^[\d.]+ s, 5\d\.\d s left$/);
  await studio.press("Stop recording");
  await studio.page.waitForSelector("audio");
  assert.equal(await studio.page.$('[role="timer"]'), null, "it has stopped");
  await fill(studio, "How the speaker agreed", "It is a test.");
  await studio.page.click('form.create input[type="checkbox"]');
  await studio.judge("voices-recorded");
  await studio.press("Create voice");
  await studio.until(kept, "Recorded");
  await studio.press("Hear Recorded");
  await hearsSomething(studio);
  // It is there to write with. A recording ends with its view, and is kept.
  await studio.press("Record");
  await studio.until(() => parseFloat(document.querySelector('[role="timer"]')?.textContent) >= 1);
  await studio.view("Write and hear");
  await studio.until(() => document.querySelector("audio") && !document.querySelector('[role="timer"]'));
  const names = await studio.page.$$eval("select option", (options) => options.map((option) => option.textContent));
  assert.ok(names.some((name) => name.startsWith("Recorded")), `${names}`);

  await studio.view("Voices");
  await fill(studio, "Name", "Uploaded");
  const file = await studio.page.$('input[type="file"]');
  await file.uploadFile(recording);
  await fill(studio, "Transcript", transcript);
  await studio.press("Create voice");
  await studio.until(kept, "Uploaded");
  await studio.press("Hear Uploaded");
  await hearsSomething(studio);
  await remove(studio, "Recorded");
  // The page tells a refusal.
  await fill(studio, "Name", "Empty");
  await studio.press("Create voice");
  await studio.until(() => document.querySelector('form.create [role="alert"]')?.textContent.includes("no recording"));
  await studio.close();
}

/** A model that follows descriptions. */
export async function design(url) {
  const studio = await open(url);
  await studio.view("Voices");
  await fill(studio, "Name", "Designed");
  await fill(studio, "How it sounds", "A calm low voice");
  await studio.judge("voices-design");
  await studio.press("Create voice");
  await studio.until(kept, "Designed");
  await studio.press("Hear Designed");
  await hearsSomething(studio);
  await studio.close();
}
