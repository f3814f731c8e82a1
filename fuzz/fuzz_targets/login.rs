//! The session files of logind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::origin::login;

fuzz_target!(|bytes: &[u8]| {
    let host = whoseenv_fuzz::machine(&[("/run/systemd/sessions/7", bytes)]);
    let _ = login::session(&host, "7");
});
