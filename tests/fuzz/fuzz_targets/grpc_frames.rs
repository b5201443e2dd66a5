#![no_main]

omni_fuzz::target!("grpc_frames");
