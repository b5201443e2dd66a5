import { useEffect, useState } from "preact/hooks";

/** A value that parts of the page read and follow. */
export class Store<T> {
  private readonly readers = new Set<() => void>();

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set(value: T) {
    this.current = value;
    for (const reader of this.readers) reader();
  }

  /** Calls `reader` after every change; the function that this gives ends that. */
  subscribe(reader: () => void): () => void {
    this.readers.add(reader);
    return () => this.readers.delete(reader);
  }
}

/** Work for the screen: done once in the next frame, however often it was asked for until then. */
export class Frame {
  private asked = 0;

  constructor(private readonly work: () => void) {}

  readonly request = () => {
    this.asked ||= requestAnimationFrame(() => {
      this.asked = 0;
      this.work();
    });
  };

  cancel() {
    cancelAnimationFrame(this.asked);
    this.asked = 0;
  }
}

/** A store's value, or the part of it that `pick` takes; the component is drawn again when that changes, at most once in a frame. */
export function useStore<T>(store: Store<T>): T;
export function useStore<T, P>(store: Store<T>, pick: (value: T) => P): P;
export function useStore<T, P>(store: Store<T>, pick?: (value: T) => P): T | P {
  const read = () => (pick ? pick(store.value) : store.value);
  const [value, set] = useState<T | P>(read);
  useEffect(() => {
    const again = () => set(read);
    const frame = new Frame(again);
    again();
    const end = store.subscribe(frame.request);
    return () => {
      end();
      frame.cancel();
    };
  }, [store]);
  return value;
}

/** Whether the tab is the one that is shown. */
export function useVisible(): boolean {
  const now = () => document.visibilityState === "visible";
  const [visible, set] = useState(now);
  useEffect(() => {
    const changed = () => set(now());
    document.addEventListener("visibilitychange", changed);
    return () => document.removeEventListener("visibilitychange", changed);
  }, []);
  return visible;
}
