import { Fragment } from "preact";
import { useEffect, useRef } from "preact/hooks";
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

/** The text, whose words light up as they are heard; a press on one goes there. */
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
  const last = words.at(-1);
  const rest = Array.from(text).slice(last?.charEnd ?? 0).join("");
  return (
    <p class="words" ref={place} dir="auto" tabIndex={0} role="region" aria-label="Spoken text">
      {words.map((timed) => {
        const [blanks, word] = parts(timed.text);
        return (
          <Fragment key={timed.charStart}>
            {blanks}
            <span
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
