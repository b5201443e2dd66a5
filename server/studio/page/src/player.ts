import { unreachable } from "./api";
import { Store } from "./store";
import type { Take } from "./take";
import type { PlaybackCommand, PlaybackReport } from "./worklet/messages";

/** Seconds of audio that the audio thread holds ahead of the listener. */
const AHEAD = 5;
/** How long a browser may take to start its audio, in milliseconds: without the user's consent it takes for ever. */
const PATIENCE = 5_000;

export interface Playback {
  playing: boolean;
  /** It was stopped for a while by the listener; what is heard stays where it is. */
  paused: boolean;
  /** Samples of the take that were heard, as far as is known. */
  position: number;
  underruns: number;
  /** Seconds of silence in them. */
  missing: number;
}

const IDLE: Playback = { playing: false, paused: false, position: 0, underruns: 0, missing: 0 };

/** The audio graph of one rate. */
interface Graph {
  context: AudioContext;
  node: AudioWorkletNode;
}

/** The server, which has the module of the audio thread, cannot be reached. */
class Unreachable extends Error {}

/** The graph of a context, which reports its progress. */
async function made(context: AudioContext, heard: (report: PlaybackReport) => void): Promise<Graph> {
  await context.audioWorklet.addModule("playback.js").catch(() => {
    throw new Unreachable(unreachable());
  });
  const node = new AudioWorkletNode(context, "playback", { numberOfInputs: 0, outputChannelCount: [1] });
  node.port.onmessage = (event: MessageEvent<PlaybackReport>) => heard(event.data);
  node.connect(context.destination);
  return { context, node };
}

async function resumed(context: AudioContext): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, fail) => {
    timer = setTimeout(() => fail(new Error("its audio does not start; press the button once more")), PATIENCE);
  });
  try {
    await Promise.race([context.resume(), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Plays one take at a time, while it is being made. */
export class Player {
  readonly state = new Store<Playback>(IDLE);
  private context: AudioContext | undefined;
  private making: Promise<Graph> | undefined;
  private graph: Graph | undefined;
  private take: Take | undefined;
  private number = 0;
  /** Where in the take it began, and up to where the audio thread has it. */
  private from = 0;
  private fed = 0;
  private ended = false;

  /**
   * Makes the audio graph for samples of this rate. To be called when the user presses something: browsers ask for that. Rejects with an
   * error for people; the next call begins anew.
   */
  async open(rate: number): Promise<void> {
    let { context } = this;
    try {
      if (!context || context.sampleRate !== rate || context.state === "closed") {
        this.discard();
        context = this.context = new AudioContext({ sampleRate: rate, latencyHint: "interactive" });
        this.making = made(context, (report) => this.heard(report));
      }
      const graph = await this.making;
      await resumed(context);
      if (!graph || this.context !== context) return;
      graph.node.onprocessorerror = () => this.discard();
      this.graph = graph;
    } catch (failure) {
      // Another call may have replaced it in the meantime.
      if (this.context === context) this.discard();
      throw failure instanceof Unreachable ? failure : new Error(`The browser cannot play: ${(failure as Error).message}`);
    }
  }

  /** Plays a take from sample `from` on. Later samples are asked for with `more`. Without a graph that is open it does nothing. */
  play(take: Take, from = 0) {
    if (!this.graph) {
      // Nothing of this take will be heard.
      this.state.set(IDLE);
      return;
    }
    this.take = take;
    this.number += 1;
    this.from = this.fed = from;
    this.ended = false;
    void this.context?.resume();
    this.send({ kind: "start", take: this.number });
    this.state.set({ ...IDLE, playing: true, position: from });
    this.more();
  }

  /** The take has grown, or is complete. */
  more() {
    const { take } = this;
    if (!take || this.ended || !this.state.value.playing) return;
    const least = this.state.value.position + AHEAD * take.rate;
    if (this.fed < take.length && this.fed < least) {
      const samples = take.floats(this.fed, Math.max(least, this.fed + take.rate));
      this.fed += samples.length;
      this.send({ kind: "samples", take: this.number, samples }, [samples.buffer]);
    }
    if (take.complete && this.fed === take.length) {
      this.ended = true;
      this.send({ kind: "end", take: this.number });
    }
  }

  /** Holds what is heard where it is, or goes on. */
  pause(paused: boolean) {
    const { context } = this;
    if (!context || !this.state.value.playing) return;
    void (paused ? context.suspend() : context.resume());
    this.state.set({ ...this.state.value, paused });
  }

  stop() {
    this.send({ kind: "stop" });
    this.state.set({ ...this.state.value, playing: false, paused: false });
  }

  /** Stops, and forgets how far the last take was heard: another one is to come. */
  clear() {
    this.stop();
    this.take = undefined;
    this.state.set(IDLE);
  }

  private discard() {
    const { context } = this;
    this.context = this.making = this.graph = undefined;
    if (context && context.state !== "closed") void context.close();
    if (this.state.value.playing) this.stop();
  }

  private send(command: PlaybackCommand, transfer: Transferable[] = []) {
    this.graph?.node.port.postMessage(command, transfer);
  }

  private heard(report: PlaybackReport) {
    const { take, context } = this;
    if (!take || !context || report.take !== this.number || !this.state.value.playing) return;
    // The samples that the graph was given are heard that much later.
    const late = report.ended ? 0 : Math.round((context.outputLatency || context.baseLatency || 0) * take.rate);
    const position = Math.max(this.state.value.position, this.from + report.played - late);
    const { underruns } = report;
    const { paused } = this.state.value;
    this.state.set({ playing: !report.ended, paused: paused && !report.ended, position, underruns, missing: report.missing / take.rate });
    this.more();
  }
}
