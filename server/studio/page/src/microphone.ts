/** Takers of the audio and of the end of a microphone. */
export interface Listener {
  /** Frames of 20 ms, one channel, as floats. */
  frame: (samples: Float32Array) => void;
  /** The microphone ended by itself, for this reason; it is closed. */
  lost: (why: string) => void;
}

/** A microphone. `close` releases the device at any time, also while the browser still asks its user. */
export class Microphone {
  private readonly end = new AbortController();

  constructor(
    private readonly rate: number,
    private readonly listener: Listener,
  ) {}

  /** It was closed, or ended by itself. */
  get closed(): boolean {
    return this.end.signal.aborted;
  }

  /** Asks for the microphone; resolves when its frames come, or when it was closed. Rejects with an error for people. */
  async open(): Promise<void> {
    try {
      await this.capture();
    } catch (failure) {
      const { closed } = this;
      this.close();
      if (!closed) throw new Error(refusal(failure));
    }
  }

  close() {
    this.end.abort();
  }

  private async capture(): Promise<void> {
    if (!navigator.mediaDevices) throw new Error("Browsers give the microphone to pages of this machine or by https only.");
    const audio = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true };
    const stream = await navigator.mediaDevices.getUserMedia({ audio });
    this.atEnd(() => {
      for (const track of stream.getTracks()) track.stop();
    });
    for (const track of stream.getTracks()) track.onended = () => this.lose("The microphone ended: it was unplugged, or the browser took it back.");
    const left = () => this.lose("The microphone ended with the page.");
    addEventListener("pagehide", left, { signal: this.end.signal });
    const context = new AudioContext({ sampleRate: this.rate });
    this.atEnd(() => void context.close());
    await context.audioWorklet.addModule("capture.js");
    const node = new AudioWorkletNode(context, "capture", { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" });
    node.port.onmessage = (event: MessageEvent<Float32Array>) => {
      if (!this.closed) this.listener.frame(event.data);
    };
    context.createMediaStreamSource(stream).connect(node);
    await context.resume();
  }

  /** Does `work` when the microphone ends; at once if it has. */
  private atEnd(work: () => void) {
    if (this.closed) work();
    else this.end.signal.addEventListener("abort", work, { once: true });
    this.end.signal.throwIfAborted();
  }

  private lose(why: string) {
    if (this.closed) return;
    this.close();
    this.listener.lost(why);
  }
}

function refusal(failure: unknown): string {
  const { name, message } = failure as Error;
  if (name === "NotAllowedError") return "The microphone was refused. Allow it for this page in the browser's settings, and try again.";
  if (name === "NotFoundError") return "There is no microphone.";
  if (name === "NotReadableError") return "The microphone cannot be read: another program may use it.";
  return `The microphone cannot be used: ${message}`;
}

/** The greatest magnitude of a frame, 0 to 1. */
export function peak(samples: Float32Array): number {
  return samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
}

/** Floats as signed samples of 16 bits, the low byte first. */
export function pcmBytes(samples: Float32Array): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(samples.length * 2));
  samples.forEach((sample, index) => {
    const value = Math.max(-1, Math.min(1, sample));
    view.setInt16(2 * index, Math.round(value * 32_767), true);
  });
  return new Uint8Array(view.buffer);
}

/** Frames as a WAV file of one channel. */
export function wav(frames: Float32Array[], rate: number): Uint8Array<ArrayBuffer> {
  const length = frames.reduce((sum, frame) => sum + frame.length * 2, 0);
  const file = new Uint8Array(44 + length);
  const header = new DataView(file.buffer);
  const name = (at: number, text: string) => [...text].forEach((c, index) => header.setUint8(at + index, c.charCodeAt(0)));
  name(0, "RIFF");
  header.setUint32(4, 36 + length, true);
  name(8, "WAVEfmt ");
  header.setUint32(16, 16, true);
  header.setUint16(20, 1, true);
  header.setUint16(22, 1, true);
  header.setUint32(24, rate, true);
  header.setUint32(28, rate * 2, true);
  header.setUint16(32, 2, true);
  header.setUint16(34, 16, true);
  name(36, "data");
  header.setUint32(40, length, true);
  let at = 44;
  for (const frame of frames) {
    file.set(pcmBytes(frame), at);
    at += frame.length * 2;
  }
  return file;
}
