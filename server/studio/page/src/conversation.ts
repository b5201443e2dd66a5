import type { ConversationItem, RealtimeClientEvent, RealtimeServerEvent } from "openai/resources/realtime/realtime";
import { Line } from "./line";
import { Microphone, pcmBytes, peak } from "./microphone";
import { Player } from "./player";
import { Store } from "./store";
import { Take } from "./take";

/** Rate of the audio in both directions, in samples per second: the one that the protocol knows. */
const RATE = 24_000;

type EventOf<T extends RealtimeServerEvent["type"]> = Extract<RealtimeServerEvent, { type: T }>;

/** A message of one side. */
export interface Turn {
  /** The item's name; empty until the server has told it. */
  id: string;
  role: "user" | "assistant";
  text: string;
  /** The part of it that was heard, where it was interrupted. */
  heard?: string;
  /** It was said, not written. */
  spoken: boolean;
  /** Why it failed or ended early; empty otherwise. */
  problem: string;
  /** From the request to its first audio, in milliseconds. */
  firstAudio?: number;
}

export interface Talking {
  state: "closed" | "connecting" | "open";
  turns: Turn[];
  /** An answer was asked for, or is being made. */
  answering: boolean;
  /** `asked`: the browser asks its user for it. */
  microphone: "off" | "asked" | "on";
  /** The server hears speech in the microphone. */
  speaking: boolean;
  problem: string;
  /** The connection was lost: the next one goes on with these turns. */
  lost: boolean;
}

export interface TalkSettings {
  model: string;
  voice: string;
  instructions: string;
}

const CLOSED: Talking = { state: "closed", turns: [], answering: false, microphone: "off", speaking: false, problem: "", lost: false };

/** A response that was asked for, and that the server has not begun. */
interface Asked {
  at: number;
  /** It was interrupted already. */
  unwanted: boolean;
}

/** A response that the server has begun. */
interface Answer {
  id: string;
  /** Its message; empty before it has one. */
  item: string;
  /** Its audio; absent before the first. */
  take?: Take;
  asked: number;
  /** No more comes of it. */
  done: boolean;
  /** It was interrupted: no more of it is played. */
  cut: boolean;
}

function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

function base64Of(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

/** One conversation at a time over the Realtime WebSocket; it plays answers and knows how much of each was heard. */
export class Conversation {
  readonly state = new Store<Talking>(CLOSED);
  /** Greatest magnitude in the microphone, 0 to 1. */
  readonly level = new Store(0);
  readonly player = new Player();
  /** That of the conversation in progress: of another one nothing is taken any more. */
  private line: Line | undefined;
  private microphone: Microphone | undefined;
  /** By the event that asked. */
  private readonly asked = new Map<string, Asked>();
  private answer: Answer | undefined;
  /** Responses that were interrupted: late audio of theirs is dropped. */
  private readonly cut = new Set<string>();
  /** When the user ended the last turn. */
  private turned = 0;
  private questions = 0;
  private recalled = 0;

  private tell(news: Partial<Talking>) {
    this.state.set({ ...this.state.value, ...news });
  }

  /** Tells whether an answer is to come. */
  private settle() {
    const { asked, answer } = this;
    const comes = answer !== undefined && !answer.done && !answer.cut;
    this.tell({ answering: comes || [...asked.values()].some(({ unwanted }) => !unwanted) });
  }

  private send(event: RealtimeClientEvent) {
    this.line?.send(event);
  }

  /** Begins a conversation, if there is none; gives whether one is open. To be called when the user presses something. */
  async open(settings: TalkSettings): Promise<boolean> {
    if (this.line) return this.state.value.state === "open";
    const line: Line = new Line({
      event: (event) => this.line === line && this.receive(event),
      lost: (why) => this.line === line && this.close(why || this.state.value.problem),
    });
    this.line = line;
    this.asked.clear();
    this.cut.clear();
    const { lost, turns } = this.state.value;
    const before = lost ? turns : [];
    this.state.set({ ...CLOSED, turns: before, lost, state: "connecting" });
    try {
      await this.player.open(RATE);
      if (this.line === line) await line.open(settings.model);
    } catch (failure) {
      if (this.line === line) this.close((failure as Error).message);
    }
    if (this.line !== line) return false;
    this.configure(settings);
    this.recall(before);
    this.tell({ state: "open", lost: false });
    return true;
  }

  private configure({ voice, instructions }: TalkSettings) {
    const format = { type: "audio/pcm" as const, rate: 24_000 as const };
    this.send({
      type: "session.update",
      session: {
        type: "realtime",
        output_modalities: ["audio"],
        ...(instructions && { instructions }),
        audio: {
          input: { format, turn_detection: { type: "server_vad" } },
          output: { format, ...(voice && { voice }) },
        },
      },
    });
  }

  /** Tells a new session the turns of one whose connection was lost, as far as they were heard. */
  private recall(turns: Turn[]) {
    this.recalled += 1;
    const told = turns.map((turn, index) => ({ ...turn, id: `recalled-${this.recalled}-${index}` }));
    this.tell({ turns: told });
    for (const { id, role, text, heard } of told) {
      const said = heard ?? text;
      if (!said) continue;
      const content =
        role === "user" ? [{ type: "input_text" as const, text: said }] : [{ type: "output_text" as const, text: said }];
      this.send({ type: "conversation.item.create", item: { id, type: "message", role, content } as ConversationItem });
    }
  }

  /** Ends the conversation, for this reason if it is none of the user's. */
  close(problem = "") {
    const { state, lost } = this.state.value;
    const had = state === "open" || lost;
    this.line?.close();
    this.line = this.answer = undefined;
    this.mute();
    this.player.clear();
    this.tell({ state: "closed", answering: false, problem, lost: problem !== "" && had });
  }

  /** Says something in writing; an answer that is still heard is interrupted. */
  say(text: string) {
    this.interrupt();
    this.add({ id: "", role: "user", text, spoken: false, problem: "" });
    this.send({
      type: "conversation.item.create",
      item: { type: "message", role: "user", content: [{ type: "input_text", text }] },
    });
    this.questions += 1;
    const event = `question-${this.questions}`;
    this.asked.set(event, { at: performance.now(), unwanted: false });
    this.settle();
    // The response carries its metadata: one that the microphone began is told from it.
    this.send({ type: "response.create", event_id: event, response: { metadata: { asked: event } } });
  }

  /** Ends the answer; the conversation keeps the part of it that was heard. */
  interrupt() {
    const { asked, answer } = this;
    const active = answer !== undefined && !answer.done && !answer.cut;
    if (answer) this.silence(answer);
    if (active || asked.size > 0) this.send({ type: "response.cancel" });
    this.disown();
    this.settle();
  }

  /** Answers that were asked for and have not begun are not to be heard. */
  private disown() {
    for (const asked of this.asked.values()) asked.unwanted = true;
  }

  /** Plays no more of an answer, and tells the server how much of it was heard: nothing, before its first audio. */
  private silence(answer: Answer) {
    const { playing, position } = this.player.state.value;
    if (answer.cut || (answer.done && !playing)) return;
    this.player.stop();
    answer.cut = true;
    this.cut.add(answer.id);
    // Before it is cancelled: the server ends the answer where the listener was.
    if (answer.item) this.truncate(answer.item, answer.take ? Math.min(position, answer.take.length) : 0);
  }

  private truncate(item: string, heard: number) {
    const audio_end_ms = Math.floor((heard * 1_000) / RATE);
    this.send({ type: "conversation.item.truncate", item_id: item, content_index: 0, audio_end_ms });
  }

  /** Opens the microphone; the server decides where a turn begins and ends. */
  async listen(): Promise<void> {
    if (this.microphone) return;
    const microphone: Microphone = new Microphone(RATE, {
      frame: (samples) => {
        this.level.set(peak(samples));
        this.send({ type: "input_audio_buffer.append", audio: base64Of(pcmBytes(samples)) });
      },
      lost: (why) => {
        this.mute();
        this.tell({ problem: why });
      },
    });
    this.microphone = microphone;
    this.tell({ microphone: "asked" });
    try {
      await microphone.open();
      if (!microphone.closed) this.tell({ microphone: "on" });
    } catch (failure) {
      this.mute();
      this.tell({ problem: (failure as Error).message });
    }
  }

  mute() {
    this.microphone?.close();
    this.microphone = undefined;
    this.level.set(0);
    this.tell({ microphone: "off", speaking: false });
  }

  private add(turn: Turn) {
    this.tell({ turns: [...this.state.value.turns, turn] });
  }

  private change(id: string, news: (turn: Turn) => Partial<Turn>) {
    const turns = this.state.value.turns.map((turn) => (turn.id === id ? { ...turn, ...news(turn) } : turn));
    this.tell({ turns });
  }

  private receive(event: RealtimeServerEvent) {
    switch (event.type) {
      case "error":
        this.refused(event.error);
        return;
      case "conversation.item.added":
        this.added(event.item);
        return;
      case "input_audio_buffer.speech_started":
        this.heardSpeech();
        return;
      case "input_audio_buffer.speech_stopped":
        this.turned = performance.now();
        this.tell({ speaking: false });
        return;
      case "conversation.item.input_audio_transcription.completed":
        this.change(event.item_id, () => ({ text: event.transcript }));
        return;
      case "response.created":
        this.created(event.response);
        return;
      case "response.output_item.added":
        this.itemAdded(event);
        return;
      case "response.output_audio_transcript.delta":
      case "response.output_text.delta":
        if (!this.cut.has(event.response_id)) this.change(event.item_id, ({ text }) => ({ text: text + event.delta }));
        return;
      case "response.output_audio.delta":
        this.audio(event);
        return;
      case "response.done":
        this.done(event.response);
        return;
      case "conversation.item.truncated":
        this.send({ type: "conversation.item.retrieve", item_id: event.item_id });
        return;
      case "conversation.item.retrieved":
        this.retrieved(event.item);
    }
  }

  private refused({ code, event_id, message }: EventOf<"error">["error"]) {
    // It came to its end before it was asked to.
    if (code === "response_cancel_not_active") return;
    if (event_id && this.asked.delete(event_id)) this.settle();
    this.tell({ problem: message });
  }

  private added(item: EventOf<"conversation.item.added">["item"]) {
    if (item.type !== "message" || !item.id || item.role === "system") return;
    const { id, role } = item;
    const { turns } = this.state.value;
    if (turns.some((turn) => turn.id === id)) return;
    const written = turns.findLastIndex((turn) => turn.role === "user" && turn.id === "");
    if (role === "assistant" || item.content.some(({ type }) => type === "input_audio")) {
      this.add({ id, role, text: "", spoken: true, problem: "" });
    } else if (written >= 0) {
      this.tell({ turns: turns.map((turn, index) => (index === written ? { ...turn, id } : turn)) });
    }
  }

  /** The microphone has speech: the server has ended the answer itself, and is told how much of it was heard. */
  private heardSpeech() {
    this.tell({ speaking: true });
    if (this.answer) this.silence(this.answer);
    this.disown();
    this.settle();
  }

  private created({ id = "", metadata }: EventOf<"response.created">["response"]) {
    const asked = this.asked.get(metadata?.asked ?? "");
    this.asked.delete(metadata?.asked ?? "");
    const answer: Answer = { id, item: "", asked: asked?.at ?? this.turned, done: false, cut: false };
    this.answer = answer;
    if (asked?.unwanted) {
      this.silence(answer);
      this.send({ type: "response.cancel", response_id: id });
    } else {
      this.tell({ problem: "" });
    }
    this.settle();
  }

  private itemAdded({ response_id, item }: EventOf<"response.output_item.added">) {
    if (item.type !== "message" || !item.id) return;
    if (this.answer?.id === response_id) this.answer.item = item.id;
    // It was interrupted before the page knew its message.
    if (this.cut.has(response_id)) this.truncate(item.id, 0);
  }

  private audio({ response_id, item_id, delta }: EventOf<"response.output_audio.delta">) {
    const { answer } = this;
    if (answer?.id !== response_id || answer.cut) return;
    if (!answer.take) {
      answer.take = new Take(RATE);
      this.player.play(answer.take);
      const firstAudio = performance.now() - answer.asked;
      this.change(item_id, () => ({ firstAudio }));
    }
    answer.take.addPcm(bytesOf(delta));
    this.player.more();
  }

  private done({ id, metadata, status, status_details }: EventOf<"response.done">["response"]) {
    // One that was cancelled early enough never began.
    if (this.asked.delete(metadata?.asked ?? "")) this.settle();
    const { answer } = this;
    if (!answer || answer.id !== id) return;
    answer.done = true;
    if (answer.take) {
      answer.take.complete = true;
      this.player.more();
    }
    this.settle();
    const error = status_details?.error as { message?: string; code?: string } | undefined;
    const problem =
      status === "failed"
        ? (error?.message ?? error?.code ?? "The answer failed.")
        : status === "incomplete"
          ? "The answer is incomplete: it reached the most that one answer may have."
          : "";
    if (!problem) return;
    if (answer.item) this.change(answer.item, () => ({ problem }));
    else this.tell({ problem });
  }

  /** The text that the conversation keeps of an answer that was interrupted. */
  private retrieved(item: EventOf<"conversation.item.retrieved">["item"]) {
    if (item.type !== "message" || item.role !== "assistant" || !item.id) return;
    const kept = item.content.map((part) => part.transcript ?? part.text ?? "").join("");
    this.change(item.id, () => ({ heard: kept }));
  }
}
