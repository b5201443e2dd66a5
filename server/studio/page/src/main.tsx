import "./style.css";
import "./views.css";
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { look, served } from "./api";
import { at } from "./base";
import { keys, useKey } from "./key";
import { Speak } from "./speak";
import { useStore } from "./store";
import { Talk } from "./talk";
import { Voices } from "./voices";
import { Watch } from "./watch";

const VIEWS = [
  { id: "speak", title: "Write and hear", View: Speak },
  { id: "talk", title: "Talk", View: Talk },
  { id: "voices", title: "Voices", View: Voices },
  { id: "watch", title: "Watch", View: Watch },
] as const;
type Id = (typeof VIEWS)[number]["id"];

function fromAddress(): Id {
  const wanted = location.hash.slice(1);
  return VIEWS.find(({ id }) => id === wanted)?.id ?? VIEWS[0].id;
}

function KeyField() {
  const { key, asked } = useStore(keys);
  const [typed, setTyped] = useState(key);
  const [open, setOpen] = useState(false);
  if (!asked && !key) return null;
  if (!asked && !open) {
    return (
      <button type="button" class="link" onClick={() => setOpen(true)}>
        Change the API key
      </button>
    );
  }
  return (
    <form
      class="key"
      aria-label="API key"
      onSubmit={(event) => {
        event.preventDefault();
        useKey(typed.trim());
        setOpen(false);
        void look();
      }}
    >
      {asked && <p role="alert">{asked}</p>}
      <label class="field inline">
        <span>API key</span>
        <input
          type="password"
          autocomplete="off"
          spellcheck={false}
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
      </label>
      <button type="submit">Use</button>
      <span class="hint">Kept in this tab alone.</span>
    </form>
  );
}

function ModelState() {
  const { model, problem } = useStore(served);
  const { asked } = useStore(keys);
  if (problem && !asked) return <p role="status" class="model problem">{problem}</p>;
  const said = model ? `${model.displayName || model.id}${model.ready ? "" : " is not ready yet"}` : "";
  return <p role="status" class="model">{said}</p>;
}

function Studio() {
  const [view, setView] = useState<Id>(fromAddress);
  useEffect(() => {
    void look();
    const moved = () => setView(fromAddress());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return (
    <>
      <a class="skip" href="#content" onClick={(event) => {
        event.preventDefault();
        document.getElementById("content")?.focus();
      }}>
        Skip to the content
      </a>
      <header>
        <p class="brand">Omni Studio</p>
        <nav aria-label="Views">
          {VIEWS.map(({ id, title }) => (
            <a key={id} href={`#${id}`} aria-current={id === view ? "page" : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <ModelState />
      </header>
      <main id="content" tabIndex={-1}>
        <KeyField />
        {VIEWS.map(({ id, View }) => (
          <View key={id} shown={id === view} />
        ))}
      </main>
      <footer>
        <a href="https://github.com/omni-serve/omni">Documentation</a>
        <a href={at("v1").href}>Addresses of this server</a>
      </footer>
    </>
  );
}

const place = document.getElementById("studio");
if (place) render(<Studio />, place);
