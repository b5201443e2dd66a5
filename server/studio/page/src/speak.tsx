import { useEffect, useRef, useState } from "preact/hooks";
import { can, httpHeaders, refusal, served, speech, told, voiceName, wantedVoice } from "./api";
import { at } from "./base";
import { AsCode, type SpeechFields } from "./code";
import { Explain } from "./explain";
import { languageName } from "./languages";
import { Speaker, pcm } from "./speaking";
import { useStore } from "./store";
import { brief, counted, millis, seconds } from "./text";
import { Waveform } from "./waveform";
import { Words } from "./words";

/** Formats of files, as OpenAI's API names them, and how their names end. */
const FORMATS = { wav: "wav", mp3: "mp3", flac: "flac", opus: "ogg", aac: "aac" } as const;
type Format = keyof typeof FORMATS;

const EXAMPLE = "Hello there. This is spoken while it is still being computed, and every word lights up as you hear it.";

interface Settings {
  voice: string;
  language: string;
  speed: number;
  seed: string;
}

const speaker = new Speaker();

/** The digits that were typed, if JSON keeps them exact. */
function seedOf(typed: string): string | undefined {
  const digits = typed.replace(/\D/g, "");
  return Number(digits) <= Number.MAX_SAFE_INTEGER ? digits : undefined;
}

/** Where the tab keeps the text. */
const TEXT = "omni-text";

function keptText(): string {
  try {
    return sessionStorage.getItem(TEXT) ?? EXAMPLE;
  } catch {
    return EXAMPLE;
  }
}

function keepText(text: string) {
  try {
    sessionStorage.setItem(TEXT, text);
  } catch {
    // Without storage the text lasts as long as the page.
  }
}

/** The same speech as a request to OpenAI's HTTP API. */
function fieldsOf(text: string, settings: Settings, seed: string, format: Format): SpeechFields {
  return {
    model: "tts-1",
    input: text,
    response_format: format,
    ...(settings.voice && { voice: settings.voice }),
    ...(settings.language && { language: settings.language }),
    ...(settings.speed !== 1 && { speed: settings.speed }),
    ...(seed && { seed: Number(seed) }),
  };
}

/** A file of the same speech, in another format. */
async function download(fields: SpeechFields, format: Format): Promise<void> {
  const answer = await fetch(at("v1/audio/speech"), {
    method: "POST",
    headers: httpHeaders(),
    body: JSON.stringify(fields),
  });
  if (!answer.ok) throw new Error(await refusal(answer));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = `speech.${FORMATS[format]}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export function Speak({ shown }: { shown: boolean }) {
  const state = useStore(served);
  const speaking = useStore(speaker.state);
  const playing = useStore(speaker.player.state, (state) => state.playing);
  const paused = useStore(speaker.player.state, (state) => state.paused);
  const underruns = useStore(speaker.player.state, (state) => state.underruns);
  const missing = useStore(speaker.player.state, (state) => state.missing);
  const [text, setText] = useState(keptText);
  const [settings, setSettings] = useState<Settings>({ voice: "", language: "", speed: 1, seed: "" });
  const [spoken, setSpoken] = useState<Settings>(settings);
  const [format, setFormat] = useState<Format>("wav");
  const [saving, setSaving] = useState("");
  const input = useRef<HTMLTextAreaElement>(null);
  const { model, voices } = state;
  const active = speaking.busy || playing;
  const write = (text: string) => {
    setText(text);
    keepText(text);
  };
  const change = (news: Partial<Settings>) => setSettings({ ...settings, ...news });

  const wanted = useStore(wantedVoice);
  useEffect(() => {
    if (!wanted) return;
    wantedVoice.set("");
    change({ voice: wanted });
  }, [wanted]);

  const voiceless = model !== undefined && voices.length === 0 && can(state, "voice_cloning");
  const speak = () => {
    if (!model || voiceless || !text.trim()) {
      input.current?.focus();
      return;
    }
    const rate = model.nativeOutput?.sampleRateHz ?? 24_000;
    const { voice, language, speed, seed } = settings;
    const languages = model.alignmentLanguages;
    const config = {
      voice,
      language,
      output: pcm(rate),
      alignment: language ? languages.includes(language) : languages.length > 0,
      ...(speed !== 1 && { speed }),
      ...(seed && { sampling: { seed: BigInt(seed) } }),
    };
    setSpoken(settings);
    void speaker.speak(text, rate, (signal) => speech.synthesize({ text, config }, { signal }));
  };
  const save = async () => {
    setSaving("The file is being made.");
    try {
      await download(fieldsOf(speaking.text, spoken, String(speaking.outcome?.seed ?? ""), format), format);
      setSaving("The file was saved.");
    } catch (failure) {
      setSaving(told(failure));
    }
  };

  // Effects run after the next frame; a key may be pressed before.
  const latest = useRef(speak);
  latest.current = speak;
  useEffect(() => {
    if (!shown) return;
    const pressed = (event: KeyboardEvent) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        latest.current();
      } else if (event.key === "Escape") {
        speaker.stop();
      }
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [shown]);
  useEffect(() => {
    if (!shown) speaker.stop();
  }, [shown]);

  const { outcome } = speaking;
  const chosen = voices.find((voice) => (settings.voice ? voice.id === settings.voice : voice.isDefault));
  return (
    <section hidden={!shown} aria-labelledby="speak-title">
      <h1 id="speak-title">Write and hear</h1>
      <p class="hint">
        This page belongs to a speech server. Write a text and press Speak: the server sends its sound while it is still being computed.
        Programs get the same by <a href={at("v1").href}>its APIs</a>.
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          speak();
        }}
      >
        <label class="field">
          <span>Text</span>
          <textarea ref={input} rows={5} dir="auto" value={text} onInput={(event) => write(event.currentTarget.value)} />
        </label>
        <div class="settings">
          <label class="field">
            <span>Voice</span>
            <select value={settings.voice} onChange={(event) => change({ voice: event.currentTarget.value })}>
              {voices.map((voice) => (
                <option key={voice.id} value={voice.isDefault ? "" : voice.id}>
                  {voiceName(voice)}
                </option>
              ))}
              {!voices.some((voice) => voice.isDefault) && <option value="">By the model</option>}
            </select>
            {chosen?.description && <small class="hint">{chosen.description}</small>}
          </label>
          {(model?.languages.length ?? 0) > 1 && (
            <label class="field">
              <span>Language</span>
              <select value={settings.language} onChange={(event) => change({ language: event.currentTarget.value })}>
                <option value="">Automatic</option>
                {model?.languages.map((tag) => (
                  <option key={tag} value={tag}>
                    {languageName(tag)}
                  </option>
                ))}
              </select>
            </label>
          )}
          <label class="field">
            <span>
              Speed <output>{settings.speed.toFixed(2)}×</output>
            </span>
            <input
              type="range"
              min="0.25"
              max="4"
              step="0.05"
              value={settings.speed}
              onInput={(event) => change({ speed: Number(event.currentTarget.value) })}
            />
          </label>
        </div>
        <details>
          <summary>More</summary>
          <label class="field narrow">
            <span>Seed: the same number gives the same sound</span>
            <input
              type="text"
              inputMode="numeric"
              placeholder="Random"
              aria-label="Seed"
              value={settings.seed}
              onInput={(event) => change({ seed: seedOf(event.currentTarget.value) ?? settings.seed })}
            />
          </label>
        </details>
        <Explain text={text} voice={settings.voice} language={settings.language} />
        {voiceless && (
          <p class="hint">
            This model has no voices of its own. Create one under <a href="#voices">Voices</a>.
          </p>
        )}
        <div class="actions">
          <button type="submit" class="primary" disabled={!model || voiceless}>
            Speak
          </button>
          <button type="button" onClick={() => speaker.player.pause(!paused)} disabled={!playing}>
            {paused ? "Go on" : "Pause"}
          </button>
          <button type="button" onClick={() => speaker.stop()} disabled={!active}>
            Stop
          </button>
          <span class="hint keys">
            <kbd>Ctrl</kbd> <kbd>Enter</kbd> speaks, <kbd>Esc</kbd> stops
          </span>
        </div>
      </form>
      {speaking.problem && (
        <p role="alert" class="problem">
          {speaking.problem}
        </p>
      )}
      {speaking.warnings.map((warning) => (
        <p class="hint" key={warning.reason}>
          {warning.message}
        </p>
      ))}
      {speaking.take && !(speaking.problem && speaking.take.length === 0) && (
        <div class="result">
          <Waveform take={speaking.take} player={speaker.player} onSeek={(sample) => void speaker.replay(sample)} />
          <Words
            text={speaking.text}
            words={speaking.words}
            take={speaking.take}
            player={speaker.player}
            onSeek={(sample) => void speaker.replay(sample)}
          />
          <div class="actions">
            <button type="button" onClick={() => void speaker.replay()} disabled={active || speaking.take.length === 0}>
              Play again
            </button>
            <label class="field inline">
              <span>File</span>
              <select value={format} onChange={(event) => setFormat(event.currentTarget.value as Format)}>
                {Object.keys(FORMATS).map((name) => (
                  <option key={name} value={name}>
                    {name.toUpperCase()}
                  </option>
                ))}
              </select>
            </label>
            <button type="button" onClick={() => void save()} disabled={!outcome}>
              Download
            </button>
            <span class="hint" role="status">
              {saving}
            </span>
          </div>
          <dl class="figures">
            <div>
              <dt>First audio</dt>
              <dd>{brief(speaking.firstAudio)}</dd>
            </div>
            <div>
              <dt>Server share</dt>
              <dd>{brief(millis(outcome?.timings?.timeToFirstAudio))}</dd>
            </div>
            <div>
              <dt>Length</dt>
              <dd>{outcome ? seconds(speaking.take.seconds) : "–"}</dd>
            </div>
            <div>
              <dt>Real-time factor</dt>
              <dd>{outcome?.timings ? outcome.timings.realTimeFactor.toFixed(2) : "–"}</dd>
            </div>
            <div>
              <dt>Gaps</dt>
              <dd>{underruns === 0 ? "none" : `${counted(underruns, "gap")}, ${brief(missing * 1_000)}`}</dd>
            </div>
            <div>
              <dt>Seed</dt>
              <dd class="seed">
                {outcome?.seed === undefined ? (
                  "–"
                ) : (
                  <button
                    type="button"
                    class="link"
                    aria-label={`${outcome.seed}: use it again`}
                    onClick={() => change({ seed: String(outcome.seed) })}
                  >
                    {String(outcome.seed)}
                  </button>
                )}
              </dd>
            </div>
          </dl>
          <AsCode fields={fieldsOf(speaking.text, spoken, String(outcome?.seed ?? ""), format)} />
        </div>
      )}
      {model && !can(state, "speech") && <p class="problem">This model does not speak.</p>}
    </section>
  );
}
