/** The root of the server, as the browser reaches it: the page stands in its folder `studio/`, behind a proxy perhaps below a prefix. */
const ROOT = new URL("../", location.href);

/** An address of the server; `path` is relative to its root and begins without a slash. */
export function at(path: string): URL {
  return new URL(path, ROOT);
}
