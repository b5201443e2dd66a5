import { Store } from "./store";
import type { Take } from "./take";
import type { PlaybackCommand, PlaybackReport } from "./worklet/messages";

/** Seconds of audio that the audio thread holds ahead of what is heard. */
const AHEAD = 5;

export interface Playback {
  playing: boolean;
  /** Samples of the take that were heard, as far as is known. */
  position: number;
  underruns: number;
  /** Seconds of silence in them. */
  missing: number;
}

const IDLE: Playback = { playing: false, position: 0, underruns: 0, missing: 0 };

/** Plays one take at a time, while it is being made. */
export class Player {
  readonly state = new Store<Playback>(IDLE);
  private context: AudioContext | undefined;
  private node: AudioWorkletNode | undefined;
  private take: Take | undefined;
  private number = 0;
  /** Where in the take it began, and up to where the audio thread has it. */
  private from = 0;
  private fed = 0;
  private ended = false;

  /** The graph's context and last node, for meters; none before the first take. */
  get output(): { context: AudioContext; node: AudioWorkletNode } | undefined {
    return this.context && this.node && { context: this.context, node: this.node };
  }

  /** Makes the audio graph for samples of this rate. To be called when the user presses something: browsers ask for that. */
  async open(rate: number): Promise<void> {
    if (this.context?.sampleRate !== rate) {
      await this.context?.close();
      const context = new AudioContext({ sampleRate: rate, latencyHint: "interactive" });
      await context.audioWorklet.addModule("playback.js");
      const node = new AudioWorkletNode(context, "playback", { numberOfInputs: 0, outputChannelCount: [1] });
      node.port.onmessage = (event: MessageEvent<PlaybackReport>) => this.heard(event.data);
      node.connect(context.destination);
      this.context = context;
      this.node = node;
    }
    await this.context.resume();
  }

  /** Plays a take from sample `from` on. Later samples are asked for with `more`. */
  play(take: Take, from = 0) {
    this.take = take;
    this.number += 1;
    this.from = this.fed = from;
    this.ended = false;
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

  stop() {
    this.send({ kind: "stop" });
    this.state.set({ ...this.state.value, playing: false });
  }

  private send(command: PlaybackCommand, transfer: Transferable[] = []) {
    this.node?.port.postMessage(command, transfer);
  }

  private heard(report: PlaybackReport) {
    const { take, context } = this;
    if (!take || !context || report.take !== this.number || !this.state.value.playing) return;
    // What was given to the graph is heard that much later.
    const late = report.ended ? 0 : Math.round((context.outputLatency || context.baseLatency || 0) * take.rate);
    const position = Math.max(this.state.value.position, this.from + report.played - late);
    const { underruns } = report;
    this.state.set({ playing: !report.ended, position, underruns, missing: report.missing / take.rate });
    this.more();
  }
}
