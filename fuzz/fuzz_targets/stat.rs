//! `/proc/<pid>/stat` and the link to the program.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::host::{Exe, Stat};

fuzz_target!(|bytes: &[u8]| {
    if let Some(stat) = Stat::parse(bytes, 0) {
        let _ = (stat.tty(), stat.is_zombie(), stat.key());
        assert!(bytes.windows(stat.comm.as_bytes().len() + 2).any(|part| part.starts_with(b"(") && part.ends_with(b")")));
    }
    let exe = Exe::parse(bytes);
    assert_eq!(exe.shown(), bytes);
    let _ = exe.base();
});
