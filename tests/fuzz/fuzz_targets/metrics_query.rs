#![no_main]

omni_fuzz::target!("metrics_query");
