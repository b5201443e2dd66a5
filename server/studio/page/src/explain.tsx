import { useState } from "preact/hooks";
import { speech, told } from "./api";
import type { ExplainResponse } from "./generated/omni/v1/speech_pb";

interface Props {
  text: string;
  voice: string;
  language: string;
}

/** The words that the model is given for a text, beside the written ones. */
export function Explain({ text, voice, language }: Props) {
  const [explained, setExplained] = useState<{ text: string; answer: ExplainResponse }>();
  const [problem, setProblem] = useState("");
  const explain = async () => {
    try {
      const answer = await speech.explain({ text, config: { voice, language } });
      setExplained({ text, answer });
      setProblem("");
    } catch (failure) {
      setProblem(told(failure));
    }
  };
  const characters = Array.from(explained?.text ?? "");
  const written = ({ charStart, charEnd }: { charStart: number; charEnd: number }) => characters.slice(charStart, charEnd).join("");
  return (
    <details onToggle={(event) => event.currentTarget.open && void explain()}>
      <summary>Words that the model reads</summary>
      {problem && (
        <p role="alert" class="problem">
          {problem}
        </p>
      )}
      {explained && (
        <>
          <ol class="explained">
            {explained.answer.segments.map((segment) => (
              <li key={segment.charStart} dir="auto">
                {segment.words.map((word, index) => {
                  const original = written(word);
                  const same = original.trim().toLowerCase() === word.spoken.toLowerCase();
                  return (
                    <span key={index}>
                      {index > 0 && " "}
                      {same ? word.spoken : <ruby>{word.spoken}<rt>{original}</rt></ruby>}
                    </span>
                  );
                })}
              </li>
            ))}
          </ol>
          {explained.answer.segments.length === 0 && <p class="hint">Nothing of this text can be spoken.</p>}
          {explained.answer.warnings.map((warning) => (
            <p class="hint" key={warning.reason}>
              {warning.message}
            </p>
          ))}
          <button type="button" onClick={() => void explain()}>
            Read again
          </button>
        </>
      )}
    </details>
  );
}
