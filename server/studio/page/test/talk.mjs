// Talk: turns in writing and by microphone, heard while they are made, and interrupted where they are heard.
import assert from "node:assert/strict";
import { open } from "./browser.mjs";

async function say(studio, text) {
  const place = '::-p-aria([name="Your turn"][role="textbox"])';
  await studio.page.focus(place);
  await studio.page.keyboard.sendCharacter(text);
  await studio.page.keyboard.press("Enter");
}

const answers = () => [...document.querySelectorAll(".turns .assistant")].map((turn) => turn.querySelector(".said").innerText);
const quiet = () => document.querySelector('.say [role="status"]').textContent === "" && [...document.querySelectorAll(".say button")].find((button) => button.textContent === "Interrupt").disabled;

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

/** Says it, hears the answer begin and interrupts it; gives the part that is crossed out. */
async function interrupted(studio, text, interrupt) {
  const before = await studio.page.evaluate(() => document.querySelectorAll(".turns .assistant").length);
  await studio.forgetHeard();
  await say(studio, text);
  await heardSomething(studio);
  await interrupt();
  await studio.until((before) => {
    const turn = document.querySelectorAll(".turns .assistant")[before];
    return turn?.querySelector(".hint").textContent.includes("interrupted");
  }, before);
  await studio.until(quiet);
  const unheard = await studio.page.$$eval(".turns .assistant", (turns) => turns.at(-1).querySelector("s")?.textContent ?? "");
  return unheard.replace(" Not heard: ", "").trim();
}

/** Answers are interrupted by the keyboard and the button: their unheard part is crossed out, and the conversation keeps the rest. */
export async function interrupt(url) {
  const studio = await open(url);
  await studio.view("Talk");
  // One that would never end by itself.
  assert.ok((await interrupted(studio, "forever", () => studio.page.keyboard.press("Escape"))).length > 0);
  await studio.judge("talk-interrupted");
  // One that the server has made long before it is heard.
  const long = "It goes on and on. ".repeat(200).trim();
  const made = async () => {
    await studio.until(() => document.querySelector('.say [role="status"]').textContent === "");
    await studio.press("Interrupt");
  };
  assert.ok((await interrupted(studio, `say ${long}`, made)).endsWith("It goes on and on."));
  // The conversation goes on with what was heard of them.
  await say(studio, "recite");
  await studio.until(() => document.querySelectorAll(".turns .assistant .said")[2]?.textContent.endsWith("user:recite|"));
  const recited = (await studio.page.evaluate(answers)).at(-1);
  const kept = [...recited.matchAll(/assistant:([^|]*)\|/g)].map(([, heard]) => heard);
  assert.equal(kept.length, 2, recited);
  assert.ok("This goes on and on, and on. ".repeat(200).startsWith(kept[0]), recited);
  assert.ok(long.startsWith(kept[1]) && kept[1].length < long.length, recited);
  await studio.close();
}

/** Speech in the microphone is a turn, where the model has audio input; elsewhere no microphone is offered. */
export async function microphone(url, { recording, hears }) {
  const studio = await open(url, { microphone: recording });
  await studio.until(() => document.querySelector(".model").textContent !== "");
  await studio.view("Talk");
  assert.equal((await studio.text()).includes("has no audio input"), !hears);
  const offered = await studio.page.$$eval(".say button", (buttons) => buttons.some((button) => /microphone/.test(button.textContent)));
  assert.equal(offered, hears);
  if (!hears) {
    await studio.close();
    return;
  }
  await studio.press("Turn on the microphone");
  await studio.until(() => document.querySelector("meter"));
  await studio.until(() => document.querySelector(".turns .user")?.textContent.includes("(spoken)"));
  await studio.until(() => document.querySelector(".turns .assistant .said")?.textContent.length > 1 || document.querySelector('section:not([hidden]) [role="alert"]'));
  await studio.press("Turn off the microphone");
  await studio.until(() => !document.querySelector("meter"));
  await studio.judge("talk-microphone");
  await studio.close();
}
