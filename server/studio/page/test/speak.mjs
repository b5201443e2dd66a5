// Write and hear: by keyboard alone, every control, and the page plays exactly the samples of the server.
import assert from "node:assert/strict";
import { readFileSync, mkdtempSync, existsSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open, samplesOf } from "./browser.mjs";

const TEXT = "Hello there. How are you today?";

async function speechOf(url, fields) {
  const answer = await fetch(new URL("/v1/audio/speech", url), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ input: TEXT, response_format: "wav", ...fields }),
  });
  assert.equal(answer.status, 200);
  return samplesOf(Buffer.from(await answer.arrayBuffer()));
}

async function write(studio, text) {
  const place = '::-p-aria([name="Text"][role="textbox"])';
  await studio.page.focus(place);
  await studio.page.$eval(place, (node) => node.select());
  await studio.page.keyboard.type(text);
}

async function spoken(studio) {
  await studio.until(() => {
    const again = [...document.querySelectorAll("button")].find((button) => button.textContent === "Play again");
    return again && !again.disabled;
  });
}

/** Compares the samples that were played to `expected`, when all of them have come through the graph. */
async function hears(studio, expected) {
  // It has come through when silence follows it.
  await studio.until((length) => {
    const parts = window.heardSamples;
    const first = parts.findIndex((part) => part.some((sample) => sample !== 0));
    const samples = parts.slice(first).reduce((sum, part) => sum + part.length, 0);
    return first >= 0 && samples >= length && parts.at(-1).every((sample) => sample === 0);
  }, expected.length);
  const sounds = expected.slice(expected.findIndex((sample) => sample !== 0));
  const heard = await studio.heard();
  let [at, gaps] = [0, 0];
  for (const [index, sample] of sounds.entries()) {
    // A machine that is too busy leaves gaps, which the page counts.
    if (heard[at] !== sample && heard[at] === 0) {
      gaps += 1;
      while (heard[at] === 0) at += 1;
    }
    assert.equal(heard[at], sample, `sample ${index} of ${sounds.length}`);
    at += 1;
  }
  const told = await studio.figure("Gaps");
  assert.equal(told === "none" ? 0 : parseInt(told, 10), gaps, "as many gaps as the page tells of");
}

export async function speak(url) {
  const studio = await open(url);
  await studio.judge("speak-empty");
  await write(studio, TEXT);
  await studio.page.click("form details summary");
  const seed = '::-p-aria([name="Seed"][role="textbox"])';
  await studio.page.type(seed, "7");
  // Words are lit in the order of the text while they are heard.
  await studio.page.evaluate(() => {
    window.lit = [];
    const look = () => {
      const now = document.querySelector(".words .now")?.textContent.trim();
      if (now && window.lit.at(-1) !== now) window.lit.push(now);
      requestAnimationFrame(look);
    };
    look();
  });
  await studio.page.keyboard.down("Control");
  await studio.page.keyboard.press("Enter");
  await studio.page.keyboard.up("Control");
  await spoken(studio);
  assert.match(await studio.figure("First audio"), /^[\d.]+ m?s$/);
  assert.match(await studio.figure("Server share"), /^[\d.]+ m?s$/);
  assert.match(await studio.figure("Seed"), /^7/);
  await hears(studio, await speechOf(url, { seed: 7 }));
  const words = await studio.page.$$eval(".words span", (spans) => spans.map((span) => [span.textContent.trim(), span.className]));
  assert.equal(words.map(([word]) => word).join(" "), TEXT);
  assert.ok(words.every(([, kind]) => kind === "heard"), JSON.stringify(words));
  const lit = await studio.page.evaluate(() => window.lit);
  assert.deepEqual(lit, words.map(([word]) => word).filter((word) => lit.includes(word)), "in the order of the text");
  assert.ok(lit.length > 0, "at least one was seen to be lit");
  await studio.judge("speak-done");

  // Another speed is other audio, and the same that the server speaks to others.
  await studio.forgetHeard();
  await studio.page.focus('input[type="range"]');
  for (let step = 0; step < 4; step += 1) await studio.page.keyboard.press("ArrowRight");
  await studio.press("Speak");
  await spoken(studio);
  await hears(studio, await speechOf(url, { seed: 7, speed: 1.2 }));

  // Held in the middle, nothing more is heard; then it goes on, and nothing is lost.
  await studio.forgetHeard();
  await studio.press("Speak");
  // In the page: on a busy machine the speech may be over before a press from here arrives.
  await studio.until(() => {
    const pause = [...document.querySelectorAll("button")].find((button) => button.textContent === "Pause");
    const hears = window.heardSamples.some((part) => part.some((sample) => sample !== 0));
    if (hears) pause.click();
    return hears;
  });
  await studio.until(() => [...document.querySelectorAll("button")].some((button) => button.textContent === "Go on"));
  await studio.press("Go on");
  await spoken(studio);
  await hears(studio, await speechOf(url, { seed: 7, speed: 1.2 }));

  // Again, from the beginning, without the server.
  await studio.forgetHeard();
  await studio.press("Play again");
  await studio.until(() => document.querySelector(".words .now"));
  await spoken(studio);
  await hears(studio, await speechOf(url, { seed: 7, speed: 1.2 }));

  // By keys: one word is a stop of Tab, arrow keys go to the others, and Enter plays from there.
  const focused = () => studio.page.evaluate(() => document.activeElement.textContent.trim());
  await studio.page.focus(".waveform");
  await studio.page.keyboard.press("Tab");
  assert.equal(await focused(), "Hello");
  for (const [key, word] of [["ArrowRight", "there."], ["ArrowLeft", "Hello"], ["End", "today?"], ["ArrowDown", "today?"], ["ArrowUp", "you"]]) {
    await studio.page.keyboard.press(key);
    assert.equal(await focused(), word, key);
  }
  const chosen = await studio.page.evaluate(() => {
    const { outlineStyle } = getComputedStyle(document.activeElement);
    return { role: document.activeElement.role, outlineStyle, start: Number(document.activeElement.dataset.start) };
  });
  assert.ok(chosen.role === "button" && chosen.outlineStyle === "solid" && chosen.start > 0, JSON.stringify(chosen));
  await studio.forgetHeard();
  await studio.page.keyboard.press("Enter");
  await spoken(studio);
  await hears(studio, (await speechOf(url, { seed: 7, speed: 1.2 })).slice(chosen.start));
  await spoken(studio);
  // Tab leaves the words, and comes back to the same.
  await studio.page.keyboard.press("Tab");
  assert.equal(await focused(), "Play again");
  await studio.page.keyboard.down("Shift");
  await studio.page.keyboard.press("Tab");
  await studio.page.keyboard.up("Shift");
  assert.equal(await focused(), "you");

  // Files.
  const folder = mkdtempSync(join(tmpdir(), "studio-files-"));
  const session = await studio.page.createCDPSession();
  await session.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: folder });
  const heads = { wav: "RIFF", mp3: "", flac: "fLaC", ogg: "OggS", aac: "" };
  for (const [format, name] of Object.entries({ wav: "wav", mp3: "mp3", flac: "flac", opus: "ogg", aac: "aac" })) {
    await studio.page.select('::-p-aria([name="File"][role="combobox"])', format);
    await studio.press("Download");
    const path = join(folder, `speech.${name}`);
    for (let looks = 0; !existsSync(path); looks += 1) {
      assert.ok(looks < 300, `${name} is not saved, but ${readdirSync(folder)}`);
      await new Promise((done) => setTimeout(done, 50));
    }
    const file = readFileSync(path);
    assert.ok(file.length > 500 && file.subarray(0, 4).toString("latin1").startsWith(heads[name]), name);
    if (name === "wav") assert.deepEqual(samplesOf(file), await speechOf(url, { seed: 7, speed: 1.2 }));
  }
  await studio.close();
}

/** Two tabs speak at once, each its own text with its own voice, and one is stopped without the other. */
export async function tabs(url) {
  const one = await open(url);
  const other = await open(url, { beside: one });
  const begin = async (studio, text, seed) => {
    await studio.page.bringToFront();
    await write(studio, text);
    await studio.page.click("form details summary");
    await studio.page.type('::-p-aria([name="Seed"][role="textbox"])', seed);
    await studio.page.keyboard.down("Control");
    await studio.page.keyboard.press("Enter");
    await studio.page.keyboard.up("Control");
    await studio.until(() => window.heardSamples.some((part) => part.some((sample) => sample !== 0)));
  };
  const long = `${TEXT} `.repeat(40);
  await begin(one, long, "3");
  await begin(other, TEXT, "7");
  await one.page.bringToFront();
  await one.page.keyboard.press("Escape");
  await other.page.bringToFront();
  await spoken(other);
  await hears(other, await speechOf(url, { seed: 7 }));
  // Each keeps its own text and settings when it is loaded again.
  for (const [studio, text] of [[one, long], [other, TEXT]]) {
    await studio.page.bringToFront();
    await studio.page.reload();
    await studio.until(() => document.querySelector("textarea"));
    assert.equal(await studio.page.$eval("textarea", (node) => node.value), text);
  }
  assert.deepEqual(other.problems, []);
  await one.close();
}

/** A long text is stopped by the keyboard: silence, and the server knows. */
export async function stop(url) {
  const studio = await open(url);
  await write(studio, `${TEXT} `.repeat(40));
  await studio.press("Speak");
  await studio.until(() => window.heardSamples.flatMap((part) => [...part]).some((sample) => sample !== 0));
  await studio.page.keyboard.press("Escape");
  await spoken(studio);
  await studio.until(() => !document.querySelector(".words .now"));
  const before = (await studio.heard()).length;
  assert.ok(before > 0);
  await studio.until(() => window.heardSamples.length > 2 && window.heardSamples.slice(-1)[0].every((sample) => sample === 0));
  await studio.close();
}

/** A number is shown as the words that the model reads for it. */
export async function explain(url) {
  const studio = await open(url);
  await write(studio, "Meet me at 5 pm.");
  const panels = await studio.page.$$("form details summary");
  await panels.at(-1).click();
  await studio.until(() => document.querySelector(".explained")?.textContent.includes("five"));
  assert.match(await studio.text(".explained"), /meet/i);
  await studio.judge("speak-explained");
  await studio.close();
}

/** A text that the server refuses is told, and the page goes on. */
export async function refused(url) {
  const studio = await open(url);
  await write(studio, "<speak>Hello <emphasis>there</emphasis>.</speak>");
  await studio.press("Speak");
  await studio.until(() => document.querySelector('section:not([hidden]) [role="alert"]')?.textContent.includes("emphasis"));
  await studio.judge("speak-refused");
  await write(studio, TEXT);
  await studio.press("Speak");
  await spoken(studio);
  assert.equal(await studio.page.$('section:not([hidden]) [role="alert"]'), null);
  await studio.close();
}

/** Without a key nothing works and the field is there; with a good one everything does, for this tab. */
export async function key(url, { good }) {
  const studio = await open(url);
  await studio.page.waitForSelector("form.key");
  await studio.judge("key");
  await studio.page.type('form.key input', "wrong");
  await studio.page.keyboard.press("Enter");
  await studio.until(() => {
    const alert = document.querySelector('form.key [role="alert"]');
    return alert && !alert.textContent.includes("asks for an API key");
  });
  await studio.page.$eval('form.key input', (node) => node.select());
  await studio.page.keyboard.type(good);
  await studio.press("Use");
  await studio.until(() => document.querySelector(".model").textContent !== "");
  await write(studio, TEXT);
  await studio.press("Speak");
  await spoken(studio);
  assert.equal(await studio.page.evaluate(() => localStorage.length), 0);
  assert.equal(await studio.page.evaluate(() => document.cookie), "");
  await studio.close();
}
