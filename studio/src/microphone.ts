/** A microphone that is open: frames of 20 ms, one channel, as floats. */
export class Microphone {
  private constructor(
    private readonly context: AudioContext,
    private readonly stream: MediaStream,
    private readonly node: AudioWorkletNode,
  ) {}

  /** Asks the user for the microphone, and gives what it hears at this rate to `frame`. */
  static async open(rate: number, frame: (samples: Float32Array) => void): Promise<Microphone> {
    if (!navigator.mediaDevices) throw new Error("Browsers give the microphone to pages of this machine or by https only.");
    const audio = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true };
    const stream = await navigator.mediaDevices.getUserMedia({ audio });
    const context = new AudioContext({ sampleRate: rate });
    try {
      await context.audioWorklet.addModule("capture.js");
      const node = new AudioWorkletNode(context, "capture", { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" });
      node.port.onmessage = (event: MessageEvent<Float32Array>) => frame(event.data);
      context.createMediaStreamSource(stream).connect(node);
      await context.resume();
      return new Microphone(context, stream, node);
    } catch (failure) {
      for (const track of stream.getTracks()) track.stop();
      await context.close();
      throw failure;
    }
  }

  /** Ends it; nothing more is handed on. */
  async close(): Promise<void> {
    this.node.port.onmessage = null;
    for (const track of this.stream.getTracks()) track.stop();
    await this.context.close();
  }
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
