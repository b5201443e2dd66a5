import type { RealtimeClientEvent, RealtimeServerEvent } from "openai/resources/realtime/realtime";
import { httpHeaders, refusal, unreachable } from "./api";
import { at } from "./base";
import { keys } from "./key";

/** How long the server may take to accept a conversation, or to say why not, in milliseconds. */
const PATIENCE = 10_000;
/** Most characters that wait to be sent: ten seconds of a microphone. */
const MOST_WAITING = 640_000;
/** Status of a request that nothing but its missing upgrade was wrong with. */
const UPGRADE_REQUIRED = 426;

/** Takers of events and of the end of a line. */
export interface Ends {
  event: (event: RealtimeServerEvent) => void;
  /** The line ended by itself; `why` is empty if that was in order. */
  lost: (why: string) => void;
}

function address(model: string): URL {
  const url = at("v1/realtime");
  url.searchParams.set("model", model);
  return url;
}

/** The Realtime WebSocket of one conversation. Nothing comes of it after `close`. */
export class Line {
  private socket: WebSocket | undefined;
  private readonly end = new AbortController();

  constructor(private readonly ends: Ends) {}

  /** Resolves when the server has accepted, or when the line was closed. Rejects with an error for people. */
  async open(model: string): Promise<void> {
    const { signal } = this.end;
    const { key } = keys.value;
    const url = address(model);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url, ["realtime", ...(key ? [`openai-insecure-api-key.${key}`] : [])]);
    this.socket = socket;
    socket.onmessage = (message: MessageEvent<string>) => this.ends.event(JSON.parse(message.data) as RealtimeServerEvent);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const answer = await new Promise<"accepted" | "refused" | "none">((done) => {
      socket.onopen = () => done("accepted");
      socket.onclose = () => done("refused");
      signal.addEventListener("abort", () => done("none"));
      timer = setTimeout(() => done("none"), PATIENCE);
    });
    clearTimeout(timer);
    if (signal.aborted) return;
    if (answer === "refused") throw new Error(await this.refusal(model));
    if (answer === "none") throw new Error("The server does not answer. Try again later.");
    socket.onclose = ({ code, reason, wasClean }) => {
      this.lose(reason || (wasClean && code === 1000 ? "" : "The connection to the server was lost."));
    };
  }

  send(event: RealtimeClientEvent) {
    const { socket } = this;
    if (socket?.readyState !== WebSocket.OPEN) return;
    if (socket.bufferedAmount > MOST_WAITING) this.lose("The connection to the server is too slow for the microphone.");
    else socket.send(JSON.stringify(event));
  }

  close() {
    this.end.abort();
    const { socket } = this;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close(1000);
  }

  private lose(why: string) {
    if (this.end.signal.aborted) return;
    this.close();
    this.ends.lost(why);
  }

  /** Why the server refused. A browser does not show a page the answer to its WebSocket, so the page asks again by HTTP. */
  private async refusal(model: string): Promise<string> {
    const signal = AbortSignal.any([this.end.signal, AbortSignal.timeout(PATIENCE)]);
    try {
      const answer = await fetch(address(model), { headers: httpHeaders(), signal });
      if (answer.status === UPGRADE_REQUIRED) return "The server refused the conversation. Try again.";
      return await refusal(answer);
    } catch {
      return unreachable();
    }
  }
}
