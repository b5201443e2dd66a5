/** Commands of the page to the player. `take` names a take; reports carry its number, so that late ones are told from others. */
export type PlaybackCommand =
  | { kind: "start"; take: number }
  | { kind: "samples"; take: number; samples: Float32Array }
  | { kind: "end"; take: number }
  | { kind: "stop" };

/** The player's progress, reported to the page about 50 times a second while it plays. */
export interface PlaybackReport {
  take: number;
  /** Samples given to the audio graph since the start of the take. */
  played: number;
  /** Gaps in which the player had nothing to play, before the end was known. */
  underruns: number;
  /** Samples of silence in those gaps. */
  missing: number;
  /** Everything was played. */
  ended: boolean;
}
