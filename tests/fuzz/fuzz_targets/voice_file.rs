#![no_main]

omni_fuzz::target!("voice_file");
