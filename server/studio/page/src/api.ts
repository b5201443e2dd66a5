import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { CatalogService, type Model, type Voice } from "./generated/omni/v1/catalog_pb";
import { SpeechService } from "./generated/omni/v1/speech_pb";
import { VoiceService } from "./generated/omni/v1/voice_pb";
import { WatchService } from "./generated/omni/v1/watch_pb";
import { at } from "./base";
import { askForKey, keys } from "./key";
import { Store } from "./store";

const keyed: Interceptor = (next) => async (request) => {
  const { key } = keys.value;
  if (key) request.header.set("authorization", `Bearer ${key}`);
  return next(request);
};

const transport = createGrpcWebTransport({ baseUrl: at("").href.replace(/\/$/, ""), interceptors: [keyed] });
export const speech = createClient(SpeechService, transport);
export const catalog = createClient(CatalogService, transport);
export const keptVoices = createClient(VoiceService, transport);
export const watch = createClient(WatchService, transport);

export const UNREACHABLE = "The server cannot be reached.";

/** A failure in words for people; empty if the page itself gave the call up. Asks for a key where one is missing. */
export function told(failure: unknown): string {
  const error = ConnectError.from(failure);
  if (error.code === Code.Canceled) return "";
  if (error.code === Code.Unauthenticated) askForKey(error.rawMessage);
  // Browsers say no more of a connection that fails than the name of this class.
  if (error.cause instanceof TypeError) return unreachable();
  return error.rawMessage;
}

/** The server was not reached: the header says so until it is. */
export function unreachable(): string {
  if (!served.value.problem) {
    served.set({ ...served.value, problem: UNREACHABLE });
    clearTimeout(asking);
    asking = setTimeout(() => void look(), AGAIN);
  }
  return UNREACHABLE;
}

/** The model and the voices of the server. */
export interface Served {
  model?: Model;
  voices: Voice[];
  /** Why they are not known; empty otherwise. */
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

/** Asks for the model and its voices, again and again until the server can say. */
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

/** The name of a voice in a list, with a mark on the default one. */
export function voiceName({ displayName, id, isDefault }: Voice): string {
  return `${displayName || id}${isDefault ? " (default)" : ""}`;
}

/** A voice that another view asks to write with; empty if none does. */
export const wantedVoice = new Store("");

/** Whether the model has this capability. */
export function can(state: Served, capability: string): boolean {
  return state.model?.capabilities.includes(capability) ?? false;
}

/** Why OpenAI's HTTP API refused a request, for people. Asks for a key where one is missing. */
export async function refusal(answer: Response): Promise<string> {
  const body = (await answer.json().catch(() => undefined)) as { error?: { message?: string } } | undefined;
  const why = body?.error?.message ?? `The server answered ${answer.status}.`;
  if (answer.status === 401) askForKey(why);
  return why;
}

/** Headers of a request to OpenAI's HTTP API. */
export function httpHeaders(): Record<string, string> {
  const { key } = keys.value;
  return { "content-type": "application/json", ...(key && { authorization: `Bearer ${key}` }) };
}
