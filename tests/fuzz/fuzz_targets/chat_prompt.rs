#![no_main]

omni_fuzz::target!("chat_prompt");
