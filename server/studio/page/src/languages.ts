const names = new Intl.DisplayNames(undefined, { type: "language", fallback: "code" });

/** The name of a language for people, by its BCP-47 tag. */
export function languageName(tag: string): string {
  try {
    return names.of(tag) ?? tag;
  } catch {
    return tag;
  }
}
