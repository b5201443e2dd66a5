import type { RequestCourse, StageCourse } from "./generated/omni/v1/watch_pb";
import { brief, millis } from "./text";

/** A line of a waterfall; times in milliseconds since the request began. */
export interface Step {
  name: string;
  kind: "caller" | "queue" | "edge" | "stage";
  from: number;
  to: number;
  /** The first output of a stage. */
  mark?: number;
}

function stageStep(stage: StageCourse): Step | undefined {
  const [from, mark, to] = [stage.started, stage.firstOutput, stage.lastOutput].map(millis);
  if (from === undefined) return undefined;
  const name = stage.replica ? `${stage.stage} ${stage.replica}` : stage.stage;
  return { name, kind: "stage", from, to: to ?? from, ...(mark !== undefined && { mark }) };
}

/**
 * Where the time of a request went: the caller, the queue, every stage, and every edge until the first packet. Steps
 * that the request did not reach are left out.
 */
export function steps(request: RequestCourse): Step[] {
  const found: Step[] = [];
  const [ready, admitted, packet] = [request.ready, request.admitted, request.firstPacket].map(millis);
  if (ready) found.push({ name: "text of the caller", kind: "caller", from: 0, to: ready });
  if (ready !== undefined && admitted !== undefined) {
    found.push({ name: "queue", kind: "queue", from: ready, to: admitted });
  }
  let [before, output] = ["session", admitted];
  for (const stage of request.stages) {
    const step = stageStep(stage);
    if (!step) continue;
    if (output !== undefined && step.from >= output) {
      found.push({ name: `${before} → ${stage.stage}`, kind: "edge", from: output, to: step.from });
    }
    found.push(step);
    [before, output] = [stage.stage, step.mark];
  }
  if (output !== undefined && packet !== undefined && packet >= output) {
    found.push({ name: `${before} → caller`, kind: "edge", from: output, to: packet });
  }
  return found;
}

/** The course of one request, to its first packet or to its end. */
export function Waterfall({ request, whole }: { request: RequestCourse; whole: boolean }) {
  const lines = steps(request);
  const packet = millis(request.firstPacket);
  const total = millis(request.total) ?? 0;
  const end = Math.max(whole || packet === undefined ? total : packet * 1.1, 1e-3);
  const percent = (time: number) => `${Math.min(100, Math.max(0, (time / end) * 100))}%`;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`Timeline of request ${request.number}`}>
      <table class="waterfall">
        <thead>
          <tr>
            <th scope="col">Step</th>
            <th scope="col" class="number">
              From
            </th>
            <th scope="col" class="number">
              Took
            </th>
            <th scope="col" class="bars">
              0 to {brief(end)}
              {end < total && ` of ${brief(total)}`}
            </th>
          </tr>
        </thead>
        <tbody>
          {lines.map((line, index) => (
            <tr key={index} class={line.kind}>
              <th scope="row">{line.name}</th>
              <td class="number">{brief(line.from)}</td>
              <td class="number">{brief(line.to - line.from)}</td>
              <td class="bars" aria-hidden="true">
                <div class="track">
                  <div
                    class={line.to > end ? "bar clipped" : "bar"}
                    style={{ left: percent(line.from), right: `calc(100% - ${percent(line.to)})` }}
                  />
                  {line.mark !== undefined && line.mark <= end && <div class="mark" style={{ left: percent(line.mark) }} />}
                  {packet !== undefined && <div class="packet" style={{ left: percent(packet) }} />}
                </div>
              </td>
            </tr>
          ))}
          <tr class="end">
            <th scope="row">first audio</th>
            <td class="number">{brief(packet)}</td>
            <td class="number" />
            <td class="bars" aria-hidden="true">
              <div class="track">{packet !== undefined && <div class="packet" style={{ left: percent(packet) }} />}</div>
            </td>
          </tr>
        </tbody>
      </table>
    </div>
  );
}
