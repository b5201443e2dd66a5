#![no_main]

omni_fuzz::target!("client_speech");
