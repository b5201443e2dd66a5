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

/** The text, whose words light up as they are heard; a press on one goes there. */
export function Words({ text, words, take, player, onSeek }: Props) {
  const place = useRef<HTMLParagraphElement>(null);
  useEffect(() => {
    const frame = new Frame(() => {
      const { position, playing } = player.state.value;
      for (const node of place.current?.children ?? []) {
        const { start, end } = (node as HTMLElement).dataset;
        node.classList.toggle("heard", Number(end) <= position);
        node.classList.toggle("now", playing && Number(start) <= position && position < Number(end));
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
    <p class="words" ref={place}>
      {words.map((word) => (
        <span
          key={word.charStart}
          data-start={Number(word.startSample)}
          data-end={Number(word.endSample)}
          onClick={() => onSeek(Number(word.startSample))}
        >
          {word.text}
        </span>
      ))}
      {rest}
    </p>
  );
}
