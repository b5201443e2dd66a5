// A browser with the page in it, and the rules of every scenario: no errors, and nothing that keeps people out.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import axe from "axe-core";
import puppeteer from "puppeteer-core";

/** Longer than anything here takes on a busy machine, in milliseconds. */
export const PATIENCE = 60_000;
const DESK = { width: 1280, height: 900 };
const PHONE = { width: 380, height: 800 };
const THEMES = ["light", "dark"];
/** Folder for pictures of every view that is judged; none are taken without it. */
const PICTURES = process.env.OMNI_TEST_SCREENSHOTS;

/** Where the page finds the tap's module: its own server has none, and the page's policy allows no other origin. */
const TAP = "tap.js";

/** The module, in the audio thread: hands over all that comes in, silence too. Messages wait for a busy page; the buffers of a ScriptProcessorNode do not. */
function tapModule() {
  const PART = 16_384;
  class Tap extends AudioWorkletProcessor {
    part = new Float32Array(PART);
    filled = 0;
    process([[input]], [[output]]) {
      // Without a sound there is no channel.
      if (input) this.part.set(input, this.filled);
      this.filled += output.length;
      if (this.filled === PART) {
        this.port.postMessage(this.part, [this.part.buffer]);
        this.part = new Float32Array(PART);
        this.filled = 0;
      }
      return true;
    }
  }
  registerProcessor("tap", Tap);
}

/** Keeps the samples that the page's player gives to the audio graph, of every node in turn. */
function tap(module) {
  window.heardSamples = [];
  const { addModule } = AudioWorklet.prototype;
  AudioWorklet.prototype.addModule = async function (...values) {
    await addModule.call(this, module);
    return addModule.apply(this, values);
  };
  const Node = window.AudioWorkletNode;
  window.AudioWorkletNode = class extends Node {
    constructor(context, name, options) {
      super(context, name, options);
      if (name !== "playback") return;
      const tap = new Node(context, "tap");
      tap.port.onmessage = ({ data }) => window.heardSamples.push(data);
      this.connect(tap);
      tap.connect(context.destination);
    }
  };
}

/** Answers the page's request for the tap's module, and no other. */
async function serveTap(page) {
  const session = await page.createCDPSession();
  session.on("Fetch.requestPaused", ({ requestId }) => {
    const body = Buffer.from(`(${tapModule})()`).toString("base64");
    const responseHeaders = [{ name: "content-type", value: "text/javascript" }];
    // The page may be gone.
    session.send("Fetch.fulfillRequest", { requestId, responseCode: 200, responseHeaders, body }).catch(() => {});
  });
  await session.send("Fetch.enable", { patterns: [{ urlPattern: `*/${TAP}` }] });
}

/**
 * The page at `url`, in a browser of its own or in a tab of the one of `beside`. `microphone`: a file that it hears; `before`: done in the
 * page before its own scripts; `expected`: messages that the console may have.
 */
export async function open(url, { beside, microphone, before, expected } = {}) {
  const home = beside?.home ?? mkdtempSync(join(tmpdir(), "studio-"));
  const fake = ["--use-fake-device-for-media-stream", `--use-file-for-fake-audio-capture=${microphone}%noloop`];
  const browser = beside?.browser ?? await puppeteer.launch({
    executablePath: process.env.OMNI_TEST_CHROMIUM ?? "/usr/bin/chromium",
    userDataDir: home,
    protocolTimeout: 3 * PATIENCE,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--autoplay-policy=no-user-gesture-required",
      "--use-fake-ui-for-media-stream",
      ...(microphone ? fake : []),
    ],
  });
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE);
  await page.setViewport(DESK);
  const problems = [];
  page.on("pageerror", (error) => problems.push(`error: ${error}`));
  page.on("console", (message) => {
    if (expected?.test(`${message.text()} ${message.location().url}`)) return;
    if (["error", "warn"].includes(message.type())) problems.push(`${message.type()}: ${message.text()}`);
  });
  page.on("requestfailed", (request) => {
    // A request that the page itself gave up has not failed.
    const why = request.failure()?.errorText;
    if (why !== "net::ERR_ABORTED") problems.push(`${request.url()}: ${why}`);
  });
  const requests = [];
  const running = new Set();
  page.on("requestfinished", (request) => running.delete(request));
  page.on("requestfailed", (request) => running.delete(request));
  page.on("request", (request) => {
    const { protocol, origin, pathname } = new URL(request.url());
    requests.push(pathname);
    running.add(request);
    if (!["blob:", "data:"].includes(protocol) && origin !== new URL(url).origin) problems.push(`foreign: ${request.url()}`);
  });
  await serveTap(page);
  await page.evaluateOnNewDocument(tap, TAP);
  if (before) await page.evaluateOnNewDocument(before);
  await page.goto(url);
  return new Studio(browser, page, problems, home, requests, running);
}

class Studio {
  constructor(browser, page, problems, home, requests, running) {
    Object.assign(this, { browser, page, problems, home, requests, running });
  }

  /** Waits until this many calls whose path has this in it are in progress. */
  async calls(part, count) {
    const now = () => [...this.running].filter((request) => request.url().includes(part)).length;
    for (let looks = 0; now() !== count; looks += 1) {
      assert.ok(looks < PATIENCE / 50, `${now()} calls of ${part}, not ${count}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  }

  /** The element of this role and name, as a screen reader finds it. */
  at(role, name) {
    return this.page.locator(`::-p-aria([name="${name}"][role="${role}"])`);
  }

  async press(name, role = "button") {
    await this.at(role, name).click();
  }

  async view(title) {
    await this.press(title, "link");
    await this.until((title) => {
      const heading = document.querySelector("section:not([hidden]) h1");
      return heading?.textContent === title;
    }, title);
  }

  /** Waits until `holds` does, in the page. */
  async until(holds, ...values) {
    await this.page.waitForFunction(holds, { timeout: PATIENCE, polling: 50 }, ...values);
  }

  /** The text of the shown view. */
  async text(selector = "main") {
    return this.page.$eval(selector, (node) => node.innerText);
  }

  /** The value beside a figure's name. */
  async figure(name) {
    return this.page.$$eval(
      "section:not([hidden]) .figures > div",
      (figures, name) => figures.find((figure) => figure.querySelector("dt").textContent === name)?.querySelector("dd").innerText,
      name,
    );
  }

  /** Samples that were heard so far, without the silence in front. */
  async heard() {
    const all = await this.page.evaluate(() => window.heardSamples.flatMap((part) => [...part]));
    const first = all.findIndex((sample) => sample !== 0);
    return first < 0 ? [] : all.slice(first);
  }

  async forgetHeard() {
    await this.page.evaluate(() => (window.heardSamples.length = 0));
  }

  /** Judges the shown view in both themes, wide and on a phone: nothing serious for axe, nothing wider than the screen. */
  async judge(name) {
    for (const theme of THEMES) {
      await this.page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
      for (const viewport of [DESK, PHONE]) {
        await this.page.setViewport(viewport);
        const where = `${name}, ${theme}, ${viewport.width} px`;
        // Colours that change slowly are judged when they have changed.
        await new Promise((done) => setTimeout(done, 250));
        const wide = await this.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `${where}: ${wide} px wider than the screen`);
        await this.page.evaluate(axe.source);
        const { violations } = await this.page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
        const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
        const told = serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join("; ")}`);
        assert.deepEqual(told, [], where);
        if (PICTURES) {
          const path = join(PICTURES, `${name}-${theme}-${viewport.width}.png`);
          await this.page.screenshot({ path, fullPage: true });
        }
      }
    }
    await this.page.setViewport(DESK);
  }

  /** Ends the browser, which must not have had anything to say against the page. */
  async close() {
    await this.browser.close();
    rmSync(this.home, { recursive: true, force: true });
    assert.deepEqual(this.problems, []);
  }
}

/** The samples of a WAV file of 16 bits, as floats. */
export function samplesOf(file) {
  const view = new DataView(file.buffer, file.byteOffset + 44, file.byteLength - 44);
  return Array.from({ length: view.byteLength >> 1 }, (_, index) => view.getInt16(2 * index, true) / 32_768);
}
