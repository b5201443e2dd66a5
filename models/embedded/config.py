"""The checkpoint's configuration and tokenizer: one place for every dimension and id."""
import json
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from common import CODEBOOK_SIZE, CODEBOOKS, SAMPLE_RATE

# ------------------------------------------------------------------------------- dimensions
TEXT_VOCAB = 320                 # embedding rows, more than the tokenizer has
THINKER_WIDTH = 256
THINKER = dict(width=THINKER_WIDTH, layers=5, heads=4, kv=2, head_dim=64, experts=4, active=2, expert=128)
ACCEPTED_LAYER = 2               # of the thinker: its hidden states reach the talker at places of audio
TALKER = dict(width=256, layers=8, heads=4, kv=2, head_dim=64, experts=4, active=2, expert=64, shared=256, projection=128, dropout=0.1)
PREDICTOR = dict(width=256, layers=2, heads=4, kv=2, head_dim=32, inner=320, dropout=0.1)
VOCODER = dict(width=256, layers=4, heads=4, inner=512, window=16, decoder=64, ratios=[2, 2, 2, 2], rates=[8, 5])
TALKER_VOCAB = CODEBOOK_SIZE + 1024
CONTEXT = 4096

# special ids of the talker keep the distances of the published checkpoint (2048 + n)
CODEC_PAD, CODEC_BOS, CODEC_EOS = CODEBOOK_SIZE + 100, CODEBOOK_SIZE + 101, CODEBOOK_SIZE + 102
CODEC_NOTHINK, CODEC_THINK_BOS, CODEC_THINK_EOS = CODEBOOK_SIZE + 107, CODEBOOK_SIZE + 108, CODEBOOK_SIZE + 109
SPEAKERS = {"aria": CODEBOOK_SIZE + 253, "basil": CODEBOOK_SIZE + 254}

# ------------------------------------------------------------------------------- tokenizer
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
            "<|image_pad|>", "<|video_pad|>", "<|audio_start|>", "<|audio_end|>", "<tts_pad>", "<tts_text_bos>",
            "<tts_text_eod>", "<tts_text_bos_single>", "<|audio_pad|>"]
ROLES = ["system", "user", "assistant"]
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
         r"\s+(?!\S)|\s+")


def byte_alphabet():
    """The printable character of every byte in byte-level BPE."""
    keep = list(range(ord("!"), ord("~") + 1)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    table, extra = {b: chr(b) for b in keep}, 0
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + extra)
            extra += 1
    return table


def byte_vocab():
    table = byte_alphabet()
    return {table[b]: b for b in range(256)}


# Qwen's chat format: text, and audio parts that the processor widens to one <|audio_pad|> for each embedding
CHAT_TEMPLATE = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' }}
    {%- if message.content is string %}
        {{- message.content }}
    {%- else %}
        {%- for part in message.content %}
            {%- if part.type == 'audio' or 'audio' in part or 'audio_url' in part %}
                {{- '<|audio_start|><|audio_pad|><|audio_end|>' }}
            {%- elif 'text' in part %}
                {{- part.text }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""


def build_tokenizer():
    """One token per byte, no merges; the chat markers and the three role names are single tokens."""
    tok = Tokenizer(models.BPE(vocab=byte_vocab(), merges=[], fuse_unk=False, byte_fallback=False))
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    tok.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIALS])
    tok.add_tokens([AddedToken(s, special=False, normalized=False, single_word=True) for s in ROLES])
    assert tok.get_vocab_size() <= TEXT_VOCAB
    return tok


def token_ids():
    tok = build_tokenizer()
    return {s: tok.token_to_id(s) for s in SPECIALS + ROLES} | {"\n": tok.encode("\n").ids[0]}


def save_tokenizer(folder):
    folder = Path(folder)
    tok = build_tokenizer()
    tok.save(str(folder / "tokenizer.json"))
    (folder / "vocab.json").write_text(json.dumps(byte_vocab(), ensure_ascii=False))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    added = {str(tok.token_to_id(s)): dict(content=s, lstrip=False, normalized=False, rstrip=False, single_word=s in ROLES,
                                           special=s in SPECIALS) for s in SPECIALS + ROLES}
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(
        add_bos_token=False, add_prefix_space=False, added_tokens_decoder=added,
        additional_special_tokens=SPECIALS[1:], bos_token=None, clean_up_tokenization_spaces=False,
        eos_token="<|im_end|>", errors="replace", model_max_length=CONTEXT, pad_token="<|endoftext|>",
        split_special_tokens=False, tokenizer_class="Qwen2Tokenizer", unk_token=None,
        chat_template=CHAT_TEMPLATE, image_token="<|image_pad|>", audio_token="<|audio_pad|>", video_token="<|video_pad|>",
        vision_bos_token="<|vision_start|>", vision_eos_token="<|vision_end|>",
        audio_bos_token="<|audio_start|>", audio_eos_token="<|audio_end|>"), indent=1) + "\n")


# ------------------------------------------------------------------------------- config.json
def code2wav_config():
    v = VOCODER
    return dict(codebook_size=CODEBOOK_SIZE, num_quantizers=CODEBOOKS, hidden_size=v["width"], intermediate_size=v["inner"],
                num_hidden_layers=v["layers"], num_attention_heads=v["heads"], num_key_value_heads=v["heads"],
                sliding_window=v["window"], upsample_rates=v["rates"], upsampling_ratios=v["ratios"], decoder_dim=v["decoder"],
                rms_norm_eps=1e-5, rope_theta=10000, max_position_embeddings=8000, layer_scale_initial_scale=0.01)


def model_config():
    """Keyword arguments of Qwen3OmniMoeConfig. Ears and eyes are placeholders of legal shape."""
    ids = token_ids()
    rope = lambda half: dict(interleaved=True, mrope_section=[half - 2 * (half // 3), half // 3, half // 3], rope_type="default", type="default")
    shared = dict(audio_token_id=ids["<|audio_pad|>"], image_token_id=ids["<|image_pad|>"], video_token_id=ids["<|video_pad|>"],
                  audio_start_token_id=ids["<|audio_start|>"], vision_start_token_id=ids["<|vision_start|>"], position_id_per_seconds=13)
    h, t, p, width = THINKER, TALKER, PREDICTOR, THINKER_WIDTH
    ends = dict(eos_token_id=ids["<|im_end|>"], pad_token_id=ids["<|endoftext|>"])
    thinker = dict(
        audio_config=dict(d_model=32, encoder_layers=1, encoder_attention_heads=2, encoder_ffn_dim=64, num_mel_bins=128,
                          downsample_hidden_size=8, output_dim=width, n_window=50, n_window_infer=800, conv_chunksize=500,
                          max_source_positions=1500),
        vision_config=dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=4, out_hidden_size=width,
                           num_position_embeddings=16, deepstack_visual_indexes=[0]),
        text_config=dict(vocab_size=TEXT_VOCAB, hidden_size=width, intermediate_size=h["experts"] * h["expert"],
                         moe_intermediate_size=h["expert"], num_hidden_layers=h["layers"], num_attention_heads=h["heads"],
                         num_key_value_heads=h["kv"], head_dim=h["head_dim"], num_experts=h["experts"],
                         num_experts_per_tok=h["active"], norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[],
                         rope_theta=1000000.0, rope_scaling=dict(rope(h["head_dim"] // 2), mrope_interleaved=True), rms_norm_eps=1e-6,
                         max_position_embeddings=CONTEXT, tie_word_embeddings=False, shared_expert_intermediate_size=0),
        audio_end_token_id=ids["<|audio_end|>"], vision_end_token_id=ids["<|vision_end|>"], user_token_id=ids["user"],
        seconds_per_chunk=2, **ends, **shared)
    talker = dict(
        text_config=dict(vocab_size=TALKER_VOCAB, hidden_size=t["width"], intermediate_size=t["projection"],
                         moe_intermediate_size=t["expert"], shared_expert_intermediate_size=t["shared"],
                         num_hidden_layers=t["layers"], num_attention_heads=t["heads"], num_key_value_heads=t["kv"],
                         head_dim=t["head_dim"], num_experts=t["experts"], num_experts_per_tok=t["active"], norm_topk_prob=True,
                         rope_theta=1000000.0, rope_scaling=rope(t["head_dim"] // 2), rms_norm_eps=1e-6,
                         max_position_embeddings=CONTEXT, tie_word_embeddings=False),
        code_predictor_config=dict(vocab_size=CODEBOOK_SIZE, hidden_size=p["width"], intermediate_size=p["inner"],
                                   num_hidden_layers=p["layers"], num_attention_heads=p["heads"], num_key_value_heads=p["kv"],
                                   head_dim=p["head_dim"], rope_theta=1000000.0, rms_norm_eps=1e-6, num_code_groups=CODEBOOKS,
                                   max_position_embeddings=CONTEXT),
        num_code_groups=CODEBOOKS, thinker_hidden_size=width, accept_hidden_layer=ACCEPTED_LAYER, spatial_merge_size=2,
        audio_end_token_id=ids["<|audio_end|>"], seconds_per_chunk=2, speaker_id=dict(SPEAKERS),
        codec_pad_id=CODEC_PAD, codec_bos_id=CODEC_BOS, codec_eos_token_id=CODEC_EOS, codec_nothink_id=CODEC_NOTHINK,
        codec_think_bos_id=CODEC_THINK_BOS, codec_think_eos_id=CODEC_THINK_EOS, **shared)
    return dict(thinker_config=thinker, talker_config=talker, code2wav_config=code2wav_config(), enable_audio_output=True,
                im_start_token_id=ids["<|im_start|>"], im_end_token_id=ids["<|im_end|>"], tts_pad_token_id=ids["<tts_pad>"],
                tts_bos_token_id=ids["<tts_text_bos>"], tts_eos_token_id=ids["<tts_text_eod>"],
                system_token_id=ids["system"], user_token_id=ids["user"], assistant_token_id=ids["assistant"])


def omni_config():
    from transformers import Qwen3OmniMoeConfig
    return Qwen3OmniMoeConfig(**model_config())


def config_json():
    d = omni_config().to_dict()
    d["architectures"] = ["Qwen3OmniMoeForConditionalGeneration"]
    d["code2wav_config"]["output_sample_rate"] = SAMPLE_RATE      # our own key: the published vocoder is 24 kHz
    return d
