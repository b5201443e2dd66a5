#![no_main]

omni_fuzz::target!("tls_caller");
