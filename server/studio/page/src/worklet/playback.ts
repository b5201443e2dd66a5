import type { PlaybackCommand, PlaybackReport } from "./messages";

/** Samples between two reports: a fiftieth of a second. */
const REPORT = sampleRate / 50;

/** Samples that are gathered before anything is heard, at the start and after a gap: the first pieces are shorter than a delivery may take. */
const CUSHION = sampleRate / 10;

/** Plays samples as they come, and counts the gaps between them. */
class Playback extends AudioWorkletProcessor {
  private take = 0;
  private running = false;
  private queue: Float32Array[] = [];
  /** Samples of the first of the queue that were played. */
  private offset = 0;
  private played = 0;
  private underruns = 0;
  private missing = 0;
  /** Nothing is heard until there is enough. */
  private gathering = true;
  private complete = false;
  private unreported = 0;

  constructor() {
    super();
    this.port.onmessage = (event: MessageEvent<PlaybackCommand>) => this.command(event.data);
  }

  private command(command: PlaybackCommand) {
    switch (command.kind) {
      case "start":
        this.take = command.take;
        this.running = true;
        this.queue = [];
        this.offset = this.played = this.underruns = this.missing = this.unreported = 0;
        this.gathering = true;
        this.complete = false;
        return;
      case "samples":
        if (command.take === this.take && this.running) this.queue.push(command.samples);
        return;
      case "end":
        if (command.take === this.take) this.complete = true;
        return;
      case "stop":
        this.running = false;
        this.queue = [];
        this.offset = 0;
    }
  }

  /** Fills as much of `output` as there are samples for; gives how much. */
  private fill(output: Float32Array): number {
    let filled = 0;
    for (let first = this.queue[0]; first && filled < output.length; first = this.queue[0]) {
      const part = first.subarray(this.offset, this.offset + output.length - filled);
      output.set(part, filled);
      filled += part.length;
      this.offset += part.length;
      if (this.offset === first.length) {
        this.queue.shift();
        this.offset = 0;
      }
    }
    return filled;
  }

  private enough(): boolean {
    let queued = -this.offset;
    for (const { length } of this.queue) queued += length;
    return this.complete || queued >= CUSHION;
  }

  private report(ended: boolean) {
    this.unreported = 0;
    const { take, played, underruns, missing } = this;
    const report: PlaybackReport = { take, played, underruns, missing, ended };
    this.port.postMessage(report);
  }

  process(_inputs: Float32Array[][], outputs: Float32Array[][]): boolean {
    const output = outputs[0]?.[0];
    if (!output || !this.running) return true;
    this.gathering &&= !this.enough();
    const filled = this.gathering ? 0 : this.fill(output);
    this.played += filled;
    this.unreported += output.length;
    if (filled < output.length && !this.complete && this.played > 0) {
      if (!this.gathering) this.underruns += 1;
      this.gathering = true;
      this.missing += output.length - filled;
    }
    const ended = this.complete && this.queue.length === 0;
    if (ended) this.running = false;
    if (ended || this.unreported >= REPORT) this.report(ended);
    return true;
  }
}

registerProcessor("playback", Playback);
