/** Milliseconds of a duration of the API. */
export function millis(time: { seconds: bigint; nanos: number } | undefined): number | undefined {
  return time && Number(time.seconds) * 1_000 + time.nanos / 1e6;
}

/** A time for people: 12.3 s. */
export function seconds(time: number): string {
  return `${time.toFixed(1)} s`;
}

/** A time for people: 45 ms, 1.20 s. */
export function brief(time: number | undefined): string {
  if (time === undefined) return "–";
  if (time < 1_000) return `${time < 10 ? time.toFixed(1) : Math.round(time)} ms`;
  return `${(time / 1_000).toFixed(2)} s`;
}

/** A number of things: 1 gap, 2 gaps. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
