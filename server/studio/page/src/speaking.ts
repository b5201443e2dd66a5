import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { AudioEncoding, type TimedText } from "./generated/omni/v1/audio_pb";
import type { Outcome, Warning } from "./generated/omni/v1/common_pb";
import { SpeechConfigSchema, type SynthesizeResponse } from "./generated/omni/v1/speech_pb";
import { told } from "./api";
import { Player } from "./player";
import { Store } from "./store";
import { Take } from "./take";

/** The speech in progress, or the last one. */
export interface Speaking {
  /** More samples come. */
  busy: boolean;
  take?: Take;
  /** The whole text, as it was sent. */
  text: string;
  /** Its words, as far as their times are known. */
  words: TimedText[];
  /** From the press to the first audio, in milliseconds. */
  firstAudio?: number;
  outcome?: Outcome;
  warnings: Warning[];
  problem: string;
}

const NOTHING: Speaking = { busy: false, text: "", words: [], warnings: [], problem: "" };

export type Events = (signal: AbortSignal) => AsyncIterable<SynthesizeResponse>;

/** Signed samples of 16 bits at the model's own rate. */
export function pcm(rate: number): NonNullable<MessageInitShape<typeof SpeechConfigSchema>["output"]> {
  return create(SpeechConfigSchema, {
    output: { format: { encoding: AudioEncoding.PCM_S16LE, sampleRateHz: rate } },
  }).output!;
}

/** Speaks one text at a time, and plays it as it comes. */
export class Speaker {
  readonly player = new Player();
  readonly state = new Store<Speaking>(NOTHING);
  private call: AbortController | undefined;

  /** Plays the audio of `events`, which has this rate; ends the speech before. */
  async speak(text: string, rate: number, events: Events): Promise<void> {
    this.stop();
    this.player.clear();
    const call = (this.call = new AbortController());
    const began = performance.now();
    const take = new Take(rate);
    this.state.set({ ...NOTHING, busy: true, text, take });
    const tell = (news: Partial<Speaking>) => {
      if (this.call === call) this.state.set({ ...this.state.value, ...news });
    };
    // The server works while the browser prepares to play. Where that fails, the speech can be saved all the same.
    const opened = this.player.open(rate).then(
      () => {
        if (!call.signal.aborted) this.player.play(take);
      },
      (failure: Error) => tell({ problem: failure.message }),
    );
    try {
      for await (const { event } of events(call.signal)) {
        if (call.signal.aborted) break;
        if (event.case === "audio") {
          if (take.length === 0) tell({ firstAudio: performance.now() - began });
          take.addPcm(event.value.data);
          this.player.more();
        } else if (event.case === "alignment") {
          tell({ words: [...this.state.value.words, ...event.value.spans] });
        } else if (event.case === "warning") {
          tell({ warnings: [...this.state.value.warnings, event.value] });
        } else if (event.case === "done") {
          tell({ ...(event.value.outcome && { outcome: event.value.outcome }) });
        }
      }
    } catch (failure) {
      const problem = told(failure);
      if (problem) tell({ problem });
    }
    take.complete = true;
    await opened;
    if (this.call === call) this.player.more();
    tell({ busy: false });
  }

  /** Plays the speech once more, from a sample on. */
  async replay(from = 0): Promise<void> {
    const { call } = this;
    const { take } = this.state.value;
    if (!take) return;
    const tell = (problem: string) => {
      if (this.call === call) this.state.set({ ...this.state.value, problem });
    };
    try {
      await this.player.open(take.rate);
      if (this.call === call) this.player.play(take, from);
      tell("");
    } catch (failure) {
      tell((failure as Error).message);
    }
  }

  /** Ends the speech in progress, here and in the server. */
  stop() {
    this.call?.abort();
    this.player.stop();
    if (this.state.value.busy) this.state.set({ ...this.state.value, busy: false });
  }
}
