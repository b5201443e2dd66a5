// The page behind a proxy that serves the server below a prefix.
import assert from "node:assert/strict";
import http from "node:http";
import { open } from "./browser.mjs";

const PREFIX = "/speech";

/** A proxy in front of the server at `url`; gives its port. */
async function proxied(url) {
  const { hostname, port } = new URL(url);
  const inner = ({ method, url, headers }) => ({ hostname, port, method, headers, path: url.slice(PREFIX.length) || "/" });
  const proxy = http.createServer((request, response) => {
    if (!request.url.startsWith(PREFIX)) {
      response.writeHead(404).end("outside the prefix");
      return;
    }
    const asked = http.request(inner(request), (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    asked.on("error", () => response.destroy());
    response.on("close", () => asked.destroy());
    request.pipe(asked);
  });
  proxy.on("upgrade", (request, socket) => {
    const asked = http.request(inner(request));
    asked.on("upgrade", (answer, upstream) => {
      const lines = Object.entries(answer.headers).map(([name, value]) => `${name}: ${value}`);
      socket.write(["HTTP/1.1 101 Switching Protocols", ...lines, "", ""].join("\r\n"));
      upstream.pipe(socket).pipe(upstream);
      upstream.on("error", () => socket.destroy());
      socket.on("error", () => upstream.destroy());
    });
    asked.on("error", () => socket.destroy());
    asked.end();
  });
  await new Promise((done) => proxy.listen(0, "127.0.0.1", done));
  return proxy;
}

export async function prefix(url) {
  const proxy = await proxied(url);
  const { port } = proxy.address();
  // The address without its last slash, as people type it.
  const studio = await open(`http://127.0.0.1:${port}${PREFIX}/studio`);
  await studio.until(() => document.querySelector(".model").textContent !== "");
  await studio.press("Speak");
  await studio.until(() => document.querySelector(".words .heard"));
  await studio.press("Stop");
  await studio.view("Talk");
  await studio.page.type('::-p-aria([name="Your turn"][role="textbox"])', "Hello there.");
  await studio.page.keyboard.press("Enter");
  await studio.until(() => document.querySelector(".turns .assistant .said")?.textContent.length > 1);
  await studio.press("End");
  await studio.view("Watch");
  await studio.until(() => document.querySelector(".waterfall"));
  assert.ok(studio.requests.every((path) => path.startsWith(`${PREFIX}/`)), `${studio.requests}`);
  await studio.close();
  proxy.closeAllConnections();
  await new Promise((done) => proxy.close(done));
}
