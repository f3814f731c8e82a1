//! OpenCode's config files, as far as they name plugins.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::agent::plugins;

fuzz_target!(|bytes: &[u8]| {
    let _ = plugins::parse(bytes);
});
