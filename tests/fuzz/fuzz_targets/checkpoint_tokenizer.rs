#![no_main]

omni_fuzz::target!("checkpoint_tokenizer");
