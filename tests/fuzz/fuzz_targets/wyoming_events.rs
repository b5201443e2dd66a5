#![no_main]

omni_fuzz::target!("wyoming_events");
