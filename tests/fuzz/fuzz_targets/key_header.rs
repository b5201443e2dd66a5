#![no_main]

omni_fuzz::target!("key_header");
