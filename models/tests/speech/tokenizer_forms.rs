//! `tokenizer.json` and the three older files give the same tokenizer.

use omni_models::{Checkpoint, CheckpointSource, Tokenizer};
use proptest::prelude::*;

use crate::golden::tiny;

fn forms() -> (Tokenizer, Tokenizer) {
    let whole = Checkpoint::open(CheckpointSource::Dir(tiny())).expect("opens");
    let parts = tempfile::tempdir().expect("a directory");
    for file in [
        "vocab.json",
        "merges.txt",
        "tokenizer_config.json",
        "model.safetensors",
    ] {
        std::fs::copy(tiny().join(file), parts.path().join(file)).expect("copied");
    }
    let older = Checkpoint::open(CheckpointSource::Dir(parts.path().into())).expect("opens");
    (
        Tokenizer::load(&whole).expect("whole form"),
        Tokenizer::load(&older).expect("older form"),
    )
}

#[test]
fn both_forms_give_the_same_ids() {
    let (whole, older) = forms();
    for text in [
        "",
        "The quick brown fox jumps over the lazy dog.",
        "  two  spaces\n\nand lines \t tab\r\n",
        "I'll, we've, 'S, numbers 1234567 and 3.14 %$#@!",
        "Grüße, naïve café, e\u{301} combined, Straße",
        "日本語のテキスト、中文 और हिन्दी",
        "emoji 👩‍👩‍👧‍👦 and \u{0} control",
        "<|im_start|>system\nassistant the user<|im_end|>\n<tts_pad><|audio_pad|>x",
        "<|im_start|",
    ] {
        let ids = whole.encode(text).expect("whole form");
        assert_eq!(ids, older.encode(text).expect("older form"), "{text:?}");
    }
}

#[test]
fn special_tokens_and_merges_have_their_ids() {
    let (_, older) = forms();
    assert_eq!(older.encode("<|im_start|>user\n").expect("text"), [276, 263, 10]);
    assert_eq!(older.encode("<|audio_pad|>").expect("text"), [289]);
    assert_eq!(older.token_id("<tts_text_bos>"), Some(286));
    assert_eq!(older.token_id("<nothing>"), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_gives_the_same_ids(text in "\\PC{0,40}") {
        let (whole, older) = forms();
        prop_assert_eq!(whole.encode(&text).expect("whole form"), older.encode(&text).expect("older form"));
    }
}
