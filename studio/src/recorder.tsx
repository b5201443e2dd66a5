import { useEffect, useRef, useState } from "preact/hooks";
import { Microphone, wav } from "./microphone";
import { seconds } from "./text";

/** Rate at which is recorded, in samples per second: that of the models' voice encoders. */
const RATE = 24_000;
/** Longest recording that the server takes, in seconds. */
const MOST = 60;

export interface Recording {
  name: string;
  data: Uint8Array<ArrayBuffer>;
}

/** A recording of the microphone, or a file. */
export function Recorder({ recording, onRecording }: { recording: Recording | undefined; onRecording: (made: Recording) => void }) {
  const microphone = useRef<Microphone | undefined>(undefined);
  const frames = useRef<Float32Array[]>([]);
  const [length, setLength] = useState<number>();
  const [level, setLevel] = useState(0);
  const [problem, setProblem] = useState("");
  const [heard, setHeard] = useState("");

  const stop = async () => {
    const open = microphone.current;
    microphone.current = undefined;
    setLength(undefined);
    setLevel(0);
    if (!open) return;
    await open.close();
    onRecording({ name: "the recording", data: wav(frames.current, RATE) });
  };
  const start = async () => {
    setProblem("");
    frames.current = [];
    let samples = 0;
    try {
      microphone.current = await Microphone.open(RATE, (frame) => {
        frames.current.push(frame);
        samples += frame.length;
        setLength(samples / RATE);
        setLevel(frame.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0));
        if (samples >= MOST * RATE) void stop();
      });
      setLength(0);
    } catch (failure) {
      setProblem(`The microphone cannot be used: ${(failure as Error).message}`);
    }
  };
  const upload = async (file: File | undefined) => {
    if (file) onRecording({ name: file.name, data: new Uint8Array(await file.arrayBuffer()) });
  };
  useEffect(() => {
    if (!recording) {
      setHeard("");
      return;
    }
    const url = URL.createObjectURL(new Blob([recording.data]));
    setHeard(url);
    return () => URL.revokeObjectURL(url);
  }, [recording]);
  // The microphone ends with the form.
  useEffect(() => () => void microphone.current?.close(), []);

  return (
    <fieldset>
      <legend>Recording of one speaker, 1 to 60 seconds</legend>
      <div class="actions">
        {length === undefined ? (
          <button type="button" onClick={() => void start()}>
            Record
          </button>
        ) : (
          <button type="button" class="primary" onClick={() => void stop()}>
            Stop recording
          </button>
        )}
        {length !== undefined && (
          <>
            <span role="timer">{seconds(length)}</span>
            <meter aria-label="Level" min={0} max={1} value={level} />
          </>
        )}
        <label class="field inline">
          <span>or a file</span>
          <input
            type="file"
            accept=".wav,.flac,.ogg,.opus,audio/wav,audio/flac,audio/ogg"
            onChange={(event) => void upload(event.currentTarget.files?.[0])}
          />
        </label>
      </div>
      {problem && (
        <p role="alert" class="problem">
          {problem}
        </p>
      )}
      {recording && heard && (
        <p>
          <span class="hint">{recording.name}</span>
          <audio controls src={heard} aria-label={recording.name} />
        </p>
      )}
    </fieldset>
  );
}
