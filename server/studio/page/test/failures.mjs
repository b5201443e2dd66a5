// Refusals and ends that no user asked for: of the microphone, the connection, the audio and the server.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { open } from "./browser.mjs";

const alert = 'section:not([hidden]) [role="alert"]';
const alerted = (part) => document.querySelector('section:not([hidden]) [role="alert"]')?.textContent.includes(part);
const silent = () => window.heardSamples.every((part) => part.every((sample) => sample === 0));
const enabled = (name) => {
  const buttons = [...document.querySelectorAll("section:not([hidden]) button")];
  return buttons.some((button) => button.textContent === name && !button.disabled);
};

async function say(studio, text) {
  await studio.page.type('::-p-aria([name="Your turn"][role="textbox"])', text);
  await studio.page.keyboard.press("Enter");
}

/** Puts sockets in place of the browser's that the test answers for the server; long waits pass at once. */
function scriptedSockets() {
  window.sockets = [];
  window.WebSocket = class {
    static OPEN = 1;
    bufferedAmount = 0;
    readyState = 0;
    sent = [];
    constructor() {
      window.sockets.push(this);
    }
    send(text) {
      this.sent.push(JSON.parse(text));
    }
    close() {
      this.readyState = 3;
    }
    accept() {
      this.readyState = 1;
      this.onopen?.();
    }
    say(event) {
      this.onmessage?.({ data: JSON.stringify(event) });
    }
    end(code, reason = "") {
      this.readyState = 3;
      this.onclose?.({ code, reason, wasClean: code !== 1006 });
    }
  };
  const later = window.setTimeout;
  window.setTimeout = (work, time, ...rest) => later(work, time >= 10_000 && window.hurried ? 100 : time, ...rest);
}

/** Does this with the last socket, in the page. */
const socket = (studio, work, ...values) =>
  studio.page.evaluate(`(${work})(window.sockets.at(-1), ...${JSON.stringify(values)})`);
const sockets = (studio, count) => studio.until((count) => window.sockets.length === count, count);

/** Events by which a server begins an answer and writes its text. */
const begin = (line, response, item, asked) => {
  const place = { response_id: response, item_id: item, output_index: 0, content_index: 0 };
  const message = { id: item, type: "message", role: "assistant", content: [] };
  line.say({ type: "response.created", response: { id: response, metadata: asked && { asked } } });
  if (!item) return;
  line.say({ type: "response.output_item.added", response_id: response, output_index: 0, item: message });
  line.say({ type: "conversation.item.added", item: message });
  line.say({ type: "response.output_audio_transcript.delta", ...place, delta: "Never heard." });
};
/** Half a second of a loud tone. */
const sound = (line, response, item) => {
  const delta = btoa("\x00\x40\x00\xc0".repeat(6_000));
  line.say({ type: "response.output_audio.delta", response_id: response, item_id: item, output_index: 0, content_index: 0, delta });
};
const sent = (line, type) => line.sent.filter((event) => event.type === type);
/** The name by which the page asked for its last answer. */
const asked = (line) => line.sent.filter(({ type }) => type === "response.create").at(-1).event_id;

/** An answer that is interrupted before its first audio was heard for no time at all, and stays silent. */
export async function unheard(url) {
  const studio = await open(url, { before: scriptedSockets });
  await studio.view("Talk");
  await say(studio, "Hello.");
  await sockets(studio, 1);
  await socket(studio, (line) => line.accept());
  await studio.until(() => window.sockets[0].sent.some(({ type }) => type === "response.create"));

  // Its text has come, and none of its audio.
  await socket(studio, begin, "r1", "i1", await socket(studio, asked));
  await studio.page.keyboard.press("Escape");
  assert.deepEqual(await socket(studio, sent, "conversation.item.truncate"), [
    { type: "conversation.item.truncate", item_id: "i1", content_index: 0, audio_end_ms: 0 },
  ]);
  assert.equal((await socket(studio, sent, "response.cancel")).length, 1);
  await socket(studio, sound, "r1", "i1");
  await socket(studio, (line) => line.say({ type: "response.done", response: { id: "r1", status: "cancelled", output: [] } }));
  await socket(studio, (line) => {
    const content = [{ type: "output_audio", transcript: "" }];
    line.say({ type: "conversation.item.retrieved", item: { id: "i1", type: "message", role: "assistant", content } });
  });
  await studio.until(() => document.querySelector(".turns .assistant s"));
  const said = await studio.text(".turns .assistant .said");
  assert.match(said, /Not heard:\s*Never heard\./);
  assert.equal(said.replace(/Not heard:\s*Never heard\./, "").trim(), "", "no word counts as heard");

  // The microphone hears speech before the answer has begun: its message is cut, and its audio dropped, when they come.
  await say(studio, "And now?");
  const second = await socket(studio, asked);
  await socket(studio, (line) => line.say({ type: "input_audio_buffer.speech_started", audio_start_ms: 0, item_id: "u2" }));
  await socket(studio, begin, "r2", "i2", second);
  await socket(studio, sound, "r2", "i2");
  const cuts = await socket(studio, sent, "conversation.item.truncate");
  assert.deepEqual([cuts.length, cuts.at(-1).item_id, cuts.at(-1).audio_end_ms], [2, "i2", 0]);
  assert.equal((await socket(studio, sent, "response.cancel")).at(-1).response_id, "r2");

  // An answer that nothing interrupts is heard: the page has not gone deaf.
  assert.ok(await studio.page.evaluate(silent), "nothing was heard of either");
  await say(studio, "Still there?");
  await socket(studio, begin, "r3", "i3", await socket(studio, asked));
  await socket(studio, sound, "r3", "i3");
  await socket(studio, (line) => line.say({ type: "response.done", response: { id: "r3", status: "incomplete", output: [] } }));
  await studio.until(() => window.heardSamples.some((part) => part.some((sample) => sample !== 0)));
  await studio.until(() => document.querySelector(".turns")?.textContent.includes("The answer is incomplete"));
  await studio.close();
}

/** The same with a server: its ledger says that nothing was heard. `signal` is a file that the test makes when it has interrupted. */
export async function early(url, { signal }) {
  const studio = await open(url);
  await studio.view("Talk");
  await say(studio, "Hello there.");
  await studio.until(() => document.querySelector(".turns .assistant .said")?.textContent.length > 1);
  await studio.press("Interrupt");
  writeFileSync(signal, "");
  await studio.until(() => document.querySelector(".turns .assistant .hint")?.textContent.includes("interrupted"));
  const said = await studio.text(".turns .assistant .said");
  assert.match(said.trim(), /^Not heard:/, "no word counts as heard");
  assert.ok(await studio.page.evaluate(silent));
  await studio.close();
}

/** A server that never answers is given up, and another attempt finds it; an old conversation says nothing in a new one. */
export async function lines(url) {
  const studio = await open(url, { before: scriptedSockets });
  await studio.view("Talk");
  await say(studio, "Hello.");
  await sockets(studio, 1);
  await studio.until(() => document.querySelector('.say [role="status"]').textContent === "Connecting");
  // The user does not wait.
  await studio.press("End");
  await studio.until(() => document.querySelector('.say [role="status"]').textContent === "");
  assert.equal(await studio.page.$(alert), null, "the user ended it");
  // The user waits in vain.
  await studio.page.evaluate(() => (window.hurried = true));
  await studio.press("Send");
  await sockets(studio, 2);
  await studio.until(alerted, "does not answer");
  await studio.judge("talk-unanswered");
  await studio.page.evaluate(() => (window.hurried = false));
  await studio.press("Send");
  await sockets(studio, 3);
  await studio.until((alert) => !document.querySelector(alert), alert);
  await socket(studio, (line) => line.accept());
  await studio.until(() => document.querySelectorAll(".turns .user").length === 1);

  // Ended and begun again at once: events of the old conversation are no longer taken.
  await socket(studio, (line) => (window.old = { receive: line.onmessage, line }));
  await studio.press("End");
  await say(studio, "Another one.");
  await sockets(studio, 4);
  await socket(studio, (line) => line.accept());
  await studio.until(() => document.querySelectorAll(".turns .user").length === 1);
  await socket(studio, () => {
    const item = { id: "old", type: "message", role: "assistant", content: [] };
    window.old.receive({ data: JSON.stringify({ type: "conversation.item.added", item }) });
    window.old.receive({ data: JSON.stringify({ type: "error", error: { message: "old news" } }) });
    window.old.line.end(1006);
  });
  await socket(studio, begin, "r1", "i1", await socket(studio, asked));
  await studio.until(() => document.querySelector(".turns .assistant"));
  assert.equal((await studio.page.$$(".turns .assistant")).length, 1);
  assert.equal(await studio.page.$(alert), null);

  // A connection that is lost is told.
  await socket(studio, (line) => line.end(1006));
  await studio.until(alerted, "was lost");
  assert.ok(await studio.page.evaluate(enabled, "Send"));

  // Nothing of the conversation is lost: the next one is told what was said, and goes on.
  await say(studio, "Go on.");
  await sockets(studio, 5);
  await socket(studio, (line) => line.accept());
  await studio.until(() => window.sockets[4].sent.some(({ type }) => type === "response.create"));
  const told = await socket(studio, sent, "conversation.item.create");
  const texts = told.map(({ item }) => [item.role, item.content[0].text]);
  assert.deepEqual(texts, [["user", "Another one."], ["assistant", "Never heard."], ["user", "Go on."]]);
  await studio.until(() => document.querySelectorAll(".turns li").length === 3);
  await studio.close();
}

async function useKey(studio, key) {
  if (!(await studio.page.$("form.key input"))) {
    const shown = () => document.querySelector("form.key input") || document.querySelector("main > button.link");
    await studio.until(shown);
    await studio.page.evaluate(() => document.querySelector("main > button.link")?.click());
  }
  await studio.page.waitForSelector("form.key input");
  await studio.page.$eval("form.key input", (node) => node.select());
  await studio.page.type("form.key input", key);
  await studio.press("Use");
  await studio.until(() => document.querySelector(".model").textContent !== "");
}

/** The reason of a conversation that the server refuses is shown, and so is a key that does not open Watch. */
export async function refusals(url, { speaks, one }) {
  const studio = await open(url, { expected: /realtime|40[13]|429/ });
  await useKey(studio, speaks);
  await studio.view("Talk");
  await say(studio, "Hello.");
  await studio.until(alerted, "lacks the scope chat");
  await studio.judge("talk-refused");

  // Every place of this key is taken.
  await useKey(studio, one);
  await studio.page.evaluate(async (key) => {
    window.taken = new WebSocket("/v1/realtime", ["realtime", `openai-insecure-api-key.${key}`]);
    await new Promise((done) => (window.taken.onopen = done));
  }, one);
  await studio.press("Send");
  await studio.until(alerted, "streams");
  await studio.page.evaluate(() => window.taken.close(1000));
  // The place is free when the server has noticed.
  for (let turns = 0; turns === 0; ) {
    await studio.press("Send");
    await studio.until(() => document.querySelector('.say [role="status"]').textContent !== "Connecting");
    turns = (await studio.page.$$(".turns .user")).length;
  }

  await studio.view("Watch");
  await studio.until(alerted, "takes one with the scope admin");
  await studio.judge("watch-refused");
  const calls = studio.requests.filter((path) => path.includes("WatchService")).length;
  // Longer than the pause before a server that was lost is asked again.
  await new Promise((done) => setTimeout(done, 2_500));
  assert.equal(studio.requests.filter((path) => path.includes("WatchService")).length, calls, "it is not asked again");
  await studio.view("Write and hear");
  assert.equal(await studio.page.$('form.key [role="alert"]'), null, "no other key is asked for");
  await studio.close();
}

/** Counts the tracks of microphones that are not stopped; `window.refuse` and `window.hold` stand for their user. */
function microphones() {
  window.tracks = [];
  const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  navigator.mediaDevices.getUserMedia = async (wanted) => {
    if (window.refuse) throw new DOMException("denied", "NotAllowedError");
    await window.hold;
    const stream = await ask(wanted);
    window.tracks.push(...stream.getTracks());
    return stream;
  };
}

const live = (count) => window.tracks.filter((track) => track.readyState === "live").length === count;

/** However it ends, the microphone is released, and the page says why if its user did not end it. */
export async function released(url, { recording }) {
  const studio = await open(url, { microphone: recording, before: microphones });
  await studio.view("Talk");
  await studio.page.evaluate(() => (window.refuse = true));
  await studio.press("Turn on the microphone");
  await studio.until(alerted, "The microphone was refused");
  await studio.judge("talk-no-microphone");
  assert.ok(await studio.page.evaluate(enabled, "Turn on the microphone"));
  await studio.page.evaluate(() => (window.refuse = false));

  const on = async () => {
    await studio.press("Turn on the microphone");
    await studio.until(() => document.querySelector("meter"));
    assert.ok(await studio.page.evaluate(live, 1));
  };
  await on();
  await studio.press("Turn off the microphone");
  await studio.until(live, 0);
  await on();
  await studio.press("End");
  await studio.until(live, 0);
  await on();
  await studio.page.evaluate(() => window.tracks.at(-1).dispatchEvent(new Event("ended")));
  await studio.until(live, 0);
  await studio.until(alerted, "The microphone ended");
  await on();
  await studio.view("Watch");
  await studio.until(live, 0);
  await studio.view("Talk");
  await on();
  await studio.page.evaluate(() => dispatchEvent(new PageTransitionEvent("pagehide")));
  await studio.until(live, 0);

  // The conversation ends while the browser still asks.
  await studio.page.evaluate(() => void (window.hold = new Promise((done) => (window.allow = done))));
  const given = await studio.page.evaluate(() => window.tracks.length);
  await studio.press("Turn on the microphone");
  await studio.until(() => document.querySelector('.say [role="status"]').textContent.includes("asks for the microphone"));
  await studio.press("End");
  await studio.page.evaluate(() => window.allow());
  await studio.until((given) => window.tracks.length > given, given);
  await studio.until(live, 0);
  assert.ok(await studio.page.evaluate(enabled, "Turn on the microphone"));
  await studio.close();
}

/** A browser that does not play says so, and plays as soon as it can. */
export async function mute(url) {
  const studio = await open(url);
  await studio.page.evaluate(() => {
    window.Context = window.AudioContext;
    window.AudioContext = class {
      constructor() {
        throw new Error("no audio device");
      }
    };
  });
  await studio.press("Speak");
  await studio.until(alerted, "The browser cannot play: no audio device");
  await studio.until(enabled, "Play again");
  // The speech is there, and can be heard as soon as there is a device.
  await studio.press("Play again");
  await studio.until(alerted, "The browser cannot play");
  assert.equal(await studio.page.$(".words .heard, .words .now"), null, "no word counts as heard");
  await studio.view("Talk");
  await say(studio, "Hello.");
  await studio.until(alerted, "The browser cannot play");
  await studio.page.evaluate(() => (window.AudioContext = window.Context));
  await studio.press("Send");
  await studio.until((alert) => document.querySelector(".turns .assistant") && !document.querySelector(alert), alert);
  await studio.view("Write and hear");
  await studio.press("Play again");
  await studio.until((alert) => document.querySelector(".words .now") && !document.querySelector(alert), alert);
  await studio.close();
}
