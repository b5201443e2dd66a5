import { useEffect, useRef, useState } from "preact/hooks";
import { Microphone, peak, wav } from "./microphone";
import { seconds } from "./text";

/** Rate of recordings, in samples per second: that of the models' voice encoders. */
const RATE = 24_000;
/** Longest recording that the server takes, in seconds. */
const MOST = 60;

const READING =
  "The morning train was late again, so we walked along the river and talked about the summer. By the time we reached the bridge, the sun was out.";

export interface Recording {
  name: string;
  data: Uint8Array<ArrayBuffer>;
}

interface Props {
  /** The view is the one that is shown; with it the microphone ends. */
  shown: boolean;
  recording: Recording | undefined;
  onRecording: (made: Recording) => void;
}

/** A recording of the microphone, or a file. */
export function Recorder({ shown, recording, onRecording }: Props) {
  const microphone = useRef<Microphone | undefined>(undefined);
  const frames = useRef<Float32Array[]>([]);
  const [state, setState] = useState<"off" | "asked" | "on">("off");
  const [length, setLength] = useState(0);
  const [level, setLevel] = useState(0);
  const [problem, setProblem] = useState("");
  const [heard, setHeard] = useState("");

  const stop = () => {
    if (!microphone.current) return;
    microphone.current.close();
    microphone.current = undefined;
    setState("off");
    setLevel(0);
    if (frames.current.length > 0) onRecording({ name: "Recording", data: wav(frames.current, RATE) });
  };
  const start = async () => {
    setProblem("");
    frames.current = [];
    let samples = 0;
    const opened = new Microphone(RATE, {
      frame: (frame) => {
        frames.current.push(frame);
        samples += frame.length;
        setLength(samples / RATE);
        setLevel(peak(frame));
        if (samples >= MOST * RATE) stop();
      },
      lost: (why) => {
        setProblem(why);
        stop();
      },
    });
    microphone.current = opened;
    setState("asked");
    setLength(0);
    try {
      await opened.open();
      if (!opened.closed) setState("on");
    } catch (failure) {
      microphone.current = undefined;
      setState("off");
      setProblem((failure as Error).message);
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
  useEffect(() => {
    if (!shown) stop();
  }, [shown]);
  useEffect(() => () => microphone.current?.close(), []);

  return (
    <fieldset>
      <legend>Recording of one speaker, 1 to 60 seconds</legend>
      <p class="hint">
        5 to 15 seconds of quiet, even speech are best. To read aloud, if nothing comes to mind: <q>{READING}</q>
      </p>
      <div class="actions">
        {state === "off" ? (
          <button type="button" onClick={() => void start()}>
            Record
          </button>
        ) : (
          <button type="button" class="primary" onClick={stop}>
            Stop recording
          </button>
        )}
        {state === "asked" && (
          <span class="hint" role="status">
            The browser asks for the microphone
          </span>
        )}
        {state === "on" && (
          <>
            <span role="timer">
              {seconds(length)}, {seconds(Math.max(0, MOST - length))} left
            </span>
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
