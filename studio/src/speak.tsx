import { useEffect, useRef, useState } from "preact/hooks";
import { can, httpHeaders, refusal, served, speech, told } from "./api";
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

/** A file of the same speech, in another format. */
async function download(text: string, settings: Settings, seed: bigint | undefined, format: Format): Promise<void> {
  const fields = {
    input: text,
    response_format: format,
    ...(settings.voice && { voice: settings.voice }),
    ...(settings.language && { language: settings.language }),
    ...(settings.speed !== 1 && { speed: settings.speed }),
    ...(seed !== undefined && { seed: Number(seed) }),
  };
  const answer = await fetch("/v1/audio/speech", {
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
  const underruns = useStore(speaker.player.state, (state) => state.underruns);
  const missing = useStore(speaker.player.state, (state) => state.missing);
  const [text, setText] = useState(EXAMPLE);
  const [settings, setSettings] = useState<Settings>({ voice: "", language: "", speed: 1, seed: "" });
  const [spoken, setSpoken] = useState<Settings>(settings);
  const [format, setFormat] = useState<Format>("wav");
  const [saving, setSaving] = useState("");
  const input = useRef<HTMLTextAreaElement>(null);
  const { model, voices } = state;
  const active = speaking.busy || playing;
  const change = (news: Partial<Settings>) => setSettings({ ...settings, ...news });

  const speak = () => {
    if (!model || !text.trim()) {
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
      await download(speaking.text, spoken, speaking.outcome?.seed, format);
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
      <form
        onSubmit={(event) => {
          event.preventDefault();
          speak();
        }}
      >
        <label class="field">
          <span>Text</span>
          <textarea ref={input} rows={5} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <div class="settings">
          <label class="field">
            <span>Voice</span>
            <select value={settings.voice} onChange={(event) => change({ voice: event.currentTarget.value })}>
              <option value="">The model's default</option>
              {voices.map((voice) => (
                <option key={voice.id} value={voice.id}>
                  {voice.displayName || voice.id}
                </option>
              ))}
            </select>
          </label>
          {(model?.languages.length ?? 0) > 1 && (
            <label class="field">
              <span>Language</span>
              <select value={settings.language} onChange={(event) => change({ language: event.currentTarget.value })}>
                <option value="">The model's default</option>
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
          <label class="field">
            <span>Seed</span>
            <input
              type="text"
              inputMode="numeric"
              placeholder="Drawn by the server"
              value={settings.seed}
              onInput={(event) => change({ seed: seedOf(event.currentTarget.value) ?? settings.seed })}
            />
          </label>
        </div>
        {chosen?.description && <p class="hint">{chosen.description}</p>}
        <div class="actions">
          <button type="submit" class="primary" disabled={!model}>
            Speak
          </button>
          <button type="button" onClick={() => speaker.stop()} disabled={!active}>
            Stop
          </button>
          <span class="hint">
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
              <dt>Of that, the server</dt>
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
              <dt>Gaps heard</dt>
              <dd>{underruns === 0 ? "none" : `${counted(underruns, "gap")}, ${brief(missing * 1_000)}`}</dd>
            </div>
            <div>
              <dt>Seed</dt>
              <dd>
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
        </div>
      )}
      {model && !can(state, "speech") && <p class="problem">This model does not speak.</p>}
    </section>
  );
}
