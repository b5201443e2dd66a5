import { useEffect, useState } from "preact/hooks";

/** A value that parts of the page look at. */
export class Store<T> {
  private readonly readers = new Set<(value: T) => void>();

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set(value: T) {
    this.current = value;
    for (const reader of this.readers) reader(value);
  }

  subscribe(reader: (value: T) => void): () => void {
    this.readers.add(reader);
    return () => this.readers.delete(reader);
  }
}

/** The value of a store; the component is drawn again when it changes. */
export function useStore<T>(store: Store<T>): T {
  const [value, set] = useState(store.value);
  useEffect(() => {
    set(store.value);
    return store.subscribe(set);
  }, [store]);
  return value;
}
