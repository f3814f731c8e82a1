//! ZeroClaw's config: whatever is in it, only names of profiles, agents and variables come out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::agent::zeroclaw::parse_policy;

fuzz_target!(|bytes: &[u8]| {
    if let Err(why) = parse_policy(bytes) {
        assert!(why.len() < 40, "{why}");
    }
});
