// Bundles the page into dist/, which the server embeds. With --check it writes nothing, and fails if dist/ is not what would be written.
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { build } from "esbuild";

const here = import.meta.dirname;
const target = join(here, "dist");
const bundled = await build({
  absWorkingDir: here,
  entryPoints: {
    app: "src/main.tsx",
    playback: "src/worklet/playback.ts",
    capture: "src/worklet/capture.ts",
  },
  outdir: "dist",
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  write: false,
});
const made = new Map(bundled.outputFiles.map((file) => [basename(file.path), Buffer.from(file.contents)]));
for (const name of readdirSync(join(here, "public"))) {
  made.set(name, readFileSync(join(here, "public", name)));
}
if (process.argv.includes("--check")) {
  const there = readdirSync(target);
  const stale = [...made].filter(([name, data]) => !there.includes(name) || !readFileSync(join(target, name)).equals(data));
  const wrong = [...stale.map(([name]) => name), ...there.filter((name) => !made.has(name))];
  if (wrong.length > 0) {
    console.error(`server/studio/page/dist is not in step with its sources (${wrong.join(", ")}): run make studio`);
    process.exit(1);
  }
} else {
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target);
  for (const [name, data] of made) writeFileSync(join(target, name), data);
  const total = [...made.values()].reduce((sum, data) => sum + data.length, 0);
  console.log(`server/studio/page/dist: ${made.size} files, ${total} bytes`);
}
