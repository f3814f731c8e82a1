//! The kernel's socket tables, and the table of host names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::host::hosts::addresses;
use whoseenv::host::sockets::{parse_tcp, parse_unix};

fuzz_target!(|bytes: &[u8]| {
    let lines = bytes.split(|&byte| byte == b'\n').count();
    if let Ok(rows) = parse_tcp(bytes) {
        assert!(rows.len() <= lines);
    }
    for name in ["localhost", "", "a"] {
        assert!(addresses(bytes, name).len() <= lines);
    }
    if let Ok(rows) = parse_unix(bytes) {
        assert!(rows.len() <= lines);
    }
});
