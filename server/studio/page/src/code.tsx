import { useState } from "preact/hooks";
import { at } from "./base";

/** The fields of a request to `/v1/audio/speech`. */
export type SpeechFields = Record<string, string | number>;

function curl(fields: SpeechFields): string {
  const body = JSON.stringify(fields).replaceAll("'", "'\\''");
  return `curl -s ${at("v1/audio/speech").href} -H 'content-type: application/json' \\\n  -d '${body}' -o speech.${fields.response_format}`;
}

/** Fields that the SDK of OpenAI has no arguments for. */
const EXTRA = ["language", "seed"];

function python(fields: SpeechFields): string {
  const own = Object.entries(fields).filter(([name]) => !EXTRA.includes(name));
  const extra = Object.fromEntries(Object.entries(fields).filter(([name]) => EXTRA.includes(name)));
  const lines = own.map(([name, value]) => `    ${name}=${JSON.stringify(value)},`);
  if (Object.keys(extra).length > 0) lines.push(`    extra_body=${JSON.stringify(extra)},`);
  return [
    "from openai import OpenAI",
    "",
    `client = OpenAI(base_url="${at("v1").href}", api_key="none")`,
    "with client.audio.speech.with_streaming_response.create(",
    ...lines,
    ") as response:",
    `    response.stream_to_file("speech.${fields.response_format}")`,
  ].join("\n");
}

/** Programs that ask for the same speech. */
export function AsCode({ fields }: { fields: SpeechFields }) {
  const [copied, setCopied] = useState("");
  const copy = async (name: string, code: string) => {
    try {
      await navigator.clipboard.writeText(code);
      setCopied(`${name} copied.`);
    } catch {
      setCopied("The browser does not let this page copy; select the text instead.");
    }
  };
  const programs: [string, string][] = [
    ["curl", curl(fields)],
    ["Python", python(fields)],
  ];
  return (
    <details>
      <summary>The same from a program</summary>
      {programs.map(([name, code]) => (
        <div key={name}>
          <pre tabIndex={0} role="region" aria-label={`${name} program`}>
            {code}
          </pre>
          <button type="button" onClick={() => void copy(name, code)}>
            Copy {name}
          </button>
        </div>
      ))}
      <p role="status" class="hint">
        {copied}
      </p>
    </details>
  );
}
