//! `/proc/<pid>/cgroup`: login session, unit, container.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::host::Stat;
use whoseenv::origin::birth;

fuzz_target!(|bytes: &[u8]| {
    let stat = Stat::parse(b"1 (x) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1", 0).expect("a good line");
    let _ = birth::from_raw(b"", bytes, &stat);
});
