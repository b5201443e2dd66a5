// Open WebUI: a call by voice, turn by turn, and an answer that is read aloud.
import assert from "node:assert/strict";
import { open } from "./browser.mjs";

/** In the page: gives what each recording is recognised as, in turn, and keeps how long everything was that was heard to its end. */
function listen(said) {
  window.heard = [];
  window.refused = [];
  const { fetch } = window;
  window.fetch = async (resource, ...options) => {
    const { pathname } = new URL(resource.url ?? resource, location);
    if (pathname.endsWith("/audio/transcriptions")) return Response.json({ text: said.shift() ?? "" });
    const response = await fetch(resource, ...options);
    if (!response.ok && /\/audio\/|\/completions/.test(pathname)) window.refused.push(`${response.status} ${pathname}`);
    return response;
  };
  const { play } = HTMLMediaElement.prototype;
  const known = new WeakSet();
  HTMLMediaElement.prototype.play = function () {
    // At the end of its audio an element pauses before it is given the next. Sounds of the page itself are shorter.
    const keep = () => {
      const { muted, currentTime, duration } = this;
      if (!muted && currentTime > 0.1 && currentTime + 0.1 > duration) window.heard.push(currentTime);
    };
    if (!known.has(this)) this.addEventListener("pause", keep);
    known.add(this);
    return play.call(this);
  };
}

export async function call(url, { recording, turns }) {
  const said = turns.map(([question]) => question);
  const page = await open(url, { microphone: recording, before: `(${listen})(${JSON.stringify(said)})`, expected: /./ });
  await page.press("Okay, Let's Go!");
  await page.until(() => document.querySelector("#model-selector-model-button")?.innerText === "omni-embedded");
  await page.press("Voice mode");
  for (const turn of turns.keys()) await page.until((count) => window.heard.length > count, turn);
  await page.press("End call");
  const answers = await page.page.$$eval(".chat-assistant", (answers) => answers.map((answer) => answer.innerText));
  assert.equal(answers.length, turns.length, answers.join("; "));
  turns.forEach(([question, word], turn) => assert.ok(answers[turn].includes(word), `${question} ${answers[turn]}`));
  await page.page.$$eval('[aria-label="Read Aloud"]', (buttons) => buttons.at(-1).click());
  await page.until((count) => window.heard.length > count, turns.length);
  const [heard, refused] = await page.page.evaluate(() => [window.heard, window.refused]);
  assert.ok(heard.every((seconds) => seconds > 0.5), `${heard} s`);
  assert.deepEqual(refused, []);
  await page.close();
}
