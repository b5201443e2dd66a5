import { useEffect, useRef, useState } from "preact/hooks";
import { can, keptVoices, look, served, speech, told } from "./api";
import { CreateVoice } from "./create-voice";
import type { Voice } from "./generated/omni/v1/catalog_pb";
import { type KeptVoice, VoiceKind } from "./generated/omni/v1/voice_pb";
import type { SynthesizeResponse } from "./generated/omni/v1/speech_pb";
import { languageName } from "./languages";
import { Speaker, pcm } from "./speaking";
import { useStore } from "./store";
import { counted, millis, seconds } from "./text";

const SENTENCE = "This is how this voice sounds.";
/** Most languages that are named; of more the view tells the number. */
const LANGUAGES = 3;

const KINDS: Record<VoiceKind, string> = {
  [VoiceKind.UNSPECIFIED]: "",
  [VoiceKind.X_VECTOR]: "sound of a recording",
  [VoiceKind.IN_CONTEXT]: "recording with its words",
  [VoiceKind.DESCRIPTION]: "description",
};

const speaker = new Speaker();

async function* previewed(name: string, rate: number, signal: AbortSignal): AsyncIterable<SynthesizeResponse> {
  for await (const { event } of keptVoices.previewVoice({ name, output: pcm(rate) }, { signal })) {
    if (event) yield event;
  }
}

async function everyKept(): Promise<KeptVoice[]> {
  const voices: KeptVoice[] = [];
  let pageToken = "";
  do {
    const page = await keptVoices.listKeptVoices({ pageToken });
    voices.push(...page.voices);
    pageToken = page.nextPageToken;
  } while (pageToken);
  return voices;
}

function languages(voice: Voice): string {
  const { length } = voice.languages;
  return length > LANGUAGES ? counted(length, "language") : voice.languages.map(languageName).join(", ");
}

/** Lets a voice be heard, and ends that. */
function Hear({ name, heard, disabled = false, hear }: { name: string; heard: boolean; disabled?: boolean; hear: () => void }) {
  const label = heard ? "Stop" : "Hear";
  return (
    <button type="button" onClick={heard ? () => speaker.stop() : hear} disabled={disabled} aria-label={`${label} ${name}`}>
      {label}
    </button>
  );
}

function KeptRow({ kept, heard, hear, remove }: { kept: KeptVoice; heard: boolean; hear: () => void; remove: () => void }) {
  const length = millis(kept.duration);
  const made = new Date(Number(kept.created) * 1_000).toLocaleDateString();
  return (
    <li>
      <div>
        <h3>{kept.name}</h3>
        <p class="hint">
          {[KINDS[kept.kind], length ? seconds(length / 1_000) : "", `made ${made}`, kept.shared ? "shared" : ""]
            .filter(Boolean)
            .join(", ")}
          {!kept.durable && ". It ends with the server (--voices keeps voices)"}
        </p>
        {(kept.description || kept.design) && <p>{kept.description || kept.design}</p>}
        {kept.problem && <p class="problem">{kept.problem}</p>}
      </div>
      <div class="actions">
        <Hear name={kept.name} heard={heard} disabled={kept.problem !== ""} hear={hear} />
        <button type="button" onClick={remove} aria-label={`Delete ${kept.name}`}>
          Delete
        </button>
      </div>
    </li>
  );
}

/** Asks once more before something is gone. */
function Confirm({ name, onAnswer }: { name: string; onAnswer: (sure: boolean) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby="confirm" onClose={() => onAnswer(dialog.current?.returnValue === "delete")}>
      <p id="confirm">Delete {name}? The voice cannot be brought back.</p>
      <div class="actions">
        <button type="button" onClick={() => dialog.current?.close("")}>
          Keep
        </button>
        <button type="button" class="primary" onClick={() => dialog.current?.close("delete")}>
          Delete
        </button>
      </div>
    </dialog>
  );
}

export function Voices({ shown }: { shown: boolean }) {
  const state = useStore(served);
  const { busy, problem: unheard } = useStore(speaker.state);
  const playing = useStore(speaker.player.state, (state) => state.playing);
  const [chosen, setChosen] = useState("");
  const [kept, setKept] = useState<KeptVoice[]>([]);
  const [problem, setProblem] = useState("");
  const [doomed, setDoomed] = useState("");
  const { model } = state;
  const rate = model?.nativeOutput?.sampleRateHz ?? 24_000;

  const list = async () => {
    try {
      setKept(await everyKept());
      setProblem("");
    } catch (failure) {
      setProblem(told(failure));
    }
  };
  const changed = () => {
    void list();
    void look();
  };
  const remove = async (name: string) => {
    try {
      await keptVoices.deleteVoice({ name });
      changed();
    } catch (failure) {
      setProblem(told(failure));
    }
  };
  useEffect(() => {
    if (shown) void list();
    else speaker.stop();
  }, [shown, model]);
  useEffect(() => {
    if (!shown) return;
    const pressed = (event: KeyboardEvent) => {
      if (event.key === "Escape") speaker.stop();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [shown]);

  const own = state.voices.filter((voice) => !kept.some(({ name }) => name === voice.id));
  const clones = can(state, "voice_cloning") && ("recording" as const);
  const designs = can(state, "voice_design") && ("design" as const);
  const origins = [clones, designs].filter((origin) => origin !== false);
  const hear = (voice: string) => {
    setChosen(voice);
    void speaker.speak(SENTENCE, rate, (signal) =>
      speech.synthesize({ text: SENTENCE, config: { voice, output: pcm(rate) } }, { signal }),
    );
  };
  const preview = (name: string) => {
    setChosen(name);
    void speaker.speak(SENTENCE, rate, (signal) => previewed(name, rate, signal));
  };
  const heard = busy || playing ? chosen : undefined;
  return (
    <section hidden={!shown} aria-labelledby="voices-title">
      <h1 id="voices-title">Voices</h1>
      {[problem, unheard].filter(Boolean).map((one) => (
        <p role="alert" class="problem" key={one}>
          {one}
        </p>
      ))}
      {own.length > 0 && (
        <>
          <h2>Built-in</h2>
          <ul class="voices">
            {own.map((voice) => (
              <li key={voice.id}>
                <div>
                  <h3>
                    {voice.displayName || voice.id}
                    {voice.isDefault && <span class="hint"> (default)</span>}
                  </h3>
                  <p class="hint">{[voice.description, languages(voice)].filter(Boolean).join(" – ")}</p>
                </div>
                <div class="actions">
                  <Hear name={voice.displayName || voice.id} heard={heard === voice.id} hear={() => hear(voice.id)} />
                </div>
              </li>
            ))}
          </ul>
        </>
      )}
      {(kept.length > 0 || origins.length > 0) && <h2>Your voices</h2>}
      {kept.length > 0 && (
        <ul class="voices">
          {kept.map((one) => (
            <KeptRow key={one.name} kept={one} heard={heard === one.name} hear={() => preview(one.name)} remove={() => setDoomed(one.name)} />
          ))}
        </ul>
      )}
      {kept.length === 0 && origins.length > 0 && <p class="hint">None yet.</p>}
      {doomed && (
        <Confirm
          name={doomed}
          onAnswer={(sure) => {
            setDoomed("");
            if (sure) void remove(doomed);
          }}
        />
      )}
      <p role="status" class="unseen">
        {playing ? "A voice is heard" : ""}
      </p>
      {origins.length > 0 ? (
        <>
          <h2>Create a voice</h2>
          <CreateVoice key={origins.join()} shown={shown} origins={origins} onMade={changed} />
        </>
      ) : (
        model && (
          <p class="hint">
            {model.displayName || model.id} speaks with its own voices only. Base checkpoints of Qwen3-TTS take voices of recordings,
            VoiceDesign checkpoints voices of descriptions.
          </p>
        )
      )}
    </section>
  );
}
