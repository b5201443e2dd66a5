import { Code, ConnectError } from "@connectrpc/connect";
import { told, watch } from "./api";
import type { Stage, WatchStatsResponse } from "./generated/omni/v1/admin_pb";
import type { RequestCourse } from "./generated/omni/v1/watch_pb";
import { askForKey } from "./key";
import { Store } from "./store";
import { millis } from "./text";

/** Requests that are listed. */
const REQUESTS = 50;
/** Looks that are drawn: one a second. */
const LOOKS = 60;
/** How long to wait before a server that was lost is looked for again, in milliseconds. */
const AGAIN = 2_000;

/** What a replica did since the look before. */
export interface Rate {
  /** Steps per second. */
  steps: number;
  /** Share of the time that it was in a step. */
  busy: number;
}

/** How full a stage was at one look. */
export interface Load {
  running: number;
  waiting: number;
}

export interface Watched {
  stats?: WatchStatsResponse;
  /** By stage and replica, as `stage/replica`. */
  rates: Map<string, Rate>;
  /** By stage, oldest first. */
  loads: Map<string, Load[]>;
  /** Newest first. */
  requests: RequestCourse[];
  problem: string;
}

export const watched = new Store<Watched>({ rates: new Map(), loads: new Map(), requests: [], problem: "" });

function load(stage: Stage): Load {
  const sum = (of: (replica: Stage["replicas"][number]) => number) =>
    stage.replicas.reduce((total, replica) => total + of(replica), 0);
  return { running: sum((replica) => replica.running), waiting: sum((replica) => replica.waiting) };
}

function rates(now: WatchStatsResponse, before: WatchStatsResponse | undefined): Map<string, Rate> {
  const found = new Map<string, Rate>();
  const time = (millis(now.time) ?? 0) - (millis(before?.time) ?? 0);
  if (!before || time <= 0) return found;
  for (const stage of now.stages) {
    const known = before.stages.find((other) => other.name === stage.name);
    for (const replica of stage.replicas) {
      const was = known?.replicas.find((other) => other.id === replica.id);
      if (!was) continue;
      const busy = (millis(replica.busy) ?? 0) - (millis(was.busy) ?? 0);
      const steps = Number(replica.steps - was.steps);
      found.set(`${stage.name}/${replica.id}`, { steps: (steps * 1_000) / time, busy: Math.min(1, busy / time) });
    }
  }
  return found;
}

function look(stats: WatchStatsResponse) {
  const { value } = watched;
  const loads = new Map(
    stats.stages.map((stage) => [stage.name, [...(value.loads.get(stage.name) ?? []), load(stage)].slice(-LOOKS)]),
  );
  watched.set({ ...value, stats, loads, rates: rates(stats, value.stats), problem: "" });
}

function ended(requests: RequestCourse[]) {
  const { value } = watched;
  watched.set({ ...value, requests: [...requests.reverse(), ...value.requests].slice(0, REQUESTS) });
}

function lost(failure: unknown): string {
  const { code, rawMessage } = ConnectError.from(failure);
  if (code === Code.PermissionDenied) askForKey(rawMessage);
  if (code === Code.Unimplemented) {
    return "This server does not show its work to callers. It does so at a loopback address, or where it asks for API keys.";
  }
  return told(failure);
}

/** Watches until `signal` ends that; a server that went away is looked for again. */
export async function follow(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    // One stream ends with the other.
    const both = new AbortController();
    const stop = () => both.abort();
    signal.addEventListener("abort", stop);
    watched.set({ rates: new Map(), loads: new Map(), requests: [], problem: watched.value.problem });
    const stats = async () => {
      for await (const answer of watch.watchStats({}, { signal: both.signal })) look(answer);
    };
    const requests = async () => {
      for await (const answer of watch.watchRequests({ last: REQUESTS }, { signal: both.signal })) ended(answer.requests);
    };
    try {
      await Promise.race([stats(), requests()]);
    } catch (failure) {
      if (!signal.aborted) watched.set({ ...watched.value, problem: lost(failure) });
    }
    both.abort();
    signal.removeEventListener("abort", stop);
    if (!signal.aborted) await new Promise((done) => setTimeout(done, AGAIN));
  }
}
