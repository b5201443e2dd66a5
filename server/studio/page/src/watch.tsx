import { useEffect, useState } from "preact/hooks";
import { ReplicaState, type Replica, type Stage } from "./generated/omni/v1/admin_pb";
import type { RequestCourse } from "./generated/omni/v1/watch_pb";
import { keys } from "./key";
import { at } from "./base";
import { useStore, useVisible } from "./store";
import { brief, millis } from "./text";
import { LOOKS, type Load, type Rate, follow, watched } from "./watching";
import { Waterfall } from "./waterfall";

/** How requests end, in sentences. */
const OUTCOMES: Record<string, string> = {
  stop: "Complete.",
  length: "Incomplete: it reached the most tokens or the longest audio that it may have.",
  repetition: "Incomplete: the model repeated itself, and was stopped.",
  interrupted: "Incomplete: the caller interrupted it.",
  error: "Incomplete: it failed, and its session went on.",
  aborted: "Incomplete: its whole session ended, or its caller went away.",
};

function explained({ outcome, errorReason, firstPacket }: RequestCourse): string {
  const parts = [OUTCOMES[outcome] ?? "", errorReason && `The reason is ${errorReason}.`, firstPacket ? "" : "No audio was sent."];
  return parts.filter(Boolean).join(" ");
}

function stateName(state: ReplicaState): string {
  return (ReplicaState[state] ?? "unknown").toLowerCase();
}

/** How much a stage had in its batches and before them in the last minute. */
function StageChart({ loads, name }: { loads: Load[]; name: string }) {
  const most = Math.max(1, ...loads.map(({ running, waiting }) => running + waiting));
  const line = (of: (load: Load) => number) =>
    loads.map((load, index) => `${LOOKS - loads.length + index},${20 - (of(load) / most) * 18}`).join(" ");
  const now = loads.at(-1);
  return (
    <>
      <figcaption>
        {name}: {now?.running ?? 0} running, {now?.waiting ?? 0} waiting
      </figcaption>
      <svg
        class="chart"
        viewBox={`0 0 ${LOOKS} 22`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`The last minute of ${name}: at most ${most} at once`}
      >
        <polyline class="waiting" points={line(({ running, waiting }) => running + waiting)} />
        <polyline class="running" points={line(({ running }) => running)} />
      </svg>
    </>
  );
}

function ReplicaRow({ stage, replica, rate }: { stage: Stage; replica: Replica; rate: Rate | undefined }) {
  return (
    <tr>
      <th scope="row">
        {stage.name} {replica.id}
      </th>
      <td>{replica.device}</td>
      <td class={replica.state === ReplicaState.READY ? "" : "problem"} title={replica.lastError}>
        {stateName(replica.state)}
      </td>
      <td class="number">{replica.running}</td>
      <td class="number">{replica.waiting}</td>
      <td class="number">{replica.inFlight}</td>
      <td class="number">{rate ? rate.steps.toFixed(1) : "–"}</td>
      <td class="number">{rate ? `${Math.round(rate.busy * 100)} %` : "–"}</td>
      <td class="number">{replica.kvCacheUsageRatio > 0 ? `${Math.round(replica.kvCacheUsageRatio * 100)} %` : "–"}</td>
    </tr>
  );
}

/** Meanings of the words of this view. */
const GLOSSARY: [string, string][] = [
  ["Calls", "Streams and requests that are open."],
  ["Running, Waiting", "Utterances and answers with a place in the server, and before one."],
  ["First audio", "Time from a text that can be spoken to its first audio; of those that ended in the last minute."],
  ["Without gaps", "Share of those in the last minute that a player heard without a pause."],
  ["Longest wait, Worst gap", "The longest time between two pieces of audio; the longest pause that a player heard."],
  ["Batch", "Sequences in a replica's last step. A sequence is one sentence in the talker and code2wav, one answer in the thinker."],
  ["Bound", "Utterances that are assigned to a replica until they end."],
  ["Busy", "Share of the last second in which a replica computed."],
  ["talker, code2wav, thinker", "Stages: text to codec frames, frames to sound, prompts to the text of answers."],
];

function Glossary() {
  return (
    <details>
      <summary>Words of this view</summary>
      <dl class="glossary">
        {GLOSSARY.map(([term, meaning]) => (
          <div key={term}>
            <dt>{term}</dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

/** Share of requests without gaps below which the figure is marked. */
const CONTINUITY = 0.95;

function Figures() {
  const { stats } = useStore(watched);
  const first = stats?.firstPacket;
  const ratio = stats?.continuityRatio;
  const figures: [string, string][] = [
    ["Calls", `${stats?.sessions ?? "–"}`],
    ["Running", `${stats?.running ?? "–"}`],
    ["Waiting", `${stats?.waiting ?? "–"}`],
    ["Expected wait", brief(millis(stats?.expectedWait))],
    ["Refused", `${stats?.refused ?? "–"}`],
    ["Requests per second", stats?.requestsPerSecond.toFixed(2) ?? "–"],
    ["Audio per second", stats ? `${stats.audioSecondsPerSecond.toFixed(2)} s` : "–"],
    ["First audio, median", brief(millis(first?.p50))],
    ["First audio, 95 %", brief(millis(first?.p95))],
    ["Without gaps", ratio === undefined ? "–" : `${(ratio * 100).toFixed(0)} %`],
  ];
  return (
    <dl class="figures">
      {figures.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd class={name === "Without gaps" && ratio !== undefined && ratio < CONTINUITY ? "problem" : ""}>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Stages() {
  const { stats, rates, loads } = useStore(watched);
  return (
    <>
      <h2>Stages, last minute</h2>
      <div class="charts">
        {stats?.stages.map((stage) => (
          <figure key={stage.name}>
            <StageChart name={stage.name} loads={loads.get(stage.name) ?? []} />
          </figure>
        ))}
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Replicas">
        <table>
          <thead>
            <tr>
              <th scope="col">Replica</th>
              <th scope="col">Device</th>
              <th scope="col">State</th>
              <th scope="col" class="number">
                Batch
              </th>
              <th scope="col" class="number">
                Waiting
              </th>
              <th scope="col" class="number">
                Bound
              </th>
              <th scope="col" class="number">
                Steps/s
              </th>
              <th scope="col" class="number">
                Busy
              </th>
              <th scope="col" class="number">
                KV cache
              </th>
            </tr>
          </thead>
          <tbody>
            {stats?.stages.flatMap((stage) =>
              stage.replicas.map((replica) => (
                <ReplicaRow
                  key={`${stage.name}/${replica.id}`}
                  stage={stage}
                  replica={replica}
                  rate={rates.get(`${stage.name}/${replica.id}`)}
                />
              )),
            )}
          </tbody>
        </table>
      </div>
    </>
  );
}

function RequestRow({ request, chosen, choose }: { request: RequestCourse; chosen: boolean; choose: () => void }) {
  const failed = request.outcome === "error" || request.outcome === "aborted";
  return (
    <tr class={chosen ? "chosen" : ""}>
      <th scope="row">
        <button
          type="button"
          class="link"
          aria-pressed={chosen}
          aria-label={`${request.number}: show its timeline`}
          onClick={choose}
        >
          {String(request.number)}
        </button>
      </th>
      <td>{request.answer ? "answer" : "utterance"}</td>
      <td>{request.voice}</td>
      <td class={failed ? "problem" : ""} title={explained(request)}>
        {request.errorReason || request.outcome}
      </td>
      <td class="number">{brief(millis(request.firstPacket))}</td>
      <td class="number">{brief(millis(request.longestGap))}</td>
      <td class="number">{brief(millis(request.worstUnderrun))}</td>
      <td class="number">{brief(millis(request.audio))}</td>
      <td class="number">{brief(millis(request.total))}</td>
    </tr>
  );
}

function Requests() {
  const { requests } = useStore(watched);
  const [chosen, choose] = useState<bigint>();
  const [whole, setWhole] = useState(true);
  const request = requests.find(({ number }) => number === chosen) ?? requests[0];
  if (!request) {
    return (
      <>
        <h2>Requests</h2>
        <p class="hint">No request has ended yet. Speak something, and its timeline appears here.</p>
      </>
    );
  }
  return (
    <>
      <h2>
        Timeline of request {String(request.number)}
        {chosen === undefined && " (latest)"}
      </h2>
      <label class="check">
        <input type="checkbox" checked={whole} onChange={(event) => setWhole(event.currentTarget.checked)} />
        <span>Show whole request</span>
      </label>
      <Waterfall request={request} whole={whole} />
      <p class="hint">{explained(request)}</p>
      <h2>Requests</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Requests that ended last">
        <table>
          <thead>
            <tr>
              <th scope="col">No.</th>
              <th scope="col">Kind</th>
              <th scope="col">Voice</th>
              <th scope="col">Outcome</th>
              <th scope="col" class="number">
                First audio
              </th>
              <th scope="col" class="number">
                Longest wait
              </th>
              <th scope="col" class="number">
                Worst gap
              </th>
              <th scope="col" class="number">
                Audio
              </th>
              <th scope="col" class="number">
                Took
              </th>
            </tr>
          </thead>
          <tbody>
            {requests.map((one) => (
              <RequestRow
                key={String(one.number)}
                request={one}
                chosen={one === request}
                choose={() => choose(one.number === chosen ? undefined : one.number)}
              />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

/** Whether a browser that reached this page reaches that address: one of the server's own machine is another machine's elsewhere. */
function reaches(address: string): boolean {
  const local = (name: string) => ["localhost", "[::1]"].includes(name) || name.startsWith("127.");
  return !local(new URL(address).hostname) || local(location.hostname);
}

/** Where metrics are read, as the server says. */
function Metrics() {
  const [address, setAddress] = useState<string | null>();
  useEffect(() => {
    fetch(at(""), { headers: { accept: "application/json" } })
      .then((answer) => answer.json())
      .then((about: { metrics: string | null }) => setAddress(about.metrics))
      .catch(() => setAddress(undefined));
  }, []);
  if (address === undefined) return null;
  return (
    <p>
      {address ? (
        <>
          All metrics: {reaches(address) ? <a href={address}>{address}</a> : `${address}, on the server's machine`}
        </>
      ) : (
        "Metrics are not served over HTTP here (--metrics-listen off)."
      )}
    </p>
  );
}

export function Watch({ shown }: { shown: boolean }) {
  const { problem, stats } = useStore(watched);
  const key = useStore(keys, ({ key }) => key);
  const visible = useVisible();
  // A browser has six connections to a server of HTTP/1.1, over all its tabs; watching takes two of them.
  useEffect(() => {
    if (!shown || !visible) return;
    const end = new AbortController();
    void follow(end.signal);
    return () => end.abort();
  }, [shown, visible, key]);
  return (
    <section hidden={!shown} aria-labelledby="watch-title">
      <h1 id="watch-title">Watch</h1>
      {problem && (
        <p role="alert" class="problem">
          {problem}
        </p>
      )}
      {stats?.draining && <p class="problem">The server shuts down: it takes no new work.</p>}
      {stats && (
        <>
          <Figures />
          <Stages />
          <Requests />
          <Glossary />
        </>
      )}
      {shown && <Metrics />}
    </section>
  );
}
