const names = new Intl.DisplayNames(undefined, { type: "language", fallback: "code" });

/** What people call a language, by its BCP-47 tag. */
export function languageName(tag: string): string {
  try {
    return names.of(tag) ?? tag;
  } catch {
    return tag;
  }
}
