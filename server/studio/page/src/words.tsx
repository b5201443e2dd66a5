import { Fragment } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { TimedText } from "./generated/omni/v1/audio_pb";
import type { Player } from "./player";
import { Frame } from "./store";
import type { Take } from "./take";

interface Props {
  text: string;
  words: TimedText[];
  take: Take;
  player: Player;
  onSeek: (sample: number) => void;
}

/** Scrolls the text, and not the page, to a word. */
function follow(word: HTMLElement) {
  const text = word.parentElement;
  if (!text) return;
  const top = word.offsetTop - text.offsetTop;
  const bottom = top + word.offsetHeight;
  if (top < text.scrollTop) text.scrollTop = top;
  else if (bottom > text.scrollTop + text.clientHeight) text.scrollTop = bottom - text.clientHeight / 2;
}

/** A word, and the blanks before it, which its time does not concern. */
function parts(text: string): [string, string] {
  const word = text.trimStart();
  return [text.slice(0, text.length - word.length), word];
}

/** Index of the word that a key leads to from the one at `index`. */
function led(key: string, index: number, last: number, rightToLeft: boolean): number | undefined {
  const [next, before] = rightToLeft ? ["ArrowLeft", "ArrowRight"] : ["ArrowRight", "ArrowLeft"];
  if (key === next || key === "ArrowDown") return Math.min(last, index + 1);
  if (key === before || key === "ArrowUp") return Math.max(0, index - 1);
  if (key === "Home") return 0;
  return key === "End" ? last : undefined;
}

/**
 * The text, whose words light up as they are heard; a press on one goes there. One of them is among the stops of the Tab key, and the arrow
 * keys go from it to the others.
 */
export function Words({ text, words, take, player, onSeek }: Props) {
  const place = useRef<HTMLParagraphElement>(null);
  useEffect(() => {
    const frame = new Frame(() => {
      const { position, playing } = player.state.value;
      for (const child of place.current?.children ?? []) {
        const node = child as HTMLElement;
        const { start, end } = node.dataset;
        const now = playing && Number(start) <= position && position < Number(end);
        if (now && !node.classList.contains("now")) follow(node);
        node.classList.toggle("heard", Number(end) <= position);
        node.classList.toggle("now", now);
      }
    });
    const end = player.state.subscribe(frame.request);
    frame.request();
    return () => {
      end();
      frame.cancel();
    };
  }, [player, take, words]);
  const [stop, setStop] = useState(0);
  useEffect(() => setStop(0), [take]);
  const press = (event: KeyboardEvent) => {
    const nodes = [...(place.current?.children ?? [])] as HTMLElement[];
    const index = nodes.indexOf(event.target as HTMLElement);
    if (index < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      onSeek(Number(nodes[index]?.dataset.start));
      return;
    }
    const to = led(event.key, index, nodes.length - 1, getComputedStyle(nodes[index]!).direction === "rtl");
    if (to === undefined) return;
    event.preventDefault();
    setStop(to);
    nodes[to]?.focus();
  };
  const last = words.at(-1);
  const rest = Array.from(text).slice(last?.charEnd ?? 0).join("");
  return (
    <p
      class="words"
      ref={place}
      dir="auto"
      tabIndex={words.length > 0 ? -1 : 0}
      role="group"
      aria-label="Spoken text: Enter plays from a word, arrow keys go to the next"
      onKeyDown={press}
    >
      {words.map((timed, index) => {
        const [blanks, word] = parts(timed.text);
        return (
          <Fragment key={timed.charStart}>
            {blanks}
            <span
              role="button"
              tabIndex={index === stop ? 0 : -1}
              onFocus={() => setStop(index)}
              data-start={Number(timed.startSample)}
              data-end={Number(timed.endSample)}
              onClick={() => onSeek(Number(timed.startSample))}
            >
              {word}
            </span>
          </Fragment>
        );
      })}
      {rest}
    </p>
  );
}
