import { useEffect, useRef, useState } from "preact/hooks";
import { can, served, voiceName } from "./api";
import { Conversation, type Talking, type Turn } from "./conversation";
import { type Store, useStore } from "./store";
import { brief } from "./text";

const conversation = new Conversation();

/** One message; of an answer that was interrupted, the part that was not heard is crossed out. */
function Said({ turn, name }: { turn: Turn; name: string }) {
  const { text, heard } = turn;
  const cut = heard === undefined || !text.startsWith(heard) ? text.length : heard.length;
  const words = text || (turn.role === "user" ? "(spoken)" : "…");
  return (
    <li class={turn.role}>
      <p class="hint">
        {turn.role === "user" ? "You" : name}
        {turn.firstAudio !== undefined && `, first audio after ${brief(turn.firstAudio)}`}
        {heard !== undefined && ", interrupted"}
      </p>
      <p class="said" dir="auto">
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
  if (speaking) return "Hearing speech";
  return answering ? "Answering" : "";
}

/** First turns to try. */
const EXAMPLES = ["Hello! Who are you?", "What is 12 plus 30?", "Spell the word cat."];

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
  const hears = can(state, "audio_input");
  const name = model?.displayName || model?.id || "Answer";
  const say = async (written = text) => {
    const said = written.trim();
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
        <p>{name} speaks texts and holds no conversations.</p>
      </section>
    );
  }
  return (
    <section hidden={!shown} aria-labelledby="talk-title">
      <h1 id="talk-title">Talk</h1>
      <div class="settings">
        <label class="field">
          <span>Voice</span>
          <select value={voice} disabled={begun} onChange={(event) => setVoice(event.currentTarget.value)}>
            {voices.map((one) => (
              <option key={one.id} value={one.isDefault ? "" : one.id}>
                {voiceName(one)}
              </option>
            ))}
            {!voices.some((one) => one.isDefault) && <option value="">By the model</option>}
          </select>
        </label>
        <label class="field">
          <span>Instructions</span>
          <input
            type="text"
            dir="auto"
            placeholder="For example: answer in one short sentence"
            value={instructions}
            disabled={begun}
            onInput={(event) => setInstructions(event.currentTarget.value)}
          />
        </label>
      </div>
      {begun && <p class="hint">Voice and instructions can be changed when the conversation has ended.</p>}
      {talking.turns.length === 0 && (
        <div class="actions">
          <span class="hint">Try:</span>
          {EXAMPLES.map((example) => (
            <button key={example} type="button" disabled={!model} onClick={() => void say(example)}>
              {example}
            </button>
          ))}
        </div>
      )}
      <div role="log" aria-label="Conversation">
        <ol class="turns" ref={log}>
          {talking.turns.map((turn, index) => (
            <Said key={turn.id || index} turn={turn} name={name} />
          ))}
        </ol>
      </div>
      {talking.problem && (
        <p role="alert" class="problem">
          {talking.problem}
          {talking.lost && " The next turn goes on from here."}
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
          <input type="text" dir="auto" placeholder="Write a message" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <div class="actions">
          <button type="submit" class="primary" disabled={!model}>
            Send
          </button>
          {hears && (
            <button
              type="button"
              onClick={() => (talking.microphone === "off" ? void listen() : conversation.mute())}
            >
              {talking.microphone === "off" ? "Turn on the microphone" : "Turn off the microphone"}
            </button>
          )}
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
          <span class="keys">
            <kbd>Enter</kbd> sends, <kbd>Esc</kbd> interrupts.{" "}
          </span>
          {model && !hears && `${name} has no audio input: write to it.`}
        </p>
      </form>
    </section>
  );
}
