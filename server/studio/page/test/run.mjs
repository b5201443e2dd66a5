// Runs one scenario against a server: node run.mjs SCENARIO URL [JSON].
const [, , name, url, values = "{}"] = process.argv;
const scenarios = {
  ...(await import("./speak.mjs")),
  ...(await import("./watch.mjs")),
  ...(await import("./talk.mjs")),
  ...(await import("./voices.mjs")),
  ...(await import("./failures.mjs")),
  ...(await import("./prefix.mjs")),
  ...(await import("./open-webui.mjs")),
};
await scenarios[name](url, JSON.parse(values));
