import { useEffect, useRef, useState } from "preact/hooks";
import { can, served } from "./api";
import { Conversation, type Talking, type Turn } from "./conversation";
import { type Store, useStore } from "./store";
import { brief } from "./text";

const conversation = new Conversation();

/** One message; of an answer that was interrupted, the part that was not heard is crossed out. */
function Said({ turn }: { turn: Turn }) {
  const { text, heard } = turn;
  const cut = heard === undefined || !text.startsWith(heard) ? text.length : heard.length;
  const words = text || (turn.role === "user" ? "(spoken)" : "…");
  return (
    <li class={turn.role}>
      <p class="hint">
        {turn.role === "user" ? "You" : "Answer"}
        {turn.firstAudio !== undefined && `, first audio after ${brief(turn.firstAudio)}`}
        {heard !== undefined && ", interrupted"}
      </p>
      <p class="said">
        {words.slice(0, text ? cut : undefined)}
        {text && cut < text.length && (
          <s>
            <span class="unseen"> Not heard: </span>
            {text.slice(cut)}
          </s>
        )}
      </p>
      {turn.problem && <p class="problem">{turn.problem}</p>}
    </li>
  );
}

/** How loud the microphone is; drawn by itself, since that changes 50 times a second. */
function Level({ of }: { of: Store<number> }) {
  return <meter aria-label="Level" min={0} max={1} value={useStore(of)} />;
}

/** The state of the conversation, for people. */
function status({ state, microphone, speaking, answering }: Talking): string {
  if (state === "connecting") return "Connecting";
  if (microphone === "asked") return "The browser asks for the microphone";
  if (speaking) return "You are heard";
  return answering ? "Answering" : "";
}

export function Talk({ shown }: { shown: boolean }) {
  const state = useStore(served);
  const talking = useStore(conversation.state);
  const playing = useStore(conversation.player.state, (state) => state.playing);
  const [text, setText] = useState("");
  const [voice, setVoice] = useState("");
  const [instructions, setInstructions] = useState("");
  const log = useRef<HTMLOListElement>(null);
  const { model, voices } = state;
  const begun = talking.state !== "closed";
  const busy = talking.answering || playing;

  const begin = async () => model !== undefined && (await conversation.open({ model: model.id, voice, instructions }));
  const say = async () => {
    const said = text.trim();
    if (!said || !(await begin())) return;
    setText("");
    conversation.say(said);
  };
  const listen = async () => {
    if (await begin()) await conversation.listen();
  };
  useEffect(() => {
    if (!shown) return;
    const pressed = (event: KeyboardEvent) => {
      if (event.key === "Escape") conversation.interrupt();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [shown]);
  useEffect(() => {
    if (!shown) conversation.close();
  }, [shown]);
  useEffect(() => {
    const left = () => conversation.close();
    addEventListener("pagehide", left);
    return () => removeEventListener("pagehide", left);
  }, []);
  useEffect(() => log.current?.lastElementChild?.scrollIntoView({ block: "nearest" }), [talking.turns]);

  if (model && !can(state, "chat")) {
    return (
      <section hidden={!shown} aria-labelledby="talk-title">
        <h1 id="talk-title">Talk</h1>
        <p>{model.displayName || model.id} speaks, and holds no conversations.</p>
      </section>
    );
  }
  return (
    <section hidden={!shown} aria-labelledby="talk-title">
      <h1 id="talk-title">Talk</h1>
      {model && !can(state, "audio_input") && (
        <p class="hint">
          {model.displayName || model.id} does not hear: it answers written turns. Speech is sent all the same, and the model says that it
          cannot hear it.
        </p>
      )}
      <div class="settings">
        <label class="field">
          <span>Voice</span>
          <select value={voice} disabled={begun} onChange={(event) => setVoice(event.currentTarget.value)}>
            <option value="">The model's default</option>
            {voices.map((one) => (
              <option key={one.id} value={one.id}>
                {one.displayName || one.id}
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          <span>Instructions</span>
          <input
            type="text"
            value={instructions}
            disabled={begun}
            onInput={(event) => setInstructions(event.currentTarget.value)}
          />
        </label>
      </div>
      <div role="log" aria-label="Conversation">
        <ol class="turns" ref={log}>
          {talking.turns.map((turn, index) => (
            <Said key={turn.id || index} turn={turn} />
          ))}
        </ol>
      </div>
      {talking.problem && (
        <p role="alert" class="problem">
          {talking.problem}
        </p>
      )}
      <form
        class="say"
        onSubmit={(event) => {
          event.preventDefault();
          void say();
        }}
      >
        <label class="field">
          <span>Your turn</span>
          <input type="text" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <div class="actions">
          <button type="submit" class="primary" disabled={!model}>
            Send
          </button>
          <button
            type="button"
            disabled={!model}
            onClick={() => (talking.microphone === "off" ? void listen() : conversation.mute())}
          >
            {talking.microphone === "off" ? "Microphone on" : "Microphone off"}
          </button>
          <button type="button" disabled={!busy} onClick={() => conversation.interrupt()}>
            Interrupt
          </button>
          <button type="button" disabled={!begun} onClick={() => conversation.close()}>
            End
          </button>
          {talking.microphone === "on" && <Level of={conversation.level} />}
          <span class="hint" role="status">
            {status(talking)}
          </span>
        </div>
        <p class="hint">
          <kbd>Enter</kbd> sends, <kbd>Esc</kbd> interrupts
        </p>
      </form>
    </section>
  );
}
