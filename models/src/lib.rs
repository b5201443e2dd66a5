//! Qwen3-Omni's speech path in candle: checkpoints, tokenizer, talker, code predictor, code2wav.
