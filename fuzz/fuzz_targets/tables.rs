//! The kernel's socket tables.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::host::sockets::{parse_tcp, parse_unix};

fuzz_target!(|bytes: &[u8]| {
    let lines = bytes.split(|&byte| byte == b'\n').count();
    if let Ok(rows) = parse_tcp(bytes) {
        assert!(rows.len() <= lines);
    }
    if let Ok(rows) = parse_unix(bytes) {
        assert!(rows.len() <= lines);
    }
});
