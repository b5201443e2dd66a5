#![no_main]

omni_fuzz::target!("text_front_end");
