//! Masking, and cleaning what goes to a terminal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::env;
use whoseenv::host::{Raw, Value};
use whoseenv::redact::terminal::{clean, hides};
use whoseenv::redact::{FingerprintKey, ShowPolicy};

fuzz_target!(|bytes: &[u8]| {
    assert!(!clean(bytes).chars().any(|char| char.is_control() || hides(char)));

    let redactor = env::redactor(FingerprintKey::from_text(b"fuzz"), ShowPolicy::default());
    let (name, value) = bytes.split_at(bytes.iter().position(|&byte| byte == b'=').unwrap_or(0));
    if let Err(masked) = redactor.value(name, value) {
        assert_eq!(masked.len, value.len() as u64);
    }
    let _ = (redactor.name(name), redactor.raw(bytes));
    let argv: Vec<Value> = bytes.split(|&byte| byte == 0).map(|part| Value::Clear(Raw::from(part))).collect();
    assert_eq!(redactor.arguments(&argv).len(), argv.len());
});
