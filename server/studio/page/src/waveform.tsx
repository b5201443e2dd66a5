import { useEffect, useRef } from "preact/hooks";
import type { Player } from "./player";
import { Frame } from "./store";
import type { Take } from "./take";
import { seconds } from "./text";

/** Width of a bar and of the space behind it, in CSS pixels. */
const BAR = 2;
const PITCH = 3;

function draw(canvas: HTMLCanvasElement, take: Take, position: number) {
  const context = canvas.getContext("2d");
  const scale = devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!context || width === 0) return;
  if (canvas.width !== width * scale || canvas.height !== height * scale) {
    canvas.width = width * scale;
    canvas.height = height * scale;
  }
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  const style = getComputedStyle(canvas);
  const [heard, ahead] = [style.getPropertyValue("--accent"), style.getPropertyValue("--quiet")];
  const bars = Math.floor(width / PITCH);
  if (take.length === 0) {
    context.fillStyle = ahead;
    context.fillRect(0, height / 2, width, 1);
    return;
  }
  const share = position / take.length;
  take.outline(bars).forEach((peak, bar) => {
    const tall = Math.max(1, Math.sqrt(peak) * (height - 4));
    context.fillStyle = bar / bars < share ? heard : ahead;
    context.fillRect(bar * PITCH, (height - tall) / 2, BAR, tall);
  });
}

/** The take as far as it is made, and how much of it was heard; a press or an arrow key goes to another place. */
export function Waveform({ take, player, onSeek }: { take: Take; player: Player; onSeek: (sample: number) => void }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const frame = new Frame(() => {
      const node = canvas.current;
      if (!node) return;
      const { position } = player.state.value;
      draw(node, take, position);
      node.setAttribute("aria-valuemax", take.seconds.toFixed(1));
      node.setAttribute("aria-valuenow", (position / take.rate).toFixed(1));
      node.setAttribute("aria-valuetext", `${seconds(position / take.rate)} of ${seconds(take.seconds)}`);
    });
    const ends = [take.grown.subscribe(frame.request), player.state.subscribe(frame.request)];
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", frame.request);
    const sized = new ResizeObserver(frame.request);
    if (canvas.current) sized.observe(canvas.current);
    frame.request();
    return () => {
      for (const end of ends) end();
      dark.removeEventListener("change", frame.request);
      sized.disconnect();
      frame.cancel();
    };
  }, [take, player]);
  const seek = (sample: number) => onSeek(Math.max(0, Math.min(take.length - 1, Math.round(sample))));
  const steps: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, PageDown: -5, PageUp: 5 };
  return (
    <canvas
      ref={canvas}
      class="waveform"
      role="slider"
      tabIndex={0}
      aria-label="Place in the audio"
      aria-valuemin={0}
      onClick={(event) => seek((event.offsetX / event.currentTarget.clientWidth) * take.length)}
      onKeyDown={(event) => {
        const step = steps[event.key];
        if (!step && event.key !== "Home") return;
        event.preventDefault();
        seek(step ? player.state.value.position + step * take.rate : 0);
      }}
    />
  );
}
