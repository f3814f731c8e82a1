//! OpenCode's registration and config files: whatever is in them, no password comes out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::agent::opencode::service_file::{parse_config, parse_registered};

fuzz_target!(|bytes: &[u8]| {
    let _ = parse_config(bytes);
    if let Ok(registered) = parse_registered(bytes) {
        assert!(registered.pid > 0);
    }
});
