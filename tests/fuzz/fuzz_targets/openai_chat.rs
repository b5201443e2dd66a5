#![no_main]

omni_fuzz::target!("openai_chat");
