// Talk: turns in writing and by microphone, heard while they are made, and interrupted where they are heard.
import assert from "node:assert/strict";
import { open } from "./browser.mjs";

async function say(studio, text) {
  const place = '::-p-aria([name="Your turn"][role="textbox"])';
  await studio.page.type(place, text);
  await studio.page.keyboard.press("Enter");
}

const answers = () => [...document.querySelectorAll(".turns .assistant")].map((turn) => turn.querySelector(".said").innerText);
const quiet = () => document.querySelector('.say [role="status"]').textContent === "" && document.querySelector(".say button:nth-of-type(3)").disabled;

/** Waits until so many answers were given and heard. */
async function answered(studio, count) {
  await studio.until((count) => document.querySelectorAll(".turns .assistant").length === count, count);
  await studio.until(quiet);
  return studio.page.evaluate(answers);
}

async function heardSomething(studio) {
  await studio.until(() => window.heardSamples.some((part) => part.some((sample) => sample !== 0)));
}

export async function talk(url) {
  const studio = await open(url);
  await studio.view("Talk");
  await studio.judge("talk-empty");
  await say(studio, "Hello there.");
  const [first] = await answered(studio, 1);
  assert.ok(first.length > 0, "the answer is written, too");
  await heardSomething(studio);
  assert.match(await studio.text(".turns .assistant .hint"), /first audio after [\d.]+ m?s/);
  await say(studio, "How are you?");
  assert.equal((await answered(studio, 2)).length, 2);
  await studio.judge("talk");
  await studio.press("End");
  await studio.until(() => [...document.querySelectorAll("button")].find((button) => button.textContent === "End").disabled);
  // Another conversation begins where the last one ended.
  await say(studio, "Hello again.");
  assert.equal((await answered(studio, 1)).length, 1);
  await studio.close();
}

/** An answer is interrupted by the keyboard: its unheard part is crossed out, and the conversation keeps the rest. */
export async function interrupt(url) {
  const studio = await open(url);
  await studio.view("Talk");
  await say(studio, `Tell me a long story. ${"It goes on and on. ".repeat(20)}`);
  await heardSomething(studio);
  // A second of it is heard.
  await new Promise((done) => setTimeout(done, 1_000));
  await studio.page.keyboard.press("Escape");
  await studio.until(() => document.querySelector(".turns .assistant .hint")?.textContent.includes("interrupted"));
  await studio.until(quiet);
  const unheard = await studio.page.$eval(".turns .assistant s", (node) => node.textContent.replace(" Not heard: ", ""));
  assert.ok(unheard.trim().length > 0);
  await studio.judge("talk-interrupted");
  await say(studio, "And now?");
  await studio.until(() => document.querySelectorAll(".turns .assistant").length === 2);
  await studio.press("Interrupt");
  await studio.until(quiet);
  await studio.close();
}

/** Speech in the microphone is a turn; the server answers it, or says why not. */
export async function microphone(url, { recording, hears }) {
  const studio = await open(url, { microphone: recording });
  await studio.view("Talk");
  assert.equal((await studio.text()).includes("does not hear"), !hears);
  await studio.press("Microphone on");
  await studio.until(() => document.querySelector("meter"));
  await studio.until(() => document.querySelector(".turns .user")?.textContent.includes("(spoken)"));
  await studio.until(() => document.querySelector(".turns .assistant .said")?.textContent.length > 1 || document.querySelector('section:not([hidden]) [role="alert"]'));
  await studio.press("Microphone off");
  await studio.until(() => !document.querySelector("meter"));
  await studio.judge("talk-microphone");
  await studio.close();
}
