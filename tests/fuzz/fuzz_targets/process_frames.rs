#![no_main]

omni_fuzz::target!("process_frames");
