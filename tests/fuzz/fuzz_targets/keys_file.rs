#![no_main]

omni_fuzz::target!("keys_file");
