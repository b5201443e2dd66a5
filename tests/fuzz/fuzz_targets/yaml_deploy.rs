#![no_main]

omni_fuzz::target!("yaml_deploy");
