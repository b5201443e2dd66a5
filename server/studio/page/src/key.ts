import { Store } from "./store";

/** Where the tab keeps the key; it is forgotten with the tab. */
const NAME = "omni-key";

export interface KeyState {
  key: string;
  /** Why the server asks for one, or for another one; empty while it does not. */
  asked: string;
}

function kept(): string {
  try {
    return sessionStorage.getItem(NAME) ?? "";
  } catch {
    return "";
  }
}

export const keys = new Store<KeyState>({ key: kept(), asked: "" });

export function useKey(key: string) {
  try {
    if (key) sessionStorage.setItem(NAME, key);
    else sessionStorage.removeItem(NAME);
  } catch {
    // Without storage the key lasts as long as the page.
  }
  keys.set({ key, asked: "" });
}

/** A call was refused for want of a key: its field is shown. */
export function askForKey(why: string) {
  const { key } = keys.value;
  keys.set({ key, asked: key ? why : "This server asks for an API key." });
}
