import { Code, ConnectError } from "@connectrpc/connect";
import { told, watch } from "./api";
import type { Stage, WatchStatsResponse } from "./generated/omni/v1/admin_pb";
import type { RequestCourse } from "./generated/omni/v1/watch_pb";
import { keys } from "./key";
import { Store } from "./store";
import { millis } from "./text";

/** Requests that are listed. */
const REQUESTS = 50;
/** Looks that are drawn, and the width of a chart: one a second. */
export const LOOKS = 60;
/** How long to wait before a server that was lost is looked for again, in milliseconds. */
const AGAIN = 2_000;
/** Refusals that another call with the same key would meet, too. */
const FINAL = [Code.PermissionDenied, Code.Unauthenticated, Code.Unimplemented];

/** The work of a replica since the look before. */
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

const NOTHING: Watched = { rates: new Map(), loads: new Map(), requests: [], problem: "" };

export const watched = new Store<Watched>(NOTHING);

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
      // A replica that began again counts from zero.
      if (!was || replica.steps < was.steps) continue;
      const busy = (millis(replica.busy) ?? 0) - (millis(was.busy) ?? 0);
      const steps = Number(replica.steps - was.steps);
      found.set(`${stage.name}/${replica.id}`, {
        steps: (steps * 1_000) / time,
        busy: Math.max(0, Math.min(1, busy / time)),
      });
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
  if (requests.length === 0) return;
  const { value } = watched;
  watched.set({ ...value, requests: [...requests.toReversed(), ...value.requests].slice(0, REQUESTS) });
}

/** Why watching ended, for people. */
function lost(failure: unknown): string {
  if (!failure) return "The server ended the connection.";
  const { code } = ConnectError.from(failure);
  if (code === Code.PermissionDenied && keys.value.key) {
    return "This API key does not open Watch, which takes one with the scope admin. The other views work without it.";
  }
  if (code === Code.Unimplemented) {
    return "This server does not show its work to callers. It does so at a loopback address, or where it asks for API keys.";
  }
  return told(failure);
}

/** Follows both streams until one of them ends, and the other with it; gives the failure, if it was one. */
async function once(signal: AbortSignal): Promise<unknown> {
  const end = new AbortController();
  const both = AbortSignal.any([signal, end.signal]);
  // A call that was given up may have answers that were read already.
  const stats = async () => {
    for await (const answer of watch.watchStats({}, { signal: both })) if (!both.aborted) look(answer);
  };
  const requests = async () => {
    for await (const { requests } of watch.watchRequests({ last: REQUESTS }, { signal: both })) if (!both.aborted) ended(requests);
  };
  try {
    await Promise.race([stats(), requests()]);
    return undefined;
  } catch (failure) {
    return failure;
  } finally {
    end.abort();
  }
}

async function pause(signal: AbortSignal): Promise<void> {
  await new Promise<void>((done) => {
    const timer = setTimeout(done, AGAIN);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      done();
    });
  });
}

/** Watches until `signal` ends that. A server that went away is looked for again; one that refuses is not asked again. */
export async function follow(signal: AbortSignal): Promise<void> {
  // Figures and numbers of requests are those of one process.
  watched.set({ ...NOTHING, problem: watched.value.problem });
  while (!signal.aborted) {
    const failure = await once(signal);
    if (signal.aborted) return;
    watched.set({ ...NOTHING, problem: lost(failure) });
    if (failure && FINAL.includes(ConnectError.from(failure).code)) return;
    await pause(signal);
  }
}
