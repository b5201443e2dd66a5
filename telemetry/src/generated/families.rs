// Generated from telemetry/catalogue.yaml by `cargo run -p omni-telemetry --example regenerate`. Do not edit.

use crate::family::{CounterFamily, FloatCounterFamily, GaugeFamily, HistogramFamily, SummaryFamily};

/// `vllm:omni_num_requests_running`: Requests that at least one stage is working on.
#[rustfmt::skip]
pub const OMNI_NUM_REQUESTS_RUNNING: GaugeFamily<0> = GaugeFamily::new(0, &[]);

/// `vllm:omni_num_requests_waiting`: Requests that were admitted and that no stage has started yet.
#[rustfmt::skip]
pub const OMNI_NUM_REQUESTS_WAITING: GaugeFamily<0> = GaugeFamily::new(1, &[]);

/// `vllm:omni_requests_success_total`: Requests that ended, by how. Despite the name failures are in it too: they count as abort, and requests_failed_total says why. repetition is an answer that went round in circles and was stopped for it.
#[rustfmt::skip]
pub const OMNI_REQUESTS_SUCCESS_TOTAL: CounterFamily<1> = CounterFamily::new(2, &["finished_reason"]);

/// `vllm:omni_e2e_request_latency_s`: Arrival of a request to the last of its output, without the time its caller took to write it (omni_text_wait_s). Requests that ended naturally.
#[rustfmt::skip]
pub const OMNI_E2E_REQUEST_LATENCY_S: HistogramFamily<0> = HistogramFamily::new(3, &[]);

/// `vllm:omni_prompt_tokens_total`: Input tokens of the first stage, over finished requests.
#[rustfmt::skip]
pub const OMNI_PROMPT_TOKENS_TOTAL: CounterFamily<0> = CounterFamily::new(4, &[]);

/// `vllm:omni_generation_tokens_total`: Tokens and codec frames made by all stages together, over finished requests.
#[rustfmt::skip]
pub const OMNI_GENERATION_TOKENS_TOTAL: CounterFamily<0> = CounterFamily::new(5, &[]);

/// `vllm:omni_requests_failed_total`: Requests that did not end naturally, each once, by cause. The server's own failures are stage_error (one that was refused because a stage is down, restarted or not loaded yet is among them) and unknown. The caller's are client_abort (a cancel or a deadline), client_disconnect, client_error (what it asked for cannot be served) and quota; overload, operator, session_limit and shutdown say what ended a request that had begun. One that was turned away before that, for want of room or quota, is in vllm:admission_rejections_total and not here.
#[rustfmt::skip]
pub const OMNI_REQUESTS_FAILED_TOTAL: CounterFamily<1> = CounterFamily::new(6, &["reason"]);

/// `vllm:omni_request_queue_wait_s`: Admission of a request to its hand-over to the first stage. A wait of zero counts.
#[rustfmt::skip]
pub const OMNI_REQUEST_QUEUE_WAIT_S: HistogramFamily<0> = HistogramFamily::new(7, &[]);

/// `vllm:omni_text_wait_s`: Time in which a request waited for its caller to write: until something could be spoken, and whenever all that had come was spoken. 0 where the text came whole. No family of latencies of requests has this time in it; those of engines (a replica that waits for text goes on waiting) have.
#[rustfmt::skip]
pub const OMNI_TEXT_WAIT_S: HistogramFamily<0> = HistogramFamily::new(8, &[]);

/// `vllm:omni_stage_gen_time_s`: What a stage took for one request, from hand-over to its last output, its own queue included and waits for the caller's text left out. Every stage reports.
#[rustfmt::skip]
pub const OMNI_STAGE_GEN_TIME_S: HistogramFamily<2> = HistogramFamily::new(9, &["stage", "stage_type"]);

/// `vllm:omni_stage_waiting_requests`: Requests queued in a stage, summed over its live replicas.
#[rustfmt::skip]
pub const OMNI_STAGE_WAITING_REQUESTS: GaugeFamily<1> = GaugeFamily::new(10, &["stage"]);

/// `vllm:omni_stage_starved_total`: Times a request ran out of input in a replica although the stage before should have delivered.
#[rustfmt::skip]
pub const OMNI_STAGE_STARVED_TOTAL: CounterFamily<2> = CounterFamily::new(11, &["stage", "replica"]);

/// `vllm:omni_stage_info`: Always 1. Says which name, kind and device stand behind the ids in stage and replica.
#[rustfmt::skip]
pub const OMNI_STAGE_INFO: GaugeFamily<5> = GaugeFamily::new(12, &["stage", "replica", "stage_name", "stage_type", "device"]);

/// `vllm:omni_replica_up`: Whether a replica takes work. 0 while it is loaded or restarted, and when it failed, is cordoned or was removed. All series of a replica that was removed go two minutes later.
#[rustfmt::skip]
pub const OMNI_REPLICA_UP: GaugeFamily<2> = GaugeFamily::new(13, &["stage", "replica"]);

/// `vllm:omni_replica_deaths_total`: Times a replica died: its thread or its process ended, a step of its model panicked, or it hung and was given up. Replicas that were removed on purpose did not die.
#[rustfmt::skip]
pub const OMNI_REPLICA_DEATHS_TOTAL: CounterFamily<2> = CounterFamily::new(14, &["stage", "replica"]);

/// `vllm:omni_replica_restarts_total`: Times a replica took work again after it had died.
#[rustfmt::skip]
pub const OMNI_REPLICA_RESTARTS_TOTAL: CounterFamily<2> = CounterFamily::new(15, &["stage", "replica"]);

/// `vllm:omni_stage_stuck_threads`: Threads that were left behind because a step of the model did not return in time. Each holds the memory of a replica. The replica has another thread as long as there are few of them.
#[rustfmt::skip]
pub const OMNI_STAGE_STUCK_THREADS: GaugeFamily<1> = GaugeFamily::new(16, &["stage"]);

/// `vllm:omni_cancel_latency_s`: A caller's cancel (or disappearance) to the moment no stage works on the request any more.
#[rustfmt::skip]
pub const OMNI_CANCEL_LATENCY_S: HistogramFamily<0> = HistogramFamily::new(17, &[]);

/// `vllm:omni_build_info`: Always 1. The version of the server.
#[rustfmt::skip]
pub const OMNI_BUILD_INFO: GaugeFamily<1> = GaugeFamily::new(18, &["version"]);

/// `vllm:omni_sessions_active`: Sessions open now.
#[rustfmt::skip]
pub const OMNI_SESSIONS_ACTIVE: GaugeFamily<0> = GaugeFamily::new(19, &[]);

/// `vllm:omni_sessions_total`: Sessions ever opened.
#[rustfmt::skip]
pub const OMNI_SESSIONS_TOTAL: CounterFamily<0> = CounterFamily::new(20, &[]);

/// `vllm:omni_session_duration_s`: How long sessions stayed open.
#[rustfmt::skip]
pub const OMNI_SESSION_DURATION_S: HistogramFamily<0> = HistogramFamily::new(21, &[]);

/// `vllm:admission_rejections_total`: Requests turned away at the door: because a queue was full or the wait in it too long (max_num_queued_*), because as many calls are open as the server takes (max_sessions), or because a quota of the caller's API key is used up, that of open streams (concurrency_limit) or one of a rate (rate_limited).
#[rustfmt::skip]
pub const ADMISSION_REJECTIONS_TOTAL: CounterFamily<1> = CounterFamily::new(22, &["reason"]);

/// `vllm:omni_connections_active`: Connections open now that have said something.
#[rustfmt::skip]
pub const OMNI_CONNECTIONS_ACTIVE: GaugeFamily<1> = GaugeFamily::new(23, &["listener"]);

/// `vllm:omni_connections_total`: Connections by what became of them: served; refused, because as many are open as the server takes (max_connections) or as one address may have (max_connections_per_peer); or ended before a first request, because the TLS handshake failed (tls_failed), the peer left (abandoned) or was silent for too long (silent), or too many others were opening (crowded_out).
#[rustfmt::skip]
pub const OMNI_CONNECTIONS_TOTAL: CounterFamily<2> = CounterFamily::new(24, &["listener", "result"]);

/// `vllm:omni_tls_certificate_expiry_timestamp_s`: When the first certificate of the chain in use expires, since 1970. 0 where connections are not encrypted.
#[rustfmt::skip]
pub const OMNI_TLS_CERTIFICATE_EXPIRY_TIMESTAMP_S: GaugeFamily<0> = GaugeFamily::new(25, &[]);

/// `vllm:omni_audio_ttfp_s`: From the moment a request could be spoken (text that makes a sentence or was flushed; of an answer, the request for it) to its first audio packet being handed to the transport. Audio that its caller gets in one piece has no packets and is not in here: omni_e2e_request_latency_s has how long that took. What its caller took to write before is in omni_text_wait_s.
#[rustfmt::skip]
pub const OMNI_AUDIO_TTFP_S: HistogramFamily<2> = HistogramFamily::new(26, &["stage", "replica"]);

/// `vllm:omni_audio_duration_s`: Playing time of the audio a request was given.
#[rustfmt::skip]
pub const OMNI_AUDIO_DURATION_S: HistogramFamily<2> = HistogramFamily::new(27, &["stage", "replica"]);

/// `vllm:omni_audio_rtf`: Real-time factor: time from the hand-over of a request to the last output of the last stage, queues in stages included, over the playing time of its audio, of requests that ended naturally. Waits for the caller's text, and for a listener with no room for more, are left out. Below 1 is faster than playback.
#[rustfmt::skip]
pub const OMNI_AUDIO_RTF: HistogramFamily<2> = HistogramFamily::new(28, &["stage", "replica"]);

/// `vllm:omni_audio_frames_total`: Audio frames (samples per channel) handed to callers, at the rate of the model, whichever rate they were asked for.
#[rustfmt::skip]
pub const OMNI_AUDIO_FRAMES_TOTAL: CounterFamily<2> = CounterFamily::new(29, &["stage", "replica"]);

/// `vllm:omni_audio_underrun_s`: Worst lateness of a request's audio for a player that starts with the first chunk and keeps no buffer. 0 is gapless. Audio that is handed over in one piece has no chunks, and silent audio no gaps: neither is in here.
#[rustfmt::skip]
pub const OMNI_AUDIO_UNDERRUN_S: HistogramFamily<2> = HistogramFamily::new(30, &["stage", "replica"]);

/// `vllm:omni_audio_continuity_ok_total`: Requests whose worst underrun was at most threshold_ms milliseconds, of those in omni_audio_underrun_s. One threshold, as in vLLM-Omni, so that a sum over the family counts every request once; the buckets of omni_audio_underrun_s have others.
#[rustfmt::skip]
pub const OMNI_AUDIO_CONTINUITY_OK_TOTAL: CounterFamily<3> = CounterFamily::new(31, &["stage", "replica", "threshold_ms"]);

/// `vllm:omni_audio_skipped_requests_total`: Requests that ended well and yet gave no audio.
#[rustfmt::skip]
pub const OMNI_AUDIO_SKIPPED_REQUESTS_TOTAL: CounterFamily<3> = CounterFamily::new(32, &["stage", "replica", "reason"]);

/// `vllm:omni_audio_chunk_gap_s`: Time between two consecutive chunks of one request being handed to the transport. What was encoded at once is one chunk.
#[rustfmt::skip]
pub const OMNI_AUDIO_CHUNK_GAP_S: HistogramFamily<2> = HistogramFamily::new(33, &["stage", "replica"]);

/// `vllm:omni_audio_playback_lead_s`: How far a listener's audio reaches beyond the playback position when a further chunk arrives. 0 when playback has caught up.
#[rustfmt::skip]
pub const OMNI_AUDIO_PLAYBACK_LEAD_S: HistogramFamily<2> = HistogramFamily::new(34, &["stage", "replica"]);

/// `vllm:omni_audio_level_ratio`: Root mean square of the speech that the model made for a request, before it was made louder or softer, as a share of full scale. Speech is at 0.03 to 0.2; below 0.001 (-60 dB) nothing is heard. A request of which no replica was asked has none.
#[rustfmt::skip]
pub const OMNI_AUDIO_LEVEL_RATIO: HistogramFamily<2> = HistogramFamily::new(35, &["stage", "replica"]);

/// `vllm:omni_audio_silent_requests_total`: Requests that ended well and whose audio is inaudible, by cause: the model made no sound above -60 dB of full scale (model), its text had nothing to speak (nothing_speakable), or its caller asked for a volume at which nothing is left (volume). They are in no family of gaps.
#[rustfmt::skip]
pub const OMNI_AUDIO_SILENT_REQUESTS_TOTAL: CounterFamily<1> = CounterFamily::new(36, &["reason"]);

/// `vllm:omni_speech_stream_completed_total`: Speech streams that were sent to their end.
#[rustfmt::skip]
pub const OMNI_SPEECH_STREAM_COMPLETED_TOTAL: CounterFamily<0> = CounterFamily::new(37, &[]);

/// `vllm:omni_speech_stream_aborted_total`: Speech streams that ended early, by cause.
#[rustfmt::skip]
pub const OMNI_SPEECH_STREAM_ABORTED_TOTAL: CounterFamily<1> = CounterFamily::new(38, &["reason"]);

/// `vllm:omni_voices`: Voices that are kept, by what is kept of them: the speaker's vector (x_vector), the recording's codec frames with it (in_context), or words (description).
#[rustfmt::skip]
pub const OMNI_VOICES: GaugeFamily<1> = GaugeFamily::new(39, &["kind"]);

/// `vllm:omni_voices_bytes`: Size of the files of all voices that are kept, also where they are kept in memory alone.
#[rustfmt::skip]
pub const OMNI_VOICES_BYTES: GaugeFamily<0> = GaugeFamily::new(40, &[]);

/// `vllm:omni_voice_creations_total`: Voices that were asked for, by what they were to be made of and by what became of it. A recording is refused as silent, clipped, no_speech, too_short, too_long or unreadable; anything else that is wrong with a request is invalid. A caller that goes away before its voice is kept is cancelled; not_admitted is for want of a place, of quota or of a model.
#[rustfmt::skip]
pub const OMNI_VOICE_CREATIONS_TOTAL: CounterFamily<2> = CounterFamily::new(41, &["origin", "result"]);

/// `vllm:omni_voice_deletions_total`: Voices that were to be deleted, by what became of it: not_owned is a shared voice that a caller with an API key may not delete, not_stored a file that could not be removed. Nothing else ends a voice: none is evicted.
#[rustfmt::skip]
pub const OMNI_VOICE_DELETIONS_TOTAL: CounterFamily<1> = CounterFamily::new(42, &["result"]);

/// `vllm:omni_voice_requests_total`: Requests, and configurations of sessions, that asked for a voice that is kept, or brought a recording of their own (source request), and got it.
#[rustfmt::skip]
pub const OMNI_VOICE_REQUESTS_TOTAL: CounterFamily<2> = CounterFamily::new(43, &["source", "kind"]);

/// `vllm:omni_voice_encodings`: Recordings that are being encoded or wait for it. One is encoded at a time.
#[rustfmt::skip]
pub const OMNI_VOICE_ENCODINGS: GaugeFamily<0> = GaugeFamily::new(44, &[]);

/// `vllm:omni_voice_encode_s`: What a recording took to become a voice, from the beginning of its decoding, without the wait for others.
#[rustfmt::skip]
pub const OMNI_VOICE_ENCODE_S: HistogramFamily<1> = HistogramFamily::new(45, &["kind"]);

/// `vllm:omni_voice_cache_queries_total`: Recordings that were looked for in the cache of what was encoded last.
#[rustfmt::skip]
pub const OMNI_VOICE_CACHE_QUERIES_TOTAL: CounterFamily<0> = CounterFamily::new(46, &[]);

/// `vllm:omni_voice_cache_hits_total`: Recordings that were found there, and were not encoded again.
#[rustfmt::skip]
pub const OMNI_VOICE_CACHE_HITS_TOTAL: CounterFamily<0> = CounterFamily::new(47, &[]);

/// `vllm:omni_voice_cache_evictions_total`: Recordings that were dropped from that cache for others.
#[rustfmt::skip]
pub const OMNI_VOICE_CACHE_EVICTIONS_TOTAL: CounterFamily<0> = CounterFamily::new(48, &[]);

/// `vllm:omni_transfer_size_bytes`: Encoded size of one hop's payload.
#[rustfmt::skip]
pub const OMNI_TRANSFER_SIZE_BYTES: HistogramFamily<4> = HistogramFamily::new(49, &["from_stage", "from_replica", "to_stage", "to_replica"]);

/// `vllm:omni_transfer_tx_s`: The sender's part of a hop, encoding and hand-over to the edge.
#[rustfmt::skip]
pub const OMNI_TRANSFER_TX_S: HistogramFamily<4> = HistogramFamily::new(50, &["from_stage", "from_replica", "to_stage", "to_replica"]);

/// `vllm:omni_transfer_rx_s`: The receiver's part of a hop, taking and decoding.
#[rustfmt::skip]
pub const OMNI_TRANSFER_RX_S: HistogramFamily<4> = HistogramFamily::new(51, &["from_stage", "from_replica", "to_stage", "to_replica"]);

/// `vllm:omni_transfer_in_flight_s`: Time a hop was under way, from the end of sending to the start of receiving.
#[rustfmt::skip]
pub const OMNI_TRANSFER_IN_FLIGHT_S: HistogramFamily<4> = HistogramFamily::new(52, &["from_stage", "from_replica", "to_stage", "to_replica"]);

/// `vllm:num_requests_running`: Requests in the running batch.
#[rustfmt::skip]
pub const NUM_REQUESTS_RUNNING: GaugeFamily<1> = GaugeFamily::new(53, &["engine"]);

/// `vllm:num_requests_waiting`: Requests the engine has accepted and is not running, whatever the cause.
#[rustfmt::skip]
pub const NUM_REQUESTS_WAITING: GaugeFamily<1> = GaugeFamily::new(54, &["engine"]);

/// `vllm:num_requests_waiting_by_reason`: The waiting requests by cause. The causes add up to num_requests_waiting.
#[rustfmt::skip]
pub const NUM_REQUESTS_WAITING_BY_REASON: GaugeFamily<2> = GaugeFamily::new(55, &["engine", "reason"]);

/// `vllm:kv_cache_usage_perc`: Share of the KV blocks in use, from 0 to 1. Blocks that are only cached count as free.
#[rustfmt::skip]
pub const KV_CACHE_USAGE_PERC: GaugeFamily<1> = GaugeFamily::new(56, &["engine"]);

/// `vllm:prefix_cache_queries_total`: Tokens looked up in the prefix cache at admission.
#[rustfmt::skip]
pub const PREFIX_CACHE_QUERIES_TOTAL: CounterFamily<1> = CounterFamily::new(57, &["engine"]);

/// `vllm:prefix_cache_hits_total`: Tokens whose KV the prefix cache had.
#[rustfmt::skip]
pub const PREFIX_CACHE_HITS_TOTAL: CounterFamily<1> = CounterFamily::new(58, &["engine"]);

/// `vllm:external_prefix_cache_queries_total`: Tokens looked up in a prefix cache outside the engine. There is none, so it stays 0, as vLLM's does without a KV connector.
#[rustfmt::skip]
pub const EXTERNAL_PREFIX_CACHE_QUERIES_TOTAL: CounterFamily<1> = CounterFamily::new(59, &["engine"]);

/// `vllm:external_prefix_cache_hits_total`: Tokens that a prefix cache outside the engine had. There is none, so it stays 0.
#[rustfmt::skip]
pub const EXTERNAL_PREFIX_CACHE_HITS_TOTAL: CounterFamily<1> = CounterFamily::new(60, &["engine"]);

/// `vllm:mm_cache_queries_total`: Recordings that were looked for in the cache of encoded audio: one for every recording of a conversation that is answered. Counted at the first replica of the encoder, whose work a hit saves.
#[rustfmt::skip]
pub const MM_CACHE_QUERIES_TOTAL: CounterFamily<1> = CounterFamily::new(61, &["engine"]);

/// `vllm:mm_cache_hits_total`: Recordings whose encoding had been kept, and that no encoder had to hear again.
#[rustfmt::skip]
pub const MM_CACHE_HITS_TOTAL: CounterFamily<1> = CounterFamily::new(62, &["engine"]);

/// `vllm:num_preemptions_total`: How often a running request lost its KV blocks and had to go back to waiting.
#[rustfmt::skip]
pub const NUM_PREEMPTIONS_TOTAL: CounterFamily<1> = CounterFamily::new(63, &["engine"]);

/// `vllm:prompt_tokens_total`: Prompt tokens, cached ones included, of requests that reached their first output.
#[rustfmt::skip]
pub const PROMPT_TOKENS_TOTAL: CounterFamily<1> = CounterFamily::new(64, &["engine"]);

/// `vllm:prompt_tokens_by_source_total`: Prompt tokens by where their KV came from. The sources add up to prompt_tokens_total.
#[rustfmt::skip]
pub const PROMPT_TOKENS_BY_SOURCE_TOTAL: CounterFamily<2> = CounterFamily::new(65, &["engine", "source"]);

/// `vllm:prompt_tokens_cached_total`: Prompt tokens that needed no prefill.
#[rustfmt::skip]
pub const PROMPT_TOKENS_CACHED_TOTAL: CounterFamily<1> = CounterFamily::new(66, &["engine"]);

/// `vllm:prompt_tokens_cached_by_source_total`: Tokens found in a cache at admission, by the tier that held them.
#[rustfmt::skip]
pub const PROMPT_TOKENS_CACHED_BY_SOURCE_TOTAL: CounterFamily<2> = CounterFamily::new(67, &["engine", "source"]);

/// `vllm:generation_tokens_total`: Tokens (or codec frames) the engine made.
#[rustfmt::skip]
pub const GENERATION_TOKENS_TOTAL: CounterFamily<1> = CounterFamily::new(68, &["engine"]);

/// `vllm:iteration_tokens_total`: Tokens handled per engine output, computed prompt tokens and new tokens together. A histogram, whatever its name says.
#[rustfmt::skip]
pub const ITERATION_TOKENS_TOTAL: HistogramFamily<1> = HistogramFamily::new(69, &["engine"]);

/// `vllm:time_to_first_token_seconds`: Arrival at the edge to the first output of the stage.
#[rustfmt::skip]
pub const TIME_TO_FIRST_TOKEN_SECONDS: HistogramFamily<1> = HistogramFamily::new(70, &["engine"]);

/// `vllm:inter_token_latency_seconds`: Time between two consecutive outputs of a request. A preemption in between is part of it.
#[rustfmt::skip]
pub const INTER_TOKEN_LATENCY_SECONDS: HistogramFamily<1> = HistogramFamily::new(71, &["engine"]);

/// `vllm:request_time_per_output_token_seconds`: Mean decode time per token of a finished request. 0 for a request of one token.
#[rustfmt::skip]
pub const REQUEST_TIME_PER_OUTPUT_TOKEN_SECONDS: HistogramFamily<1> = HistogramFamily::new(72, &["engine"]);

/// `vllm:e2e_request_latency_seconds`: Arrival at the edge to the last output of the stage.
#[rustfmt::skip]
pub const E2E_REQUEST_LATENCY_SECONDS: HistogramFamily<1> = HistogramFamily::new(73, &["engine"]);

/// `vllm:request_queue_time_seconds`: Wait in the stage's queue until the request was first scheduled.
#[rustfmt::skip]
pub const REQUEST_QUEUE_TIME_SECONDS: HistogramFamily<1> = HistogramFamily::new(74, &["engine"]);

/// `vllm:request_inference_time_seconds`: First scheduling to the last token, preempted time included.
#[rustfmt::skip]
pub const REQUEST_INFERENCE_TIME_SECONDS: HistogramFamily<1> = HistogramFamily::new(75, &["engine"]);

/// `vllm:request_prefill_time_seconds`: First scheduling to the first token.
#[rustfmt::skip]
pub const REQUEST_PREFILL_TIME_SECONDS: HistogramFamily<1> = HistogramFamily::new(76, &["engine"]);

/// `vllm:request_decode_time_seconds`: First token to last token.
#[rustfmt::skip]
pub const REQUEST_DECODE_TIME_SECONDS: HistogramFamily<1> = HistogramFamily::new(77, &["engine"]);

/// `vllm:request_prompt_tokens`: Prompt length of finished requests.
#[rustfmt::skip]
pub const REQUEST_PROMPT_TOKENS: HistogramFamily<1> = HistogramFamily::new(78, &["engine"]);

/// `vllm:request_generation_tokens`: Output length of finished requests.
#[rustfmt::skip]
pub const REQUEST_GENERATION_TOKENS: HistogramFamily<1> = HistogramFamily::new(79, &["engine"]);

/// `vllm:request_max_num_generation_tokens`: Longest output among the sequences of a request. Here a request is one sequence.
#[rustfmt::skip]
pub const REQUEST_MAX_NUM_GENERATION_TOKENS: HistogramFamily<1> = HistogramFamily::new(80, &["engine"]);

/// `vllm:request_prefill_kv_computed_tokens`: Prompt tokens of finished requests whose KV had to be computed.
#[rustfmt::skip]
pub const REQUEST_PREFILL_KV_COMPUTED_TOKENS: HistogramFamily<1> = HistogramFamily::new(81, &["engine"]);

/// `vllm:request_num_preemptions`: How often finished requests had been preempted. Never counts as 0.
#[rustfmt::skip]
pub const REQUEST_NUM_PREEMPTIONS: HistogramFamily<1> = HistogramFamily::new(82, &["engine"]);

/// `vllm:request_params_n`: Sequences asked for per request.
#[rustfmt::skip]
pub const REQUEST_PARAMS_N: HistogramFamily<1> = HistogramFamily::new(83, &["engine"]);

/// `vllm:request_params_max_tokens`: Limit on new tokens of finished requests, where one was set.
#[rustfmt::skip]
pub const REQUEST_PARAMS_MAX_TOKENS: HistogramFamily<1> = HistogramFamily::new(84, &["engine"]);

/// `vllm:request_success_total`: Requests the engine is done with, by reason. Aborts and errors are in it too, also those of callers that went away.
#[rustfmt::skip]
pub const REQUEST_SUCCESS_TOTAL: CounterFamily<2> = CounterFamily::new(85, &["engine", "finished_reason"]);

/// `vllm:engine_sleep_state`: Which sleep state an engine is in. Engines here do not sleep, so awake is 1.
#[rustfmt::skip]
pub const ENGINE_SLEEP_STATE: GaugeFamily<2> = GaugeFamily::new(86, &["engine", "sleep_state"]);

/// `vllm:cache_config_info`: Always 1. The KV cache an engine was given, with vLLM's names and Python's words. What there is no setting for here has the value that says so, such as 0 of cpu_offload_gb and None of gpu_memory_utilization (blocks are asked for by number).
#[rustfmt::skip]
pub const CACHE_CONFIG_INFO: GaugeFamily<15> = GaugeFamily::new(87, &["block_size", "cache_dtype", "calculate_kv_scales", "cpu_offload_gb", "enable_prefix_caching", "gpu_memory_utilization", "is_attention_free", "kv_cache_max_concurrency", "kv_cache_memory_bytes", "kv_cache_size_tokens", "num_cpu_blocks", "num_gpu_blocks", "sliding_window", "swap_space", "engine"]);

/// `grpc_server_started_total`: Calls the server began to handle.
#[rustfmt::skip]
pub const GRPC_SERVER_STARTED_TOTAL: CounterFamily<3> = CounterFamily::new(88, &["grpc_type", "grpc_service", "grpc_method"]);

/// `grpc_server_handled_total`: Calls that ended, by status code.
#[rustfmt::skip]
pub const GRPC_SERVER_HANDLED_TOTAL: CounterFamily<4> = CounterFamily::new(89, &["grpc_type", "grpc_service", "grpc_method", "grpc_code"]);

/// `grpc_server_msg_received_total`: Messages received from callers.
#[rustfmt::skip]
pub const GRPC_SERVER_MSG_RECEIVED_TOTAL: CounterFamily<3> = CounterFamily::new(90, &["grpc_type", "grpc_service", "grpc_method"]);

/// `grpc_server_msg_sent_total`: Messages sent to callers.
#[rustfmt::skip]
pub const GRPC_SERVER_MSG_SENT_TOTAL: CounterFamily<3> = CounterFamily::new(91, &["grpc_type", "grpc_service", "grpc_method"]);

/// `grpc_server_handling_seconds`: How long calls took, to the end of their stream.
#[rustfmt::skip]
pub const GRPC_SERVER_HANDLING_SECONDS: HistogramFamily<3> = HistogramFamily::new(92, &["grpc_type", "grpc_service", "grpc_method"]);

/// `http_requests_total`: Total number of requests by method, status and handler.
#[rustfmt::skip]
pub const HTTP_REQUESTS_TOTAL: CounterFamily<3> = CounterFamily::new(93, &["handler", "method", "status"]);

/// `http_request_size_bytes`: Content length of incoming requests by handler. 0 where the request does not say it.
#[rustfmt::skip]
pub const HTTP_REQUEST_SIZE_BYTES: SummaryFamily<1> = SummaryFamily::new(94, &["handler"]);

/// `http_response_size_bytes`: Content length of outgoing responses by handler. 0 for what is streamed.
#[rustfmt::skip]
pub const HTTP_RESPONSE_SIZE_BYTES: SummaryFamily<1> = SummaryFamily::new(95, &["handler"]);

/// `http_request_duration_highr_seconds`: Latency with many buckets but no API specific labels, of calls that ask for work (POST under /v1): probes, listings, files of Studio and upgrades to a WebSocket are not in it.
#[rustfmt::skip]
pub const HTTP_REQUEST_DURATION_HIGHR_SECONDS: HistogramFamily<0> = HistogramFamily::new(96, &[]);

/// `http_request_duration_seconds`: Latency with only few buckets by handler.
#[rustfmt::skip]
pub const HTTP_REQUEST_DURATION_SECONDS: HistogramFamily<2> = HistogramFamily::new(97, &["handler", "method"]);

/// `vllm:omni_protocol_requests_total`: Requests for speech by Wyoming and by WebSocket that ended, responses of /v1/realtime among them, by how: spoken to the end (ok), refused or failed (error), or left or cancelled by their caller (cancelled).
#[rustfmt::skip]
pub const OMNI_PROTOCOL_REQUESTS_TOTAL: CounterFamily<2> = CounterFamily::new(98, &["protocol", "result"]);

/// `process_cpu_seconds_total`: Processor time used, in user and kernel mode.
#[rustfmt::skip]
pub const PROCESS_CPU_SECONDS_TOTAL: FloatCounterFamily<0> = FloatCounterFamily::new(99, &[]);

/// `process_resident_memory_bytes`: Memory that is resident.
#[rustfmt::skip]
pub const PROCESS_RESIDENT_MEMORY_BYTES: GaugeFamily<0> = GaugeFamily::new(100, &[]);

/// `process_virtual_memory_bytes`: Address space in use.
#[rustfmt::skip]
pub const PROCESS_VIRTUAL_MEMORY_BYTES: GaugeFamily<0> = GaugeFamily::new(101, &[]);

/// `process_start_time_seconds`: Start of the process, since 1970.
#[rustfmt::skip]
pub const PROCESS_START_TIME_SECONDS: GaugeFamily<0> = GaugeFamily::new(102, &[]);

/// `process_open_fds`: File descriptors that are open.
#[rustfmt::skip]
pub const PROCESS_OPEN_FDS: GaugeFamily<0> = GaugeFamily::new(103, &[]);

/// `process_max_fds`: File descriptors that may be open.
#[rustfmt::skip]
pub const PROCESS_MAX_FDS: GaugeFamily<0> = GaugeFamily::new(104, &[]);

/// `vllm:omni_stage_process_cpu_seconds_total`: Processor time used by the processes of a replica, those that have ended included.
#[rustfmt::skip]
pub const OMNI_STAGE_PROCESS_CPU_SECONDS_TOTAL: FloatCounterFamily<2> = FloatCounterFamily::new(105, &["stage", "replica"]);

/// `vllm:omni_stage_process_resident_memory_bytes`: Memory of the replica's process that is resident. 0 while there is none.
#[rustfmt::skip]
pub const OMNI_STAGE_PROCESS_RESIDENT_MEMORY_BYTES: GaugeFamily<2> = GaugeFamily::new(106, &["stage", "replica"]);

/// `vllm:omni_stage_process_start_time_seconds`: Start of the replica's process, since 1970.
#[rustfmt::skip]
pub const OMNI_STAGE_PROCESS_START_TIME_SECONDS: GaugeFamily<2> = GaugeFamily::new(107, &["stage", "replica"]);

/// `vllm:omni_host_cpu_ratio`: Share of the machine's processor time that was busy since the reading before.
#[rustfmt::skip]
pub const OMNI_HOST_CPU_RATIO: GaugeFamily<0> = GaugeFamily::new(108, &[]);

/// `vllm:omni_host_memory_total_bytes`: Memory of the machine.
#[rustfmt::skip]
pub const OMNI_HOST_MEMORY_TOTAL_BYTES: GaugeFamily<0> = GaugeFamily::new(109, &[]);

/// `vllm:omni_host_memory_available_bytes`: Memory that can be had without swapping.
#[rustfmt::skip]
pub const OMNI_HOST_MEMORY_AVAILABLE_BYTES: GaugeFamily<0> = GaugeFamily::new(110, &[]);

/// `vllm:omni_host_disk_total_bytes`: Size of the root file system.
#[rustfmt::skip]
pub const OMNI_HOST_DISK_TOTAL_BYTES: GaugeFamily<0> = GaugeFamily::new(111, &[]);

/// `vllm:omni_host_disk_used_bytes`: Room taken in the root file system, as df counts it. What is kept for the superuser is neither taken nor available.
#[rustfmt::skip]
pub const OMNI_HOST_DISK_USED_BYTES: GaugeFamily<0> = GaugeFamily::new(112, &[]);

/// `vllm:omni_host_disk_available_bytes`: Room left in the root file system, as df counts it.
#[rustfmt::skip]
pub const OMNI_HOST_DISK_AVAILABLE_BYTES: GaugeFamily<0> = GaugeFamily::new(113, &[]);

/// `vllm:omni_gpu_utilization_ratio`: Share of the last sampling period in which a kernel ran.
#[rustfmt::skip]
pub const OMNI_GPU_UTILIZATION_RATIO: GaugeFamily<1> = GaugeFamily::new(114, &["device"]);

/// `vllm:omni_gpu_memory_controller_ratio`: Share of the last sampling period in which device memory was read or written.
#[rustfmt::skip]
pub const OMNI_GPU_MEMORY_CONTROLLER_RATIO: GaugeFamily<1> = GaugeFamily::new(115, &["device"]);

/// `vllm:omni_gpu_memory_used_bytes`: Device memory in use, by all processes.
#[rustfmt::skip]
pub const OMNI_GPU_MEMORY_USED_BYTES: GaugeFamily<1> = GaugeFamily::new(116, &["device"]);

/// `vllm:omni_gpu_memory_total_bytes`: Device memory.
#[rustfmt::skip]
pub const OMNI_GPU_MEMORY_TOTAL_BYTES: GaugeFamily<1> = GaugeFamily::new(117, &["device"]);

/// `vllm:omni_gpu_power_watts`: Power drawn.
#[rustfmt::skip]
pub const OMNI_GPU_POWER_WATTS: GaugeFamily<1> = GaugeFamily::new(118, &["device"]);

/// `vllm:omni_gpu_temperature_celsius`: Temperature of the device.
#[rustfmt::skip]
pub const OMNI_GPU_TEMPERATURE_CELSIUS: GaugeFamily<1> = GaugeFamily::new(119, &["device"]);

/// `vllm:omni_gpu_kernel_launches_total`: Kernels launched, one by one (single) or in graphs, for which the host works once per graph (graph).
#[rustfmt::skip]
pub const OMNI_GPU_KERNEL_LAUNCHES_TOTAL: CounterFamily<2> = CounterFamily::new(120, &["device", "via"]);

/// `vllm:omni_gpu_graphs_recorded_total`: Graphs recorded. Many after the start mean that steps of new sizes keep coming.
#[rustfmt::skip]
pub const OMNI_GPU_GRAPHS_RECORDED_TOTAL: CounterFamily<1> = CounterFamily::new(121, &["device"]);

/// `vllm:omni_gpu_graph_replays_total`: Graphs launched again after they were recorded.
#[rustfmt::skip]
pub const OMNI_GPU_GRAPH_REPLAYS_TOTAL: CounterFamily<1> = CounterFamily::new(122, &["device"]);

/// `vllm:omni_gpu_graph_fallbacks_total`: Steps that were to be a graph and could not be. Their kernels are launched one by one, with the same result, but it takes longer; the log says why.
#[rustfmt::skip]
pub const OMNI_GPU_GRAPH_FALLBACKS_TOTAL: CounterFamily<1> = CounterFamily::new(123, &["device"]);

/// `vllm:omni_metrics_dropped_total`: Series or updates that were refused, by cause.
#[rustfmt::skip]
pub const OMNI_METRICS_DROPPED_TOTAL: CounterFamily<1> = CounterFamily::new(124, &["reason"]);

/// `vllm:omni_metrics_scrapes_total`: Times the metrics were read over HTTP.
#[rustfmt::skip]
pub const OMNI_METRICS_SCRAPES_TOTAL: CounterFamily<0> = CounterFamily::new(125, &[]);

/// `vllm:omni_metrics_push_total`: Pushes to the gateway, by result. Stays at zero without a gateway.
#[rustfmt::skip]
pub const OMNI_METRICS_PUSH_TOTAL: CounterFamily<1> = CounterFamily::new(126, &["result"]);

/// `vllm:omni_metrics_last_push_success_timestamp_s`: When a push last succeeded, since 1970. 0 until one has.
#[rustfmt::skip]
pub const OMNI_METRICS_LAST_PUSH_SUCCESS_TIMESTAMP_S: GaugeFamily<0> = GaugeFamily::new(127, &[]);

/// `vllm:omni_metrics_push_interval_s`: Time between two pushes as it is set. 0 without a gateway.
#[rustfmt::skip]
pub const OMNI_METRICS_PUSH_INTERVAL_S: GaugeFamily<0> = GaugeFamily::new(128, &[]);

/// `vllm:omni_trace_spans_total`: Spans of traced requests, by what became of them (failed was not taken by the collector, dropped found the queue full). Stays at zero without an endpoint for traces.
#[rustfmt::skip]
pub const OMNI_TRACE_SPANS_TOTAL: CounterFamily<1> = CounterFamily::new(129, &["result"]);

/// `Requests2XX`: Calls for work, by gRPC or HTTP, that succeeded. Probes, listings, upgrades to a WebSocket and administration are not in it.
#[rustfmt::skip]
pub const TS_REQUESTS_2XX: CounterFamily<1> = CounterFamily::new(130, &["Level"]);

/// `Requests4XX`: Calls for work, by gRPC or HTTP, whose answer blamed the caller.
#[rustfmt::skip]
pub const TS_REQUESTS_4XX: CounterFamily<1> = CounterFamily::new(131, &["Level"]);

/// `Requests5XX`: Calls for work, by gRPC or HTTP, whose answer blamed the server.
#[rustfmt::skip]
pub const TS_REQUESTS_5XX: CounterFamily<1> = CounterFamily::new(132, &["Level"]);

/// `ts_inference_requests_total`: Inference requests that arrived.
#[rustfmt::skip]
pub const TS_INFERENCE_REQUESTS_TOTAL: CounterFamily<1> = CounterFamily::new(133, &["model_version"]);

/// `ts_inference_latency_microseconds`: Arrival to answer, summed, without waits for the caller's text.
#[rustfmt::skip]
pub const TS_INFERENCE_LATENCY_MICROSECONDS: FloatCounterFamily<1> = FloatCounterFamily::new(134, &["model_version"]);

/// `ts_queue_latency_microseconds`: Time in queues, summed.
#[rustfmt::skip]
pub const TS_QUEUE_LATENCY_MICROSECONDS: FloatCounterFamily<1> = FloatCounterFamily::new(135, &["model_version"]);

/// `QueueTime`: Time the last request spent in a queue.
#[rustfmt::skip]
pub const TS_QUEUE_TIME: GaugeFamily<1> = GaugeFamily::new(136, &["Level"]);

/// `WorkerThreadTime`: Time of the last request after the model's last output, spent on rendering, encoding and sending.
#[rustfmt::skip]
pub const TS_WORKER_THREAD_TIME: GaugeFamily<1> = GaugeFamily::new(137, &["Level"]);

/// `WorkerLoadTime`: Time a worker took to load its model.
#[rustfmt::skip]
pub const TS_WORKER_LOAD_TIME: GaugeFamily<2> = GaugeFamily::new(138, &["WorkerName", "Level"]);

/// `HandlerTime`: Time that steps of the busiest stage took for the last request. Steps of different stages overlap.
#[rustfmt::skip]
pub const TS_HANDLER_TIME: GaugeFamily<2> = GaugeFamily::new(139, &["ModelName", "Level"]);

/// `PredictionTime`: Time from the model's first step to its last output, of the last request.
#[rustfmt::skip]
pub const TS_PREDICTION_TIME: GaugeFamily<2> = GaugeFamily::new(140, &["ModelName", "Level"]);

/// `CPUUtilization`: Share of the machine's processor time that is busy.
#[rustfmt::skip]
pub const TS_CPUUTILIZATION: GaugeFamily<1> = GaugeFamily::new(141, &["Level"]);

/// `MemoryUsed`: Memory in use.
#[rustfmt::skip]
pub const TS_MEMORY_USED: GaugeFamily<1> = GaugeFamily::new(142, &["Level"]);

/// `MemoryAvailable`: Memory that can be had.
#[rustfmt::skip]
pub const TS_MEMORY_AVAILABLE: GaugeFamily<1> = GaugeFamily::new(143, &["Level"]);

/// `MemoryUtilization`: Share of the memory in use.
#[rustfmt::skip]
pub const TS_MEMORY_UTILIZATION: GaugeFamily<1> = GaugeFamily::new(144, &["Level"]);

/// `DiskUsage`: Room in use on the root file system.
#[rustfmt::skip]
pub const TS_DISK_USAGE: GaugeFamily<1> = GaugeFamily::new(145, &["Level"]);

/// `DiskAvailable`: Room left on the root file system.
#[rustfmt::skip]
pub const TS_DISK_AVAILABLE: GaugeFamily<1> = GaugeFamily::new(146, &["Level"]);

/// `DiskUtilization`: Share of the root file system in use, as df counts it.
#[rustfmt::skip]
pub const TS_DISK_UTILIZATION: GaugeFamily<1> = GaugeFamily::new(147, &["Level"]);

/// `GPUUtilization`: Share of time in which a kernel ran.
#[rustfmt::skip]
pub const TS_GPUUTILIZATION: GaugeFamily<2> = GaugeFamily::new(148, &["Level", "DeviceId"]);

/// `GPUMemoryUsed`: Device memory in use.
#[rustfmt::skip]
pub const TS_GPUMEMORY_USED: GaugeFamily<2> = GaugeFamily::new(149, &["Level", "DeviceId"]);

/// `GPUMemoryUtilization`: Share of the device memory in use.
#[rustfmt::skip]
pub const TS_GPUMEMORY_UTILIZATION: GaugeFamily<2> = GaugeFamily::new(150, &["Level", "DeviceId"]);
