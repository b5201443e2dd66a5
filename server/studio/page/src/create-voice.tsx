import { useState } from "preact/hooks";
import { keptVoices, told, wantedVoice } from "./api";
import { type Recording, Recorder } from "./recorder";

type Origin = "recording" | "design";

interface Props {
  /** The view is the one that is shown. */
  shown: boolean;
  /** The sources of this model's voices; at least one. */
  origins: Origin[];
  onMade: () => void;
}

/** Makes a voice of a recording or of a description. */
export function CreateVoice({ shown, origins, onMade }: Props) {
  const [origin, setOrigin] = useState<Origin>(origins[0] ?? "recording");
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const [design, setDesign] = useState("");
  const [recording, setRecording] = useState<Recording>();
  const [made, setMade] = useState(0);
  const [last, setLast] = useState("");
  const [transcript, setTranscript] = useState("");
  const [agreed, setAgreed] = useState(false);
  const [consent, setConsent] = useState("");
  const [state, setState] = useState<{ busy: boolean; said: string; problem: string }>({ busy: false, said: "", problem: "" });

  const create = async () => {
    if (origin === "recording" && !recording) {
      setState({ busy: false, said: "", problem: "There is no recording yet: record one, or choose a file." });
      return;
    }
    setState({ busy: true, said: "The voice is being made.", problem: "" });
    const recorded = {
      audio: recording?.data ?? new Uint8Array(),
      transcript,
      xVectorOnly: !transcript.trim(),
      consent,
    };
    try {
      await keptVoices.createVoice({
        name,
        description,
        origin: origin === "design" ? { case: "design", value: design } : { case: "recording", value: recorded },
      });
      setState({ busy: false, said: `${name} was created.`, problem: "" });
      setLast(name);
      setName("");
      setRecording(undefined);
      setMade(made + 1);
      onMade();
    } catch (failure) {
      setState({ busy: false, said: "", problem: told(failure) });
    }
  };

  return (
    <form
      class="create"
      onSubmit={(event) => {
        event.preventDefault();
        void create();
      }}
    >
      {origins.length > 1 && (
        <fieldset>
          <legend>Made of</legend>
          {origins.map((one) => (
            <label key={one} class="check">
              <input type="radio" name="origin" checked={one === origin} onChange={() => setOrigin(one)} />
              <span>{one === "design" ? "a description" : "a recording"}</span>
            </label>
          ))}
        </fieldset>
      )}
      <label class="field">
        <span>Name</span>
        <input type="text" required maxLength={64} value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      {origin === "design" ? (
        <label class="field">
          <span>How it sounds, in words</span>
          <textarea
            required
            rows={3}
            value={design}
            placeholder="A calm older woman with a warm, low voice, close to the microphone"
            onInput={(event) => setDesign(event.currentTarget.value)}
          />
        </label>
      ) : (
        <>
          <Recorder key={made} shown={shown} recording={recording} onRecording={setRecording} />
          <label class="field">
            <span>Transcript (recommended: the clone resembles the speaker more)</span>
            <textarea rows={2} dir="auto" value={transcript} onInput={(event) => setTranscript(event.currentTarget.value)} />
          </label>
          <label class="check">
            <input type="checkbox" required checked={agreed} onChange={(event) => setAgreed(event.currentTarget.checked)} />
            <span>The speaker agreed to this voice.</span>
          </label>
          <label class="field">
            <span>How the speaker agreed (required; kept with the voice), for example: own voice</span>
            <input
              type="text"
              required
              value={consent}
              onInput={(event) => setConsent(event.currentTarget.value)}
            />
          </label>
        </>
      )}
      <label class="field">
        <span>Note (optional)</span>
        <input type="text" value={description} onInput={(event) => setDescription(event.currentTarget.value)} />
      </label>
      <div class="actions">
        <button type="submit" class="primary" disabled={state.busy}>
          Create voice
        </button>
        <span role="status" class="hint">
          {state.said}
        </span>
        {state.said && last && (
          <a href="#speak" onClick={() => wantedVoice.set(last)}>
            Speak with it
          </a>
        )}
      </div>
      {state.problem && (
        <p role="alert" class="problem">
          {state.problem}
        </p>
      )}
    </form>
  );
}
