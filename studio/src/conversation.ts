import type { RealtimeClientEvent, RealtimeServerEvent } from "openai/resources/realtime/realtime";
import { keys } from "./key";
import { Microphone, pcmBytes } from "./microphone";
import { Player } from "./player";
import { Store } from "./store";
import { Take } from "./take";

/** Rate of the audio in both directions, in samples per second: the one that the protocol knows. */
const RATE = 24_000;

/** What was said by one side. */
export interface Turn {
  /** The item's name; empty until the server has told it. */
  id: string;
  role: "user" | "assistant";
  text: string;
  /** What was heard of it, where it was interrupted. */
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
  /** An answer is being made. */
  answering: boolean;
  /** The microphone is open. */
  listening: boolean;
  /** The server hears speech in the microphone. */
  speaking: boolean;
  /** Greatest magnitude in the microphone, 0 to 1. */
  level: number;
  problem: string;
}

export interface TalkSettings {
  model: string;
  voice: string;
  instructions: string;
}

const CLOSED: Talking = {
  state: "closed",
  turns: [],
  answering: false,
  listening: false,
  speaking: false,
  level: 0,
  problem: "",
};

function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

function base64Of(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

/** One conversation over the Realtime WebSocket; it plays answers and knows what was heard of them. */
export class Conversation {
  readonly state = new Store<Talking>(CLOSED);
  readonly player = new Player();
  private socket: WebSocket | undefined;
  private microphone: Microphone | undefined;
  /** The answer that is being made or played, and its item. */
  private take: Take | undefined;
  private item = "";
  /** When the answer was asked for. */
  private asked = 0;
  /** Answers that were interrupted: what still comes of them is dropped. */
  private readonly silenced = new Set<string>();

  private tell(news: Partial<Talking>) {
    this.state.set({ ...this.state.value, ...news });
  }

  private send(event: RealtimeClientEvent) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(event));
  }

  /** Begins a conversation; resolves when the server has taken its settings. To be called when the user presses something. */
  async open(settings: TalkSettings): Promise<void> {
    if (this.state.value.state !== "closed") return;
    this.state.set({ ...CLOSED, state: "connecting" });
    this.silenced.clear();
    await this.player.open(RATE);
    const url = new URL("/v1/realtime", location.href);
    url.protocol = url.protocol.replace("http", "ws");
    url.searchParams.set("model", settings.model);
    const { key } = keys.value;
    const socket = new WebSocket(url, ["realtime", ...(key ? [`openai-insecure-api-key.${key}`] : [])]);
    this.socket = socket;
    await new Promise<void>((done) => {
      socket.onopen = () => {
        this.configure(settings);
        this.tell({ state: "open" });
        done();
      };
      socket.onmessage = (message: MessageEvent<string>) => this.receive(JSON.parse(message.data) as RealtimeServerEvent);
      socket.onclose = (event) => {
        void this.ended(event);
        done();
      };
    });
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

  private async ended(event: CloseEvent) {
    this.socket = undefined;
    await this.mute();
    this.player.stop();
    const { state, problem } = this.state.value;
    const refused = state === "connecting" ? "The server refused the conversation." : "The server ended the conversation.";
    const told = problem || event.reason || refused;
    this.tell({ state: "closed", answering: false, speaking: false, problem: event.wasClean && event.code === 1000 ? problem : told });
  }

  /** Ends the conversation. */
  close() {
    this.socket?.close(1000);
    this.player.stop();
    void this.mute();
  }

  /** Says something in writing; an answer that is still heard is interrupted. */
  say(text: string) {
    this.interrupt();
    this.add({ id: "", role: "user", text, spoken: false, problem: "" });
    this.send({
      type: "conversation.item.create",
      item: { type: "message", role: "user", content: [{ type: "input_text", text }] },
    });
    this.send({ type: "response.create" });
    this.asked = performance.now();
  }

  /** Silence: the answer ends, and the conversation keeps what was heard of it. */
  interrupt() {
    const { answering } = this.state.value;
    const { playing, position } = this.player.state.value;
    if (!answering && !playing) return;
    this.player.stop();
    // In this order: the server ends the answer where the listener was.
    this.cut(position);
    if (answering) this.send({ type: "response.cancel" });
  }

  /** Tells the server how much of the answer was heard. */
  private cut(position: number) {
    const { item, take } = this;
    if (!item || !take || this.silenced.has(item)) return;
    this.silenced.add(item);
    const heard = Math.min(position, take.length);
    this.send({
      type: "conversation.item.truncate",
      item_id: item,
      content_index: 0,
      audio_end_ms: Math.floor((heard * 1_000) / RATE),
    });
  }

  /** Opens the microphone; the server decides where a turn begins and ends. */
  async listen(): Promise<void> {
    try {
      this.microphone = await Microphone.open(RATE, (samples) => {
        const level = samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
        this.tell({ level });
        this.send({ type: "input_audio_buffer.append", audio: base64Of(pcmBytes(samples)) });
      });
      this.tell({ listening: true });
    } catch (failure) {
      this.tell({ problem: `The microphone cannot be used: ${(failure as Error).message}` });
    }
  }

  async mute(): Promise<void> {
    const { microphone } = this;
    this.microphone = undefined;
    this.tell({ listening: false, level: 0, speaking: false });
    await microphone?.close();
  }

  private add(turn: Turn) {
    this.tell({ turns: [...this.state.value.turns, turn] });
  }

  private change(id: string, news: (turn: Turn) => Partial<Turn>) {
    const turns = this.state.value.turns.map((turn) => (turn.id === id ? { ...turn, ...news(turn) } : turn));
    this.tell({ turns });
  }

  /** What the server says. */
  private receive(event: RealtimeServerEvent) {
    switch (event.type) {
      case "error":
        // It came to its end before it was asked to.
        if (event.error.code === "response_cancel_not_active") return;
        this.tell({ problem: event.error.message });
        return;
      case "conversation.item.added":
        this.added(event.item);
        return;
      case "input_audio_buffer.speech_started":
        this.heardSpeech();
        return;
      case "input_audio_buffer.speech_stopped":
        this.asked = performance.now();
        this.tell({ speaking: false });
        return;
      case "conversation.item.input_audio_transcription.completed":
        this.change(event.item_id, () => ({ text: event.transcript }));
        return;
      case "response.created":
        this.take = undefined;
        this.item = "";
        this.tell({ answering: true, problem: "" });
        return;
      case "response.output_audio_transcript.delta":
      case "response.output_text.delta":
        if (!this.silenced.has(event.item_id)) this.change(event.item_id, ({ text }) => ({ text: text + event.delta }));
        return;
      case "response.output_audio.delta":
        this.audio(event.item_id, bytesOf(event.delta));
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

  private added(item: Extract<RealtimeServerEvent, { type: "conversation.item.added" }>["item"]) {
    if (item.type !== "message" || !item.id || item.role === "system") return;
    const { id, role } = item;
    if (role === "assistant") {
      this.item = id;
      this.add({ id, role, text: "", spoken: true, problem: "" });
      return;
    }
    const { turns } = this.state.value;
    const written = turns.findLastIndex((turn) => turn.role === "user" && turn.id === "");
    if (item.content.some(({ type }) => type === "input_audio")) {
      this.add({ id, role, text: "", spoken: true, problem: "" });
    } else if (written >= 0) {
      this.tell({ turns: turns.map((turn, index) => (index === written ? { ...turn, id } : turn)) });
    }
  }

  /** The microphone has speech: the server has ended the answer itself, and is told how much of it was heard. */
  private heardSpeech() {
    const { playing, position } = this.player.state.value;
    this.tell({ speaking: true });
    if (!playing && !this.state.value.answering) return;
    this.player.stop();
    this.cut(position);
  }

  private audio(item: string, bytes: Uint8Array) {
    if (this.silenced.has(item)) return;
    if (!this.take) {
      this.take = new Take(RATE);
      this.player.play(this.take);
      const firstAudio = performance.now() - this.asked;
      this.change(item, () => ({ firstAudio }));
    }
    this.take.addPcm(bytes);
    this.player.more();
  }

  private done(response: Extract<RealtimeServerEvent, { type: "response.done" }>["response"]) {
    if (this.take) {
      this.take.complete = true;
      this.player.more();
    }
    this.tell({ answering: false });
    const error = response.status_details?.error;
    if (response.status !== "failed") return;
    const why = (error as { message?: string } | undefined)?.message ?? error?.code ?? "The answer failed.";
    if (this.item) this.change(this.item, () => ({ problem: why }));
    else this.tell({ problem: why });
  }

  /** What the conversation keeps of an answer that was interrupted. */
  private retrieved(item: Extract<RealtimeServerEvent, { type: "conversation.item.retrieved" }>["item"]) {
    if (item.type !== "message" || item.role !== "assistant" || !item.id) return;
    const kept = item.content.map((part) => part.transcript ?? part.text ?? "").join("");
    this.change(item.id, () => ({ heard: kept }));
  }
}
