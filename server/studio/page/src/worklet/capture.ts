/** Samples of one message: 20 ms. */
const FRAME = Math.round(sampleRate / 50);

/** Hands on one channel of a microphone, 20 ms at a time. */
class Capture extends AudioWorkletProcessor {
  private frame = new Float32Array(FRAME);
  private filled = 0;

  process(inputs: Float32Array[][]): boolean {
    let input = inputs[0]?.[0];
    while (input && input.length > 0) {
      const part = input.subarray(0, this.frame.length - this.filled);
      this.frame.set(part, this.filled);
      this.filled += part.length;
      input = input.subarray(part.length);
      if (this.filled === this.frame.length) {
        this.port.postMessage(this.frame, [this.frame.buffer]);
        this.frame = new Float32Array(FRAME);
        this.filled = 0;
      }
    }
    return true;
  }
}

registerProcessor("capture", Capture);
