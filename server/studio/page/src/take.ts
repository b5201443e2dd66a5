import { Store } from "./store";

/** Samples between two points of an outline. */
const BLOCK = 64;
/** Of a signed sample of 16 bits. */
const FULL = 32_768;

/** The samples of one speech, as they come. */
export class Take {
  /** A growing array; the first `length` samples of it are there. */
  private samples = new Int16Array(1 << 16);
  /** Greatest magnitude of every block of samples. */
  private peaks: number[] = [];
  length = 0;
  /** No more samples come. */
  complete = false;
  /** How many samples there are, for those that draw them. */
  readonly grown = new Store(0);

  constructor(readonly rate: number) {}

  /** Adds signed samples of 16 bits, the low byte first. */
  addPcm(bytes: Uint8Array) {
    const count = bytes.byteLength >> 1;
    this.reserve(this.length + count);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let index = 0; index < count; index += 1) {
      const sample = view.getInt16(2 * index, true);
      const block = Math.floor(this.length / BLOCK);
      this.samples[this.length] = sample;
      this.peaks[block] = Math.max(this.peaks[block] ?? 0, Math.abs(sample));
      this.length += 1;
    }
    this.grown.set(this.length);
  }

  private reserve(length: number) {
    if (length <= this.samples.length) return;
    const larger = new Int16Array(Math.max(length, 2 * this.samples.length));
    larger.set(this.samples.subarray(0, this.length));
    this.samples = larger;
  }

  /** Samples `from` to `to` as the audio graph takes them. */
  floats(from: number, to: number): Float32Array {
    return Float32Array.from(this.samples.subarray(from, Math.min(to, this.length)), (sample) => sample / FULL);
  }

  /** Playing time in seconds. */
  get seconds(): number {
    return this.length / this.rate;
  }

  /** The greatest magnitude, 0 to 1, in each of so many equal parts. */
  outline(parts: number): number[] {
    const blocks = this.peaks.length;
    return Array.from({ length: parts }, (_, part) => {
      const from = Math.floor((part * blocks) / parts);
      const to = Math.max(from + 1, Math.floor(((part + 1) * blocks) / parts));
      let peak = 0;
      for (let block = from; block < to; block += 1) peak = Math.max(peak, this.peaks[block] ?? 0);
      return peak / FULL;
    });
  }
}
