#![no_main]

omni_fuzz::target!("audio_wav");
