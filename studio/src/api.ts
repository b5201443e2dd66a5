import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { CatalogService, type Model, type Voice } from "./generated/omni/v1/catalog_pb";
import { SpeechService } from "./generated/omni/v1/speech_pb";
import { VoiceService } from "./generated/omni/v1/voice_pb";
import { WatchService } from "./generated/omni/v1/watch_pb";
import { askForKey, keys } from "./key";
import { Store } from "./store";

const keyed: Interceptor = (next) => async (request) => {
  const { key } = keys.value;
  if (key) request.header.set("authorization", `Bearer ${key}`);
  return next(request);
};

const transport = createGrpcWebTransport({ baseUrl: location.origin, interceptors: [keyed] });
export const speech = createClient(SpeechService, transport);
export const catalog = createClient(CatalogService, transport);
export const keptVoices = createClient(VoiceService, transport);
export const watch = createClient(WatchService, transport);

/** What a failure says to its reader; empty if the page itself gave the call up. Asks for a key where that is what is wrong. */
export function told(failure: unknown): string {
  const error = ConnectError.from(failure);
  if (error.code === Code.Canceled) return "";
  if (error.code === Code.Unauthenticated) askForKey(error.rawMessage);
  if (error.cause instanceof TypeError) return "The server cannot be reached.";
  return error.rawMessage;
}

/** What the server speaks with. */
export interface Served {
  model?: Model;
  voices: Voice[];
  /** Why nothing is known; empty otherwise. */
  problem: string;
}

export const served = new Store<Served>({ voices: [], problem: "" });

/** How long to wait before a server that loads its model is asked again, in milliseconds. */
const AGAIN = 1_000;
/** Entries of one page of a list: as many as the server gives. */
const PAGE = 1_000;

async function everyVoice(): Promise<Voice[]> {
  const voices: Voice[] = [];
  let pageToken = "";
  do {
    const page = await catalog.listVoices({ pageSize: PAGE, pageToken });
    voices.push(...page.voices);
    pageToken = page.nextPageToken;
  } while (pageToken);
  return voices;
}

let asking: ReturnType<typeof setTimeout> | undefined;

/** Asks what is served, again and again until the server can say. */
export async function look(): Promise<void> {
  clearTimeout(asking);
  try {
    const { models } = await catalog.listModels({});
    const [model] = models;
    if (!model?.ready) asking = setTimeout(() => void look(), AGAIN);
    served.set({ ...(model && { model }), voices: await everyVoice(), problem: "" });
  } catch (failure) {
    const error = ConnectError.from(failure);
    served.set({ ...served.value, problem: told(failure) });
    if (error.code !== Code.Unauthenticated) asking = setTimeout(() => void look(), AGAIN);
  }
}

/** Whether the model has this capability. */
export function can(state: Served, capability: string): boolean {
  return state.model?.capabilities.includes(capability) ?? false;
}

/** Headers of a request to OpenAI's HTTP API. */
export function httpHeaders(): Record<string, string> {
  const { key } = keys.value;
  return { "content-type": "application/json", ...(key && { authorization: `Bearer ${key}` }) };
}
